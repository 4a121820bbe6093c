"""Write an offline HTML report on one training, or a comparison of several.

    mmflatten report work_dirs/one --out report.html
    mmflatten report work_dirs/one work_dirs/two --out comparison.html

Predictions are read from WORK_DIR/results.pkl, written by `mmflatten test CONFIG CHECKPOINT --out
WORK_DIR/results.pkl`. The page names the missing parts of a work dir. See docs/report.md.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.cli.common import add_score, command, positive, require_folder


def options(parser: ArgumentParser) -> None:
    parser.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    parser.add_argument(
        '--out',
        default='report.html',
        type=Path,
        metavar='FILE',
        help='page to write (default: report.html)',
    )
    parser.add_argument(
        '--images',
        type=positive,
        default=24,
        metavar='N',
        help='maximum number of test images, half of them the worst, half random (default: 24)',
    )
    add_score(parser, 'minimum score of detections in errors and drawings')


@command('report', __doc__, options)
def main(args: Namespace) -> None:
    if args.out.suffix not in ('.html', '.htm'):
        raise ValueError(f'--out: expected a file NAME.html, got {args.out}.')
    require_folder('--out', args.out)
    from mmflatten.results.page.page import write_report

    write_report(args.work_dirs, args.out, images=args.images, score=args.score)
    print(args.out)
