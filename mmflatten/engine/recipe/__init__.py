"""Training recipes: length, batch and learning rates of a config, checks of common mistakes, and
the schedule.
"""
