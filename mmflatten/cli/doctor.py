"""Show the installed libraries and data, problems, and the commands that fix them."""
import argparse
from collections.abc import Sequence

from mmflatten import doctor


def parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog='mmflatten doctor', description=__doc__)


def main(argv: Sequence[str]) -> int:
    parser().parse_args(argv)
    return doctor.main()
