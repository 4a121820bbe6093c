"""A page in the browser to try one or two models on pictures of one's own."""
