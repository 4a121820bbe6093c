"""Compute and draw the effective receptive field of each stage.

It shows the pixels that the centre of a map depends on.

    mmflatten receptive-field CONFIG CHECKPOINT images/ --out receptive_field
    mmflatten receptive-field CONFIG CHECKPOINT images/ --layer 2 -1 --size 512 512

See docs/attention_maps.md.
"""
import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.cli.common import add_device, add_model, add_output, command, positive
from mmflatten.console import prints_to_stderr


def options(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument('image', nargs='+', metavar='IMAGE',
                        help='images to average over, or folders or globs of them')
    parser.add_argument('--layer', nargs='+', metavar='NAME',
                        help='stages of the backbone by index, or modules by name (default: all stages)')
    parser.add_argument('--size', nargs=2, type=positive, metavar=('HEIGHT', 'WIDTH'),
                        help='size of the input (default: size after the test pipeline)')
    add_output(parser, 'receptive_field', 'receptive_field.png and .json')
    add_device(parser)


@command('receptive-field', __doc__, options)
def main(args: Namespace) -> None:
    with prints_to_stderr() as lines:
        lines.write(_receptive_fields(args) + '\n')


def _receptive_fields(args: Namespace) -> str:
    """Write receptive_field.png and .json; return a table."""
    from torch.nn.functional import interpolate

    from mmflatten.explain.drawings import receptive_field_figure
    from mmflatten.explain.layer_maps import stages
    from mmflatten.explain.receptive_field import receptive_field
    from mmflatten.predict.inputs import Inputs
    from mmflatten.predict.predictor import Predictor
    from mmflatten.text import align
    predictor = Predictor(args.config, args.checkpoint, args.device)
    if predictor.spec.pairs:
        raise ValueError(f'CONFIG: expected a model for single images, got {predictor.task} in {args.config}.')
    batches = [predictor.prepare(item.image)['inputs'] for item in Inputs(args.image)]
    if args.size:
        batches = [interpolate(batch, tuple(args.size), mode='bilinear', antialias=True) for batch in batches]
    images = [batch[0] for batch in batches]
    layers = args.layer or range(len(stages(predictor.model)))
    fields = [receptive_field(predictor.model, images, layer) for layer in layers or [None]]
    height, width = fields[0].values.shape
    args.out.mkdir(parents=True, exist_ok=True)
    panels = {f'{field.layer}, radius {field.radius:.0f}': field.values for field in fields}
    title = f'{Path(args.config).stem}: effective receptive fields, mean of {len(images)} images of {height} x {width}'
    receptive_field_figure(panels, title).savefig(args.out / 'receptive_field.png', dpi=100)
    entries = [dict(layer=field.layer, center=field.center, **field.figures()) for field in fields]
    content = dict(config=args.config, checkpoint=args.checkpoint, images=args.image, size=[height, width],
                   layers=entries)
    (args.out / 'receptive_field.json').write_text(json.dumps(content, indent=2) + '\n', encoding='utf-8')
    rows = [[entry['layer'], f'{100 * entry["share_50"]:.1f}', f'{100 * entry["share_95"]:.1f}',
             f'{entry["radius"]:.1f}'] for entry in entries]
    table = align(rows, ('layer', '50 % in (% of input)', '95 % in (% of input)', 'radius (pixels)'), {0})
    return f'{table}\n\nreceptive_field.png and receptive_field.json: {args.out}'
