"""The papers' pictures of attention, of models and images of one's own: a PNG each, and all their numbers.

    python tools/maintain/figures.py MODEL [MODEL ...] --images a.png b.png --out figures
    python tools/maintain/figures.py one=CONFIG,CHECKPOINT two=CONFIG,CHECKPOINT --images a.png --figure rank maps

A MODEL is LABEL=CONFIG,CHECKPOINT. figures.json holds every number that is drawn; docs/attention_study.md shows and
explains each figure:

    distribution     weight of the heaviest keys (FLatten Transformer, Figure 3)
    focusing         entropy over the power of the focused function (FLatten Transformer, Figure 4)
    matrices         whole attention matrices (FLatten Transformer, Figure 5; L2ViT, Figure 2)
    rank             rank by layer, with and without the depthwise convolution (FLatten Transformer, Figure 5)
    maps             where one query attends (FLatten Transformer, Figures 3 and 8)
    concentration    entropy and distance by layer (L2ViT, Figure 2)
    receptive-field  effective receptive fields (L2ViT)
    levels           weight by level of focal attention (Focal Transformer, Figure 7)
    biases           learned biases of pooled tokens (Focal Transformer, Figure 8)
    basis            basis masks (Factorized Attention, Figure 7)
"""
import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from attention_study.figures import FIGURES, make_figures
from attention_study.study import Options

from mmflatten.cli.common import non_negative, tool_parser
from mmflatten.console import command_line, own_output


def model(text: str) -> tuple[str, str, str]:
    """LABEL=CONFIG,CHECKPOINT, for argparse."""
    label, _, files = text.partition('=')
    config, _, checkpoint = files.partition(',')
    if not (label.replace('-', '').replace('_', '').isalnum() and config and checkpoint):
        raise argparse.ArgumentTypeError(f'must be LABEL=CONFIG,CHECKPOINT with a label of letters, digits, - and _; '
                                         f'received {text}')
    return label, config, checkpoint


def pixel(text: str) -> tuple[int, int]:
    """X,Y for argparse."""
    x, _, y = text.partition(',')
    if not (x.isdecimal() and y.isdecimal()):
        raise argparse.ArgumentTypeError(f'must be X,Y in pixels, such as 30,40; received {text}')
    return int(x), int(y)


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('models', nargs='+', type=model, metavar='MODEL', help='LABEL=CONFIG,CHECKPOINT')
    made.add_argument('--images', nargs='+', required=True, metavar='IMAGE', help='image files')
    made.add_argument('--figure', nargs='+', choices=FIGURES, metavar='NAME',
                      help='which figures (default: all that a model suits)')
    made.add_argument('--layer', type=non_negative, default=0, metavar='N',
                      help='layer of maps and matrices, from 0 (default: %(default)s)')
    made.add_argument('--query', type=pixel, metavar='X,Y',
                      help='query of maps, a pixel of the picture as the network sees it (default: the middle)')
    made.add_argument('--stage', type=int, default=0, metavar='N',
                      help='stage whose receptive field is drawn, from 0, the last -1 (default: %(default)s)')
    made.add_argument('--out', type=Path, default=Path('figures'), metavar='DIR',
                      help='folder for the figures and figures.json (default: %(default)s)')
    made.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if there is one)')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    models = {label: (config, checkpoint) for label, config, checkpoint in args.models}
    if len(models) < len(args.models):
        raise ValueError(f'labels ({", ".join(label for label, _, _ in args.models)}) must differ')
    options = Options(args.images, args.out, args.layer, args.query, args.stage, args.device)
    with own_output():
        found = make_figures(models, options, args.figure)
    numbers = dict(models=models, images=args.images, figures=found)
    (args.out / 'figures.json').write_text(json.dumps(numbers, indent=1) + '\n', encoding='utf-8')
    print(f'{", ".join(found)}: {args.out}')


if __name__ == '__main__':
    sys.exit(main())
