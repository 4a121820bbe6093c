"""Predictions of a trained model: inputs, runtimes, and results as files."""
