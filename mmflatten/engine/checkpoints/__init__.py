"""Exact and safe checkpoints of a training."""
