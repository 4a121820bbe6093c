"""Write an offline HTML report on one training, or a comparison of several.

    mmflatten report work_dirs/one --out report.html
    mmflatten report work_dirs/one work_dirs/two --out comparison.html

Predictions are read from WORK_DIR/results.pkl, written by `mmflatten test CONFIG CHECKPOINT --out
WORK_DIR/results.pkl`. The page names the missing parts of a work dir. See docs/report.md.
"""
import argparse
from collections.abc import Sequence
from pathlib import Path

from mmflatten.cli.common import fraction, positive, tool_parser
from mmflatten.console import command_line


def parser() -> argparse.ArgumentParser:
    parser = tool_parser(__doc__, prog='mmflatten report', formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    parser.add_argument('--out', default='report.html', metavar='FILE', help='page to write (default: report.html)')
    parser.add_argument('--images', type=positive, default=24, metavar='N',
                        help='maximum number of test images, half of them the worst, half random (default: 24)')
    parser.add_argument('--score', type=fraction, default=0.3, metavar='S',
                        help='minimum score of detections in confusions and drawings (default: 0.3)')
    parser.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if available)')
    return parser


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    out = Path(args.out)
    if out.suffix not in ('.html', '.htm') or out.is_dir():
        raise ValueError(f'--out: expected a file NAME.html, got {out}.')
    if not out.absolute().parent.is_dir():
        raise ValueError(f'--out: the folder of {out} does not exist. Create it first.')
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.report.page import write_report
    write_report(args.work_dirs, out, args.images, args.score, args.device)
    print(out)
