"""Predictions of a trained model: inputs, engines, results as files."""
