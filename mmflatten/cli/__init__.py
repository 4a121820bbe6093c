"""Command lines. Every module is a command, with a function `main(argv)` and one that makes its `parser()`."""
