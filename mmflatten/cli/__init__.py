"""Command lines. Every module is a command: `main(argv)` runs it, `main.parser()` makes its
parser.
"""
