"""Draw the attention weights of one query in every layer of a model, and print statistics of the weights.

    mmflatten attention CONFIG CHECKPOINT photo.jpg --out attention
    mmflatten attention CONFIG CHECKPOINT photo.jpg --layer 0 5 --head 2 --query 120,80
    mmflatten attention STEREO_CONFIG CHECKPOINT left.png right.png

See docs/attention_maps.md for the outputs.
"""
import argparse
import json
from collections.abc import Sequence
from typing import Any

from mmflatten.cli.common import non_negative, output_folder, positive, tool_parser
from mmflatten.console import command_line, own_output

CLASS = 'class'
MAX_HEADS = 23  # drawn in addition to their mean


def parser() -> argparse.ArgumentParser:
    parser = tool_parser(__doc__, prog='mmflatten attention', formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='config file')
    parser.add_argument('checkpoint', help='checkpoint file for this config')
    parser.add_argument('image', nargs='+', metavar='IMAGE', help='image, or a left and a right image for stereo')
    parser.add_argument('--out', type=output_folder, default='attention', metavar='DIR',
                        help='folder for drawings and attention.json (default: attention)')
    parser.add_argument('--layer', nargs='+', metavar='NAME',
                        help='layers by index or name, or the end of a name (default: all)')
    parser.add_argument('--head', type=non_negative, metavar='N',
                        help='draw only this head, from 0 (default: mean and all)')
    parser.add_argument('--query', type=query, metavar='X,Y',
                        help="pixel of the network input, or 'class' for the class token (default: the centre)")
    parser.add_argument('--part', choices=['attention', 'local', 'both'], default='attention',
                        help='draw attention, the depthwise convolutions of the values, or both (default: attention)')
    parser.add_argument('--queries', type=positive, default=64, metavar='N',
                        help='number of queries for the statistics (default: 64)')
    parser.add_argument('--json', action='store_true', help='print attention.json instead of the table')
    parser.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if available)')
    return parser


def query(text: str) -> tuple[int, int] | str:
    """Parse a pixel or the class token for argparse."""
    x, comma, y = text.partition(',')
    if text == CLASS:
        return text
    if not (comma and x.isdecimal() and y.isdecimal()):
        raise argparse.ArgumentTypeError(f'expected X,Y in pixels, such as 120,80, or {CLASS}, got {text}')
    return int(x), int(y)


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    with own_output() as lines:
        content, text = _analyze(args)
        lines.write((json.dumps(content, indent=2) if args.json else text) + '\n')


def _analyze(args: argparse.Namespace) -> tuple[dict, str]:
    # Imported here, so that a missing library gives a one-line error.
    from mmflatten.explain.attention.statistics import describe, head_statistics, table
    from mmflatten.explain.maps import probe_image
    from mmflatten.predict.predictor import Predictor
    predictor = Predictor(args.config, args.checkpoint, args.device)
    probe, picture = probe_image(predictor, _image(args.image, predictor.spec.pairs))
    layers = [probe.layer(name) for name in args.layer] if args.layer else probe.layers
    height, width = picture.shape[:2]
    place = args.query or (width // 2, height // 2)
    tokens = [_token(layer, place, (height, width)) for layer in layers]
    for layer in layers:
        layer.check_head(args.head)
    if tokens.count(None) == len(layers):
        names = ', '.join(layer.name for layer in layers)
        raise ValueError(f'--query: no class token in {names}, got {place}. Use X,Y.')
    out = args.out
    out.mkdir(parents=True, exist_ok=True)
    entries = []
    for layer, token in zip(layers, tokens):
        entry = describe(layer, head_statistics(layer, args.queries))
        number = probe.layers.index(layer)
        entry.update(number=number, file=None if token is None else f'{number:02d}_{layer.name}.png')
        if token is not None:
            _draw(layer, token, args, picture, None if place == CLASS else place).savefig(out / entry['file'], dpi=100)
        entries.append(entry)
    content = dict(config=args.config, checkpoint=args.checkpoint, image=args.image, picture=[height, width],
                   query=place, part=args.part, queries=args.queries, layers=entries)
    (out / 'attention.json').write_text(json.dumps(content, indent=2) + '\n', encoding='utf-8')
    shown = place if place == CLASS else f'{place[0]},{place[1]}'
    drawings = len(layers) - tokens.count(None)
    return content, f'{table(entries)}\n\n{drawings} drawings of query {shown} and attention.json: {out}'


def _image(words: list[str], stereo: bool) -> Any:
    if len(words) != (2 if stereo else 1):
        expected = 'a left and a right image' if stereo else 'one image'
        raise ValueError(f'IMAGE: expected {expected}, got {" ".join(words)}.')
    return tuple(words) if stereo else words[0]


def _token(layer: Any, place: tuple[int, int] | str, size: tuple[int, int]) -> int | None:
    """Return the index of the query in a layer, or None if the layer has no class token."""
    if isinstance(place, str):
        return 0 if layer.prefix else None
    return layer.token_at(*place, size)


def _draw(layer: Any, token: int, args: argparse.Namespace, picture: Any, place: tuple[int, int] | None) -> Any:
    from mmflatten.explain.drawings import attention_figure
    maps = layer.on_map(layer.row(token, part=args.part).cpu()).numpy()
    if args.head is not None:
        selected = {f'head {args.head}': maps[args.head]}
    else:
        selected = {f'head {number}': weights for number, weights in enumerate(maps[:MAX_HEADS])}
        selected = {'mean': maps.mean(0), **selected}
    name = 'the class token' if place is None else f'pixel {place[0]},{place[1]}'
    return attention_figure(picture, selected, place, f'{layer.name}: {layer.kind}, {args.part}, of {name}')
