"""Writing of models for others: the folder of a published model, and its card."""
