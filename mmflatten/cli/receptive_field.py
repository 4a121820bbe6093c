"""Which pixels the middle of each stage's map depends on: the effective receptive field, drawn and in figures.

    mmflatten receptive-field CONFIG CHECKPOINT images/ --out receptive_field
    mmflatten receptive-field CONFIG CHECKPOINT images/ --layer 2 -1 --size 512 512
    mmflatten receptive-field CONFIG CHECKPOINT --noise 20 --size 512 512

See docs/class_activation.md for what it means.
"""
import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmflatten.cli.common import output_folder, positive, tool_parser
from mmflatten.console import command_line, own_output


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten receptive-field',
                       formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('checkpoint', help='checkpoint file; every key must fit the model')
    made.add_argument('image', nargs='*', metavar='IMAGE', help='images, or folders or globs of them; the mean counts')
    made.add_argument('--layer', nargs='+', metavar='NAME',
                      help='stages of the backbone by number, or modules by name (default: all stages)')
    made.add_argument('--noise', type=positive, metavar='N', help='N images of normal noise in place of files')
    made.add_argument('--size', nargs=2, type=positive, metavar=('HEIGHT', 'WIDTH'),
                      help='of the input (default: what the test pipeline makes of the images)')
    made.add_argument('--out', type=output_folder, default='receptive_field', metavar='DIR',
                      help='folder for receptive_field.png and .json (default: receptive_field)')
    made.add_argument('--json', action='store_true', help='print receptive_field.json instead of the table')
    made.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if there is one)')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    with own_output() as lines:
        described, text = _receptive_fields(args)
        lines.write((json.dumps(described, indent=2) if args.json else text) + '\n')


def _receptive_fields(args: argparse.Namespace) -> tuple[dict, str]:
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.explain.heat_maps import receptive_field_figure
    from mmflatten.explain.layer_maps import stages
    from mmflatten.explain.receptive_field import receptive_field
    from mmflatten.predict.predictor import Predictor
    from mmflatten.text_table import align
    predictor = Predictor(args.config, args.checkpoint, args.device)
    if predictor.spec.pairs:
        raise ValueError(f'{args.config}: stereo has two images; receptive fields are of models of one')
    images = _images(args, predictor)
    layers = args.layer or range(len(stages(predictor.model)))
    fields = [receptive_field(predictor.model, images, layer) for layer in layers or [None]]
    height, width = fields[0].values.shape
    out = args.out
    out.mkdir(parents=True, exist_ok=True)
    drawn = {f'{field.layer}, radius {field.radius:.0f}': field.values for field in fields}
    title = f'{Path(args.config).stem}: effective receptive fields, mean of {len(images)} images of {height} x {width}'
    receptive_field_figure(drawn, title).savefig(out / 'receptive_field.png', dpi=100)
    entries = [dict(layer=field.layer, center=field.center, **field.figures()) for field in fields]
    described = dict(config=args.config, checkpoint=args.checkpoint, images=args.image, noise=args.noise or 0,
                     size=[height, width], layers=entries)
    (out / 'receptive_field.json').write_text(json.dumps(described, indent=2) + '\n', encoding='utf-8')
    rows = [[entry['layer'], f'{100 * entry["share_50"]:.1f}', f'{100 * entry["share_95"]:.1f}',
             f'{entry["radius"]:.1f}'] for entry in entries]
    table = align(rows, ('layer', '50 % in (% of input)', '95 % in (% of input)', 'radius (pixels)'), {0})
    return described, f'{table}\n\nreceptive_field.png and receptive_field.json: {out}'


def _images(args: argparse.Namespace, predictor: Any) -> list:
    """The inputs of the network, `(3, H, W)` each."""
    import torch
    import torch.nn.functional as F

    from mmflatten.predict.inputs import Inputs
    if bool(args.image) == bool(args.noise):
        raise ValueError(f'IMAGE ({" ".join(args.image)}) and --noise ({args.noise}): give one of them')
    if args.noise:
        if args.size is None:
            raise ValueError(f'--noise ({args.noise}) requires --size HEIGHT WIDTH')
        generator = torch.Generator().manual_seed(0)
        return list(torch.randn(args.noise, 3, *args.size, generator=generator).to(predictor.device))
    batches = [predictor.prepare(item.image)['inputs'] for item in Inputs(args.image)]
    if args.size:
        batches = [F.interpolate(batch, tuple(args.size), mode='bilinear', antialias=True) for batch in batches]
    sizes = {f'{batch.shape[-2]} x {batch.shape[-1]}' for batch in batches}
    if len(sizes) > 1:
        raise ValueError(f'IMAGE ({" ".join(args.image)}) gives inputs of several sizes ({", ".join(sorted(sizes))}); '
                         '--size HEIGHT WIDTH brings them to one')
    return [batch[0] for batch in batches]
