"""User data: reading, checking, splitting, and writing a config for it."""
