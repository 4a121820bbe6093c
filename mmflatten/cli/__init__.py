"""Command lines.

Every module is a command: `main(argv)` runs it, and `main.parser()` makes its parser.
"""
