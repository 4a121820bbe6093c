"""Checkpoints of a training: written whole, read safely, resumed exactly."""
