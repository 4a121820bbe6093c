"""Analyze the predictions of a test: metrics of each class, confusions, calibration, worst images.

    mmflatten test CONFIG CHECKPOINT --out results.pkl
    mmflatten analyze results.pkl --out analysis

See docs/analysis_tools.md for the output files.
"""
import argparse
from collections.abc import Sequence

from mmflatten.cli.common import fraction, output_folder, positive, tool_parser
from mmflatten.console import command_line


def parser() -> argparse.ArgumentParser:
    parser = tool_parser(__doc__, prog='mmflatten analyze', formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('results', help='NAME.pkl of mmflatten test --out NAME.pkl')
    parser.add_argument('--config', help='config of the tested model (default: config in NAME.json)')
    parser.add_argument('--out', type=output_folder, default='analysis', metavar='DIR',
                        help='folder for tables, figures and analysis.json (default: analysis)')
    parser.add_argument('--worst', type=positive, default=12, metavar='N',
                        help='number of worst images to draw (default: 12)')
    parser.add_argument('--score', type=fraction, default=0.3, metavar='S',
                        help='minimum score of detections in confusions and drawings (default: 0.3)')
    return parser


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.checkpoints.rules import shorten
    from mmflatten.results.analysis import analyze
    from mmflatten.results.reading import read_results
    from mmflatten.results.writing import draw_worst, write_analysis
    results = read_results(args.results, args.config)
    analysis = analyze(results, args.worst, args.score)
    worst, broken = draw_worst(results, analysis, args.out, args.score)
    source = dict(results=str(results.path), **{name: results.origin.get(name) for name in ('config', 'checkpoint')})
    written = write_analysis(analysis, args.out, source, worst)
    print(f'{analysis.text()}\n\n{written}')
    if broken:
        raise ValueError(f'{len(broken)} of {len(worst)} worst images cannot be drawn: {shorten(broken, 3)}')
