"""Where a model is right and wrong, from the predictions of a test: classes, confusions, calibration, worst images.

    mmflatten test CONFIG CHECKPOINT --out results.pkl
    mmflatten analyze results.pkl --out analysis

See docs/analysis_tools.md for what comes out.
"""
import argparse
from collections.abc import Sequence
from dataclasses import replace

from mmflatten.cli.common import output_folder, positive, share, tool_parser
from mmflatten.console import command_line


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten analyze', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('results', help='NAME.pkl of mmflatten test --out NAME.pkl')
    made.add_argument('--config', help='config of the tested model (default: what NAME.json says)')
    made.add_argument('--out', type=output_folder, default='analysis', metavar='DIR',
                      help='folder for tables, figures and analysis.json (default: analysis)')
    made.add_argument('--worst', type=positive, default=12, metavar='N', help='worst images to draw (default: 12)')
    made.add_argument('--score', type=share, default=0.3, metavar='S',
                      help='of detections; confusions and drawings leave out lower ones (default: 0.3)')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.checkpoints.rules import shorten
    from mmflatten.results.reading import read_results
    from mmflatten.results.tasks import analyze
    from mmflatten.results.worst import draw_worst, origin_of_config
    results = read_results(args.results)
    if args.config is not None:
        results = replace(results, origin={**results.origin, **origin_of_config(args.config, results.task)})
    found = analyze(results, args.worst, args.score)
    worst, broken = draw_worst(results, found, args.out, args.score)
    source = dict(results=str(results.path), **{name: results.origin.get(name) for name in ('config', 'checkpoint')})
    written = found.write(args.out, source, worst)
    print(f'{found.text()}\n\n{written}')
    if broken:
        raise ValueError(f'{len(broken)} of {len(worst)} worst images cannot be drawn: {shorten(broken, 3)}')
