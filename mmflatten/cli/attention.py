"""Draw the attention weights of one query in every layer, and print statistics of the weights.

    mmflatten attention CONFIG CHECKPOINT photo.jpg --out attention
    mmflatten attention CONFIG CHECKPOINT photo.jpg --layer 0 5 --head 2 --query 120,80
    mmflatten attention STEREO_CONFIG CHECKPOINT left.png right.png

See docs/attention_maps.md for the outputs.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from mmflatten.cli.common import add_device, add_model, add_output, command, non_negative, positive
from mmflatten.console import prints_to_stderr

CLASS = 'class'
MAX_HEADS = 23  # drawn in addition to their mean


def options(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        'image', nargs='+', metavar='IMAGE', help='image, or a left and a right image for stereo'
    )
    add_output(parser, 'attention', 'drawings and attention.json')
    parser.add_argument(
        '--layer',
        nargs='+',
        metavar='NAME',
        help='layers by index or name, or the end of a name (default: all)',
    )
    parser.add_argument(
        '--head',
        type=non_negative,
        metavar='N',
        help='draw only this head, from 0 (default: mean and all)',
    )
    parser.add_argument(
        '--query',
        type=query,
        metavar='X,Y',
        help="pixel of the network input, or 'class' for the class token (default: the centre)",
    )
    parser.add_argument(
        '--part',
        choices=['attention', 'local', 'both'],
        default='attention',
        help=(
            'draw attention, the depthwise convolutions of the values, or both (default: attention)'
        ),
    )
    parser.add_argument(
        '--queries',
        type=positive,
        default=64,
        metavar='N',
        help='number of queries for the statistics (default: 64)',
    )
    add_device(parser)


def query(text: str) -> tuple[int, int] | str:
    """Parse a pixel or the class token for argparse."""
    x, comma, y = text.partition(',')
    if text == CLASS:
        return text
    if not (comma and x.isdecimal() and y.isdecimal()):
        raise ArgumentTypeError(f'expected X,Y in pixels, such as 120,80, or {CLASS}, got {text}')
    return int(x), int(y)


@command('attention', __doc__, options)
def main(args: Namespace) -> None:
    with prints_to_stderr() as lines:
        lines.write(_analyze(args) + '\n')


def _analyze(args: Namespace) -> str:
    """Write drawings and attention.json; return a table."""
    from mmflatten.explain.attention.statistics import describe, table
    from mmflatten.explain.maps import probe_image
    from mmflatten.predict.predictor import Predictor

    predictor = Predictor(args.config, args.checkpoint, args.device)
    probe, picture = probe_image(predictor, _image(args.image, predictor.task.pairs))
    layers = [probe.layer(name) for name in args.layer] if args.layer else probe.layers
    for layer in layers:
        layer.check_head(args.head)

    # The query of each layer, None for a layer without a class token.
    height, width = picture.shape[:2]
    place = args.query or (width // 2, height // 2)
    tokens = [_token(layer, place, (height, width)) for layer in layers]
    if tokens.count(None) == len(layers):
        names = ', '.join(layer.name for layer in layers)
        raise ValueError(f'--query: no class token in {names}, got {place}. Use X,Y.')

    args.out.mkdir(parents=True, exist_ok=True)
    entries = []
    for layer, token in zip(layers, tokens):
        number = probe.layers.index(layer)
        entry = describe(layer, args.queries) | dict(number=number, file=None)
        if token is not None:
            entry['file'] = f'{number:02d}_{layer.name}.png'
            figure = _draw(layer, token, args=args, picture=picture, place=place)
            figure.savefig(args.out / entry['file'], dpi=100)
        entries.append(entry)
    content = dict(
        config=args.config,
        checkpoint=args.checkpoint,
        image=args.image,
        picture=[height, width],
        query=place,
        part=args.part,
        queries=args.queries,
        layers=entries,
    )
    (args.out / 'attention.json').write_text(json.dumps(content, indent=2) + '\n', encoding='utf-8')
    shown = place if place == CLASS else f'{place[0]},{place[1]}'
    drawings = len(layers) - tokens.count(None)
    return (
        f'{table(entries)}\n\n{drawings} drawings of query {shown} and attention.json: {args.out}'
    )


def _image(words: list[str], pairs: bool) -> str | tuple[str, ...]:
    """Return the file, or the files of a pair."""
    if len(words) != 1 + pairs:
        expected = 'a left and a right image' if pairs else 'one image'
        raise ValueError(f'IMAGE: expected {expected}, got {" ".join(words)}.')
    return tuple(words) if pairs else words[0]


def _token(layer: Any, place: tuple[int, int] | str, size: tuple[int, int]) -> int | None:
    """Return the query at a pixel of an image of `(height, width)`, or the class token."""
    if place == CLASS:
        return 0 if layer.prefix else None
    return layer.token_at(*place, size)


def _draw(
    layer: Any, token: int, *, args: Namespace, picture: Any, place: tuple[int, int] | str
) -> Any:
    """Return a figure of the selected head, or of the mean and the first heads."""
    from mmflatten.explain.drawings import attention_figure

    maps = layer.on_map(layer.row(token, part=args.part).cpu()).numpy()
    if args.head is not None:
        selected = {f'head {args.head}': maps[args.head]}
    else:
        selected = {'mean': maps.mean(0)}
        for number, weights in enumerate(maps[:MAX_HEADS]):
            selected[f'head {number}'] = weights
    name = 'the class token' if place == CLASS else f'pixel {place[0]},{place[1]}'
    return attention_figure(
        picture,
        maps=selected,
        query=None if place == CLASS else place,
        title=f'{layer.name}: {layer.kind}, {args.part}, of {name}',
    )
