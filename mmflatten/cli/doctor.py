"""What is installed, what is wrong with it, and what fixes it, on one screen."""
import argparse
from collections.abc import Sequence

from mmflatten import doctor


def parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog='mmflatten doctor', description=__doc__)


def main(argv: Sequence[str]) -> int:
    parser().parse_args(argv)
    return doctor.main()
