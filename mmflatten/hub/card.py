"""The card of a published model, README.md."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from mmflatten.tasks import tasks
from mmflatten.text import align, printable

_PLAIN = re.compile(r'[A-Za-z0-9 ]*|\d+\.\d+', re.ASCII)  # cannot be read as Markdown
_SIMILAR = str.maketrans('`|\\', "'//")


def write_card(path: Path, facts: dict[str, Any], numbers: dict[str, Any]) -> None:
    """Write the card, with the header that the hub reads. Text from data stands in code, where
    nothing is active.

    Args:
        facts: content of `mmflatten.json`.
        numbers: `input` of `config.json`.
    """
    sections = [
        _title(facts),
        _summary(facts),
        _use(facts),
        '## Metrics\n\n' + _metrics(facts['metrics'].get('values', {})),
        *([_onnx(facts['onnx'])] if facts.get('onnx') else []),
        _input_and_classes(numbers, facts['classes']),
        _training(facts),
        _files(facts['files']),
    ]
    path.write_text('\n\n'.join(sections) + '\n', encoding='utf-8')


def _title(facts: dict[str, Any]) -> str:
    header = dict(
        library_name='mmflatten',
        pipeline_tag=tasks()[facts['task']].hub_tag,
        tags=[facts['task'], 'mmflatten'],
    )
    return (
        f'---\n{yaml.safe_dump(header, sort_keys=False)}---\n\n# {_code(printable(facts["name"]))}'
    )


def _summary(facts: dict[str, Any]) -> str:
    weights = facts['weights']
    millions = weights['parameters'] / 1e6
    rows = [
        ('task', facts['task']),
        ('model', facts['model']),
        ('weights', f'{millions:.2f} million values ({", ".join(weights["types"])})'),
    ]
    return _table(('', ''), rows)


def _use(facts: dict[str, Any]) -> str:
    task = tasks()[facts['task']]
    name = shlex.quote(printable(facts['name']))
    inputs = ' '.join(f'{part}.png' for part in task.inputs)
    return (
        f'## Use\n\n```shell\npip install "mmflatten[hub,{task.abbreviation}]"\n'
        f'mmflatten predict {name} {inputs} --out results\n```\n\n'
        'Name the folder, or `hf://user/model`. `model.safetensors` and `config.json` are data:'
        ' nothing is executed.'
    )


def _metrics(values: dict[str, Any]) -> str:
    if not values:
        return 'Not measured.'
    rows = []
    for name, value in values.items():
        rows.append((name, f'{value:.4g}' if isinstance(value, float) else value))
    return _table(('metric', 'value'), rows)


def _onnx(facts: dict[str, Any]) -> str:
    """Return the section on the ONNX file: its inputs, outputs and difference from PyTorch."""
    height, width = facts['size']
    sides = f'{height} x {width}'
    if facts['sides']:
        sides = 'from {} to {}'.format(*facts['sides'])
    batch = '1'
    if facts['batch']:
        batch = 'from {} to {}'.format(*facts['batch'])
    difference = facts['difference']
    rows = [
        ('precision', facts['precision']),
        ('height and width', sides),
        ('batch', batch),
        ('outputs', ', '.join(facts['outputs'])),
        ('largest difference from PyTorch, in float32', f'{difference["largest"]:.2g}'),
    ]
    if difference['mean'] is not None:
        rows.append(('mean difference from PyTorch', f'{difference["mean"]:.2g}'))
    rows.append(('compared images', difference['images']))
    images = 'RGB images `(B, 3, H, W)`, float32 from 0 to 255'
    if facts.get('bands') is not None:
        number = len(facts['mean'])
        images = (
            f'images of {number} bands `(B, {number}, H, W)`, float32, as their files have them'
        )
    return f'## ONNX\n\n`model.onnx` takes {images}.\n\n' + _table(('', ''), rows)


def _input_and_classes(numbers: dict[str, Any], classes: list[str]) -> str:
    names = printable(json.dumps(classes, ensure_ascii=False))
    return f'## Input and classes\n\n```text\n{json.dumps(numbers)}\n{names}\n```'


def _training(facts: dict[str, Any]) -> str:
    rows = [*facts['training'].items(), *facts['environment'].items()]
    return '## Training and environment\n\n' + _table(('', ''), rows)


def _files(files: dict[str, dict[str, Any]]) -> str:
    rows = [(name, file['bytes'], file['sha256']) for name, file in files.items()]
    return '## Files\n\n' + _table(('file', 'bytes', 'SHA-256'), rows)


def _table(header: tuple[str, ...], rows: list[tuple]) -> str:
    cells = [[_cell(str(value)) for value in row] for row in rows]
    return align(cells, header, range(len(header)), markdown=True)


def _cell(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _code(text)


def _code(text: str) -> str:
    """Return text as a span of code. The characters that end it, or a cell of a table, become
    similar ones.
    """
    return f'`{printable(" ".join(text.split()).translate(_SIMILAR))}`'
