"""Draw the papers' figures of attention for your models and images, a PNG each, with all numbers in
figures.json.

    python lab/scripts/attention_figures.py MODEL [MODEL ...] --images a.png b.png --out figures
    python lab/scripts/attention_figures.py A=CONFIG,CHECKPOINT B=CONFIG,CHECKPOINT \\
        --images a.png --figure rank maps

A MODEL is LABEL=CONFIG,CHECKPOINT. The figures:

    distribution     weight of the heaviest keys (FLatten Transformer, Figure 3)
    focusing         entropy over the power of the focused function (FLatten Transformer, Figure 4)
    matrices         whole matrices, also behind local concentration (FLatten Transformer, Figure 5;
                     L2ViT, Figure 2)
    rank             rank by layer, with and without the depthwise convolution (FLatten Transformer,
                     Figure 5)
    maps             weights of one query (FLatten Transformer, Figures 3 and 8)
    concentration    entropy and distance by layer (L2ViT, Figure 2)
    receptive-field  effective receptive fields (L2ViT)
    levels           weight by level of focal attention (Focal Transformer, Figure 7)
    biases           learned biases of pooled tokens (Focal Transformer, Figures 8 and 9)
    basis            basis masks (Factorized Attention, Figure 7)
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from attention_study.figures import FIGURES, make_figures

from mmflatten.cli.common import non_negative, tool_parser
from mmflatten.console import command_line, prints_to_stderr


def model(text: str) -> tuple[str, str, str]:
    """Parse LABEL=CONFIG,CHECKPOINT for argparse."""
    label, _, files = text.partition('=')
    config, _, checkpoint = files.partition(',')
    if not (label.replace('-', '').replace('_', '').isalnum() and config and checkpoint):
        raise argparse.ArgumentTypeError(
            f'expected LABEL=CONFIG,CHECKPOINT with a label of letters, digits, - and _, got {text}'
        )
    return label, config, checkpoint


def pixel(text: str) -> tuple[int, int]:
    """Parse X,Y for argparse."""
    x, _, y = text.partition(',')
    if not (x.isdecimal() and y.isdecimal()):
        raise argparse.ArgumentTypeError(f'expected X,Y in pixels, such as 30,40, got {text}')
    return int(x), int(y)


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        'models', nargs='+', type=model, metavar='MODEL', help='LABEL=CONFIG,CHECKPOINT'
    )
    parser.add_argument('--images', nargs='+', required=True, metavar='IMAGE', help='image files')
    parser.add_argument(
        '--figure',
        nargs='+',
        choices=FIGURES,
        metavar='NAME',
        help='figures to draw (default: all that apply to one of the models)',
    )
    parser.add_argument(
        '--layer',
        type=non_negative,
        default=0,
        metavar='N',
        help='layer of maps and matrices, from 0 (default: %(default)s)',
    )
    parser.add_argument(
        '--query',
        type=pixel,
        metavar='X,Y',
        help='query of maps, a pixel of the picture as the network sees it (default: its centre)',
    )
    parser.add_argument(
        '--stage',
        type=int,
        default=0,
        metavar='N',
        help='stage whose receptive field is drawn, from 0; -1 is the last (default: %(default)s)',
    )
    parser.add_argument(
        '--module',
        metavar='NAME',
        help='factorized attention whose basis masks are drawn (default: the one after fpn1)',
    )
    parser.add_argument(
        '--masks',
        nargs='+',
        type=non_negative,
        metavar='K',
        help='basis masks, from 0, heads in sequence (default: six with the largest coefficients)',
    )
    parser.add_argument(
        '--out',
        type=Path,
        default=Path('figures'),
        metavar='DIR',
        help='folder for the figures and figures.json (default: %(default)s)',
    )
    parser.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if there is one)')
    return parser.parse_args(argv)


@command_line
def main(argv: Sequence[str]) -> None:
    args = parse_arguments(argv)
    models = {label: (config, checkpoint) for label, config, checkpoint in args.models}
    if len(models) < len(args.models):
        raise ValueError(
            'MODEL: expected different labels, got'
            f' {", ".join(label for label, _, _ in args.models)}.'
        )
    with prints_to_stderr():
        figures = make_figures(models, args, args.figure)
    numbers = dict(models=models, images=args.images, figures=figures)
    (args.out / 'figures.json').write_text(json.dumps(numbers, indent=1) + '\n', encoding='utf-8')
    print(f'{", ".join(figures)}: {args.out}')


if __name__ == '__main__':
    sys.exit(main())
