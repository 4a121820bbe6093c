"""Draw class activation maps of a classifier, or of each class that a segmentor predicts.

    mmflatten cam CONFIG CHECKPOINT photo.jpg --out cam
    mmflatten cam CONFIG CHECKPOINT photo.jpg other.jpg --target dog cat --method gradcam++

See docs/class_activation.md for the targets and the default layers.
"""
import json
import re
from argparse import ArgumentParser, Namespace

from mmflatten.cli.common import add_device, add_model, add_output, command
from mmflatten.console import own_output, say

METHODS = ('gradcam', 'gradcam++', 'hirescam', 'layercam', 'eigencam')


def options(parser: ArgumentParser) -> None:
    add_model(parser, config='config file of a classifier or segmentor')
    parser.add_argument('image', nargs='+', metavar='IMAGE', help='images, or folders or globs of them')
    add_output(parser, 'cam', 'drawings and cam.json')
    parser.add_argument('--target', nargs='+', metavar='CLASS',
                        help='classes by name or index (default: the predicted classes)')
    parser.add_argument('--method', choices=METHODS,
                        help='method of the grad-cam package (default: gradcam, for segmentors layercam)')
    parser.add_argument('--layer', metavar='NAME',
                        help='stage of the backbone by index, or module by name (default: output norm of the '
                        'last stage for a classifier, of the second-last stage for a segmentor)')
    add_device(parser)


@command('cam', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.text import align
    with own_output() as lines:
        entries, failures = _activations(args)
        rows = [[entry['image'], entry['class'], f'{entry["score"]:.3f}', entry['file']] for entry in entries]
        table = align(rows, ('image', 'class', 'score', 'drawing'), {0, 1, 3})
        lines.write(f'{table}\n\n{entries[0]["method"]} at {entries[0]["layer"]}; cam.json and drawings: {args.out}\n')
        if failures:
            raise ValueError('; '.join(failures))


def _activations(args: Namespace) -> tuple[list[dict], list[str]]:
    """Write drawings and cam.json; return its entries, and messages on images that cannot be read."""
    from mmflatten.explain.cam import cam
    from mmflatten.explain.drawings import class_activation_figure
    from mmflatten.predict.inputs import Inputs
    from mmflatten.predict.predictor import PredictionError, Predictor
    predictor = Predictor(args.config, args.checkpoint, args.device)
    entries, failures = [], []
    for item in Inputs(args.image):
        try:
            picture, activations = cam(predictor, item.image, args.target or (), args.layer, args.method)
        except PredictionError as error:
            failures.append(str(error))
            continue
        if not activations:
            say(f'{item.source}: no pixel of {", ".join(args.target)}')
        for number, each in enumerate(activations):
            args.out.mkdir(parents=True, exist_ok=True)
            file = f'{item.name}_{number}_{re.sub(r"[^A-Za-z0-9-]+", "-", each.name)}.png'
            title = f'{each.name} {each.score:.3f}: {each.method} at {each.layer}'
            class_activation_figure(picture, each.heat, title).savefig(args.out / file, dpi=100)
            entries.append({'file': file, 'image': item.source, 'label': each.label, 'class': each.name,
                            'score': each.score, 'layer': each.layer, 'method': each.method})
    if not entries:
        raise ValueError('; '.join(failures) or f'{" ".join(args.image)}: no pixel of {", ".join(args.target)}')
    (args.out / 'cam.json').write_text(json.dumps(entries, indent=2) + '\n', encoding='utf-8')
    return entries, failures
