"""Readers of files that others wrote. No code of such a file runs."""
