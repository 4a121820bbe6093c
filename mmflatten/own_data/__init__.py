"""One's own data: read, check, split, and write a config for it."""
