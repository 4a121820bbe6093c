"""Report on one or several runs as an offline HTML page."""
