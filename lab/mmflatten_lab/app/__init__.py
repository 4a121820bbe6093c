"""A web page to try one or two models on any image."""
