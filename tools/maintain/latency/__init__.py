"""Parts of `latency_table.py`: the models, the measurement of one row, and the page."""
