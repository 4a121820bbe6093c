"""Grids of runs: what to run, where, and what the results say."""
