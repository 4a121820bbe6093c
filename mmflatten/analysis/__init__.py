"""The library half of `tools/analysis`: what models cost, how fast they are, and what the papers say."""
