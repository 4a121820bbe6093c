"""Page on one or several runs: one offline HTML file."""
