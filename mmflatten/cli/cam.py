"""Draw class activation maps of classes, boxes or regions.

    mmflatten cam CONFIG CHECKPOINT photo.jpg --out cam
    mmflatten cam CONFIG CHECKPOINT photo.jpg other.jpg --target dog cat --method gradcam++
    mmflatten cam CONFIG CHECKPOINT photo.jpg --layer 2 --score 0.5 --top 10

See docs/class_activation.md for the targets and the default layers.
"""
import argparse
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from mmflatten.cli.common import fraction, output_folder, positive, tool_parser
from mmflatten.console import command_line, own_output

METHODS = ('gradcam', 'gradcam++', 'hirescam', 'layercam', 'xgradcam', 'eigencam', 'eigengradcam')


def parser() -> argparse.ArgumentParser:
    parser = tool_parser(__doc__, prog='mmflatten cam', formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='config file of a classifier, detector or segmentor')
    parser.add_argument('checkpoint', help='checkpoint file for this config')
    parser.add_argument('image', nargs='+', metavar='IMAGE', help='images, or folders or globs of them')
    parser.add_argument('--out', type=output_folder, default='cam', metavar='DIR',
                        help='folder for drawings and cam.json (default: cam)')
    parser.add_argument('--target', nargs='+', metavar='CLASS',
                        help='classes by name or index (default: the predicted classes)')
    parser.add_argument('--method', choices=METHODS,
                        help='method of the grad-cam package (default: gradcam for classifiers, layercam otherwise)')
    parser.add_argument('--layer', metavar='NAME',
                        help='stage of the backbone by index, or module by name (default: output norm of the '
                        'last stage for a classifier, of the second-last stage otherwise, or of the last stage that '
                        'the score of a box depends on)')
    parser.add_argument('--score', type=fraction, default=.3, metavar='S',
                        help='skip boxes with a lower score (default: 0.3)')
    parser.add_argument('--top', type=positive, default=5, metavar='N',
                        help='maximum number of boxes per image, in order of scores (default: 5)')
    parser.add_argument('--json', action='store_true', help='print cam.json instead of the table')
    parser.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if available)')
    return parser


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    with own_output() as lines:
        entries, text, failures = _activations(args)
        lines.write((json.dumps(entries, indent=2) if args.json else text) + '\n')
        if failures:
            raise ValueError('; '.join(failures))


def _activations(args: argparse.Namespace) -> tuple[list[dict], str, list[str]]:
    """Return the entries of cam.json, a table of them, and messages on images or boxes without a map."""
    # Imported here, so that a missing library gives a one-line error.
    from mmflatten.explain.cam import cam
    from mmflatten.predict.inputs import Inputs
    from mmflatten.predict.predictor import PredictionError, Predictor
    from mmflatten.text_table import align
    predictor = Predictor(args.config, args.checkpoint, args.device)
    layer = int(args.layer) if args.layer and args.layer.lstrip('-').isdecimal() else args.layer
    out, entries, failures = args.out, [], []
    for item in Inputs(args.image):
        try:
            picture, activations = cam(predictor, item.image, args.target or (), layer, args.method, args.score,
                                       args.top)
        except PredictionError as error:
            failures.append(str(error))
            continue
        if not activations:
            sys.stderr.write(f'{item.source}: {_no_target(args, predictor.spec)}\n')
            continue
        failures += _without_map(item.source, activations)
        for number, activation in enumerate(activations):
            if activation.heat is None:
                continue
            out.mkdir(parents=True, exist_ok=True)
            file = f'{item.name}_{number}_{re.sub(r"[^A-Za-z0-9-]+", "-", activation.name)}.png'
            _draw(picture, activation).savefig(out / file, dpi=100)
            entries.append(dict(file=file, image=item.source, target=number, label=activation.label,
                                **{'class': activation.name}, score=activation.score, box=activation.image_box,
                                layer=activation.layer, method=activation.method))
    if not entries:
        raise ValueError('; '.join(failures) or f'{" ".join(args.image)}: {_no_target(args, predictor.spec)}')
    (out / 'cam.json').write_text(json.dumps(entries, indent=2) + '\n', encoding='utf-8')
    rows = [[entry['image'], entry['class'], f'{entry["score"]:.3f}',
             ' '.join(f'{side:.0f}' for side in entry['box'] or ()), entry['file']] for entry in entries]
    table = align(rows, ('image', 'class', 'score', 'box', 'drawing'), {0, 1, 4})
    layers = ' and '.join(dict.fromkeys(entry['layer'] for entry in entries))
    return entries, f'{table}\n\n{entries[0]["method"]} at {layers}; cam.json and drawings: {out}', failures


def _no_target(args: argparse.Namespace, task: Any) -> str:
    classes = f' of {", ".join(args.target)}' if args.target else ''
    return f'no box{classes} with --score {args.score} or more' if task.has_instances else f'no pixel{classes}'


def _without_map(source: str, activations: Sequence[Any]) -> list[str]:
    from mmflatten.checkpoints.rules import shorten
    boxes = [f'{number} ({each.name} {each.score:.3f})' for number, each in enumerate(activations)
             if each.heat is None]
    if not boxes:
        return []
    return [f'{source}: scores do not depend on --layer for box {shorten(boxes)}. Use another stage, or omit --layer.']


def _draw(picture: Any, activation: Any) -> Any:
    from mmflatten.explain.drawings import class_activation_figure
    title = f'{activation.name} {activation.score:.3f}: {activation.method} at {activation.layer}'
    return class_activation_figure(picture, activation.heat, title, activation.box)
