"""Time and memory of models and attentions, measured in one run."""
