"""A page to try one or two models on pictures of your own."""
