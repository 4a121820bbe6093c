"""Where a model attends on a picture: the weights of every attention, drawn for one query, and what they are like.

    mmflatten attention CONFIG CHECKPOINT photo.jpg --out attention
    mmflatten attention CONFIG CHECKPOINT photo.jpg --layer 0 5 --head 2 --query 120,80
    mmflatten attention STEREO_CONFIG CHECKPOINT left.png right.png

See docs/attention_maps.md for what comes out.
"""
import argparse
import json
from collections.abc import Sequence
from typing import Any

from mmflatten.cli.common import natural, output_folder, positive, tool_parser
from mmflatten.console import command_line, own_output

CLASS = 'class'
MAX_HEADS = 23  # drawn beside their mean


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten attention', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('checkpoint', help='checkpoint file; every key must fit the model')
    made.add_argument('image', nargs='+', metavar='IMAGE', help='image; for stereo a left and a right one')
    made.add_argument('--out', type=output_folder, default='attention', metavar='DIR',
                      help='folder for drawings and attention.json (default: attention)')
    made.add_argument('--layer', nargs='+', metavar='NAME',
                      help='layers by the number or name of the table, or the end of a name (default: all)')
    made.add_argument('--head', type=natural, metavar='N', help='draw this head alone, from 0 (default: mean and all)')
    made.add_argument('--query', type=query, metavar='X,Y',
                      help="pixel of the picture as the network sees it, or 'class' for the class token (default: the "
                      'middle)')
    made.add_argument('--part', choices=['attention', 'local', 'both'], default='attention',
                      help='draw the attention, the depthwise convolutions of the values, or both (default: attention)')
    made.add_argument('--queries', type=positive, default=64, metavar='N',
                      help='queries that the statistics are taken over (default: 64)')
    made.add_argument('--json', action='store_true', help='print attention.json instead of the table')
    made.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if there is one)')
    return made


def query(text: str) -> tuple[int, int] | str:
    """A pixel or the class token, for argparse."""
    x, comma, y = text.partition(',')
    if text == CLASS:
        return text
    if not (comma and x.isdecimal() and y.isdecimal()):
        raise argparse.ArgumentTypeError(f'must be X,Y in pixels, such as 120,80, or {CLASS}; received {text}')
    return int(x), int(y)


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    with own_output() as lines:
        described, text = _attend(args)
        lines.write((json.dumps(described, indent=2) if args.json else text) + '\n')


def _attend(args: argparse.Namespace) -> tuple[dict, str]:
    # Imported here, so that a missing library ends with one line that says how to install it.
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
        raise ValueError(f'query ({place}) is for layers with a class token; none of these has one: '
                         f'{", ".join(layer.name for layer in layers)}')
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
    described = dict(config=args.config, checkpoint=args.checkpoint, image=args.image, picture=[height, width],
                     query=place, part=args.part, queries=args.queries, layers=entries)
    (out / 'attention.json').write_text(json.dumps(described, indent=2) + '\n', encoding='utf-8')
    drawn, shown = len(layers) - tokens.count(None), place if place == CLASS else f'{place[0]},{place[1]}'
    return described, f'{table(entries)}\n\n{drawn} drawings of query {shown} and attention.json: {out}'


def _image(words: list[str], stereo: bool) -> Any:
    if len(words) != (2 if stereo else 1):
        raise ValueError(f'IMAGE ({" ".join(words)}) must be {"a left and a right image" if stereo else "one image"}')
    return tuple(words) if stereo else words[0]


def _token(layer: Any, place: tuple[int, int] | str, size: tuple[int, int]) -> int | None:
    """The number of the query in a layer; None where there is no class token."""
    if isinstance(place, str):
        return 0 if layer.prefix else None
    return layer.token_at(*place, size)


def _draw(layer: Any, token: int, args: argparse.Namespace, picture: Any, place: tuple[int, int] | None) -> Any:
    from mmflatten.explain.map_drawings import attention_figure
    row = layer.row(token, part=args.part).cpu()
    maps = row[:, layer.prefix:].unflatten(1, layer.kv_hw).numpy()
    if args.head is not None:
        drawn = {f'head {args.head}': maps[args.head]}
    else:
        drawn = {'mean': maps.mean(0), **{f'head {number}': weights for number, weights in enumerate(maps[:MAX_HEADS])}}
    asked = 'the class token' if place is None else f'pixel {place[0]},{place[1]}'
    return attention_figure(picture, drawn, place, f'{layer.name}: {layer.kind}, {args.part}, of {asked}')
