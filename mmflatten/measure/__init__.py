"""FLOPs, speed and memory of models and attentions."""
