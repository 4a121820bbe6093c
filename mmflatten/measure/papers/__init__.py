"""The papers' tables beside what the configs cost: the model zoo."""
