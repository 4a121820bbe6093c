"""Studies: grids of trainings, their execution, and the report on their results."""
