"""Print the last validation and the time per iteration of several trainings side by side.

    python tools/analysis/compare_runs.py work_dirs/psmnet-tiny_digits-stereo work_dirs/psmnet-tiny-fa_digits-stereo
"""
import argparse
import sys
from collections.abc import Sequence

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.results.curves import render_comparison


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    args = parser.parse_args(argv)
    print(render_comparison(args.work_dirs))


if __name__ == '__main__':
    sys.exit(main())
