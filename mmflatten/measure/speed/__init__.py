"""Time and memory of models and attentions, measured side by side."""
