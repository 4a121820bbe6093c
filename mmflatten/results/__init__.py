"""What trainings and tests left behind."""
