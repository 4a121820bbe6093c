"""One HTML page for one run or several."""
