"""Analyze the predictions of a test: metrics of each class, confusions, worst images.

    mmflatten test CONFIG CHECKPOINT --out results.pkl
    mmflatten analyze results.pkl --out analysis

See docs/analysis_tools.md for the output files.
"""

from argparse import ArgumentParser, Namespace

from mmflatten.cli.common import add_output, add_score, command, positive


def options(parser: ArgumentParser) -> None:
    parser.add_argument('results', help='NAME.pkl of mmflatten test --out NAME.pkl')
    parser.add_argument(
        '--config', help='config of the tested model, whose facts replace those in NAME.json'
    )
    add_output(parser, 'analysis', 'tables, figures and analysis.json')
    parser.add_argument(
        '--worst',
        type=positive,
        default=12,
        metavar='N',
        help='number of worst images to draw (default: 12)',
    )
    add_score(parser, 'minimum score of detections in errors and drawings')


@command('analyze', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.results.analysis import analyze
    from mmflatten.results.reading import read_results
    from mmflatten.results.writing import draw_worst, write_analysis
    from mmflatten.text import shorten

    results = read_results(args.results, args.config)
    analysis = analyze(results, args.worst, args.score)
    worst, broken = draw_worst(results, analysis, out_dir=args.out, score=args.score)
    source = dict(
        results=str(results.path),
        config=results.origin.get('config'),
        checkpoint=results.origin.get('checkpoint'),
    )
    written = write_analysis(analysis, args.out, source=source, worst=worst)
    print(f'{analysis.text()}\n\n{written}')
    if broken:
        raise ValueError(
            f'{len(broken)} of {len(worst)} worst images cannot be drawn: {shorten(broken, 3)}'
        )
