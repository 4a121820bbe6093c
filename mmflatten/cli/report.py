"""One offline HTML page on a training, or on several side by side.

    mmflatten report work_dirs/one --out report.html
    mmflatten report work_dirs/one work_dirs/two --out comparison.html

Predictions are read from WORK_DIR/results.pkl, which `mmflatten test CONFIG CHECKPOINT --out WORK_DIR/results.pkl`
writes. What a work dir lacks is named on the page. See docs/report.md.
"""
import argparse
from collections.abc import Sequence
from pathlib import Path

from mmflatten.cli.common import positive, share, tool_parser
from mmflatten.console import command_line


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten report', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    made.add_argument('--out', default='report.html', metavar='FILE', help='page to write (default: report.html)')
    made.add_argument('--images', type=positive, default=24, metavar='N',
                      help='pictures at most, half of them the worst, half random ones (default: 24)')
    made.add_argument('--score', type=share, default=0.3, metavar='S',
                      help='of detections; confusions and drawings leave out lower ones (default: 0.3)')
    made.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if there is one)')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    out = Path(args.out)
    if out.suffix not in ('.html', '.htm') or out.is_dir():
        raise ValueError(f'--out ({out}) must be a file NAME.html')
    if not out.absolute().parent.is_dir():
        raise ValueError(f'--out ({out}): the folder {out.parent} does not exist; make it first')
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.report.page import write_report
    write_report(args.work_dirs, out, args.images, args.score, args.device)
    print(out)
