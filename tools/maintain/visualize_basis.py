"""Draw the basis masks of a factorized attention over images, as Figure 7 of Factorized Attention.

    python tools/maintain/visualize_basis.py CONFIG CHECKPOINT IMAGE [IMAGE ...]
    python tools/maintain/visualize_basis.py CONFIG CHECKPOINT IMAGE --module backbone.layer3.attention --masks 0 5 17

Each image is a row: the image, then masks with their number and their mean coefficient over the locations.
"""
import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from attention_study.basis import basis_of_image, draw_basis_masks, find_attention, most_used
from mmengine.config import Config
from mmengine.model import BaseModel, revert_sync_batchnorm
from mmengine.registry import MODELS, init_default_scope

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.engine.checkpoints.reading import load_from_local, load_weights


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='a config whose model has FactorizedAttention in it')
    parser.add_argument('checkpoint', help='weights of that model')
    parser.add_argument('images', nargs='+', metavar='IMAGE', help='image files')
    parser.add_argument('--module', metavar='NAME',
                        help='which attention, by its name in the model (default: that of the finest FPN level)')
    parser.add_argument('--masks', nargs='+', type=int, metavar='K',
                        help='which masks, from 0; heads follow each other (default: those with the largest '
                        'coefficients)')
    parser.add_argument('--number', type=int, default=6, metavar='N', help='how many of those (default: %(default)s)')
    parser.add_argument('--out', type=Path, metavar='PNG',
                        help='where to draw (default: work_dirs/basis/<first image>.png)')
    return parser.parse_args(argv)


def load_model(config: Config, checkpoint: str) -> BaseModel:
    """The config's model with all weights of a checkpoint, on the CPU."""
    init_default_scope(config.get('default_scope', 'mmengine'))
    model = revert_sync_batchnorm(MODELS.build(config.model))
    load_weights(model, load_from_local(checkpoint), checkpoint)
    return model


@command_line
def main(argv: Sequence[str]) -> None:
    arguments = parse_arguments(argv)
    if not Path(arguments.config).is_file():
        raise FileNotFoundError(f'config {arguments.config} does not exist; check the path')
    if arguments.number < 1:
        raise ValueError(f'--number ({arguments.number}) must be at least 1')
    config = Config.fromfile(arguments.config)
    model = load_model(config, arguments.checkpoint)
    name, attention = find_attention(model, arguments.module)
    pipeline = config.test_dataloader.dataset.pipeline
    results = [basis_of_image(model, attention, pipeline, image) for image in arguments.images]
    masks = arguments.masks or most_used(results, arguments.number)
    out = arguments.out or Path('work_dirs/basis') / f'{Path(arguments.images[0]).stem}.png'
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    draw_basis_masks(results, masks, out)
    print(f'{name}: masks {", ".join(map(str, masks))} of {len(results[0].masks)}\n{out}')


if __name__ == '__main__':
    sys.exit(main())
