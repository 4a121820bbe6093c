"""Draw class activation maps of classes, boxes or regions.

    mmflatten cam CONFIG CHECKPOINT photo.jpg --out cam
    mmflatten cam CONFIG CHECKPOINT photo.jpg other.jpg --target dog cat --method gradcam++
    mmflatten cam CONFIG CHECKPOINT photo.jpg --layer 2 --score 0.5 --top 10

See docs/class_activation.md for the targets and the default layers.
"""
import json
import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from mmflatten.cli.common import add_device, add_model, add_output, add_score, command, positive
from mmflatten.console import own_output

METHODS = ('gradcam', 'gradcam++', 'hirescam', 'layercam', 'xgradcam', 'eigencam', 'eigengradcam')


def options(parser: ArgumentParser) -> None:
    add_model(parser, config='config file of a classifier, detector or segmentor')
    parser.add_argument('image', nargs='+', metavar='IMAGE', help='images, or folders or globs of them')
    add_output(parser, 'cam', 'drawings and cam.json')
    parser.add_argument('--target', nargs='+', metavar='CLASS',
                        help='classes by name or index (default: the predicted classes)')
    parser.add_argument('--method', choices=METHODS,
                        help='method of the grad-cam package (default: gradcam for classifiers, layercam otherwise)')
    parser.add_argument('--layer', metavar='NAME',
                        help='stage of the backbone by index, or module by name (default: output norm of the '
                        'last stage for a classifier, of the second-last stage otherwise, or of the last stage that '
                        'the score of a box depends on)')
    add_score(parser, 'skip boxes with a lower score')
    parser.add_argument('--top', type=positive, default=5, metavar='N',
                        help='maximum number of boxes per image, in order of scores (default: 5)')
    parser.add_argument('--json', action='store_true', help='print cam.json instead of the table')
    add_device(parser)


@command('cam', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.text import align
    with own_output() as lines:
        entries, failures = _activations(args)
        rows = [[entry['image'], entry['class'], f'{entry["score"]:.3f}',
                 ' '.join(f'{side:.0f}' for side in entry['box'] or ()), entry['file']] for entry in entries]
        table = align(rows, ('image', 'class', 'score', 'box', 'drawing'), {0, 1, 4})
        layers = ' and '.join(dict.fromkeys(entry['layer'] for entry in entries))
        text = f'{table}\n\n{entries[0]["method"]} at {layers}; cam.json and drawings: {args.out}'
        lines.write((json.dumps(entries, indent=2) if args.json else text) + '\n')
        if failures:
            raise ValueError('; '.join(failures))


def _activations(args: Namespace) -> tuple[list[dict], list[str]]:
    """Write drawings and cam.json; return its entries, and messages on images or boxes without a map."""
    from mmflatten.explain.cam import cam
    from mmflatten.predict.inputs import Inputs
    from mmflatten.predict.predictor import PredictionError, Predictor
    from mmflatten.text import shorten
    predictor = Predictor(args.config, args.checkpoint, args.device)
    layer = int(args.layer) if args.layer and args.layer.lstrip('-').isdecimal() else args.layer
    classes = f' of {", ".join(args.target)}' if args.target else ''
    no_target = f'no pixel{classes}'
    if predictor.spec.has_instances:
        no_target = f'no box{classes} with --score {args.score} or more'
    entries, failures = [], []
    for item in Inputs(args.image):
        try:
            picture, activations = cam(predictor, item.image, args.target or (), layer, args.method, args.score,
                                       args.top)
        except PredictionError as error:
            failures.append(str(error))
            continue
        if not activations:
            sys.stderr.write(f'{item.source}: {no_target}\n')
        drawn, without_map = _draw(item, picture, activations, args.out)
        entries += drawn
        if without_map:
            failures.append(f'{item.source}: scores do not depend on --layer for box {shorten(without_map)}. Use '
                            'another stage, or omit --layer.')
    if not entries:
        raise ValueError('; '.join(failures) or f'{" ".join(args.image)}: {no_target}')
    (args.out / 'cam.json').write_text(json.dumps(entries, indent=2) + '\n', encoding='utf-8')
    return entries, failures


def _draw(item: Any, picture: Any, activations: list[Any], out: Path) -> tuple[list[dict], list[str]]:
    """Draw the activations of an image; return the entries of cam.json, and descriptions of the boxes without a map."""
    from mmflatten.explain.drawings import class_activation_figure
    entries, without_map = [], []
    for number, each in enumerate(activations):
        if each.heat is None:
            without_map.append(f'{number} ({each.name} {each.score:.3f})')
            continue
        out.mkdir(parents=True, exist_ok=True)
        file = f'{item.name}_{number}_{re.sub(r"[^A-Za-z0-9-]+", "-", each.name)}.png'
        title = f'{each.name} {each.score:.3f}: {each.method} at {each.layer}'
        class_activation_figure(picture, each.heat, title, each.box).savefig(out / file, dpi=100)
        entries.append({'file': file, 'image': item.source, 'target': number, 'label': each.label, 'class': each.name,
                        'score': each.score, 'box': each.image_box, 'layer': each.layer, 'method': each.method})
    return entries, without_map
