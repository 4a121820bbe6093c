"""Training recipes: what a config trains with, checks of common mistakes, and the schedule of every iteration."""
