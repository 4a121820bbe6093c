"""Attention maps, class activation maps, receptive fields and layer maps of trained models."""
