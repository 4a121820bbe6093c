"""Commands of `mmflatten` that this package adds."""
