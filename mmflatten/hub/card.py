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
    """
    task, name = tasks()[facts['task']], printable(facts['name'])
    metrics = [
        (key, f'{value:.4g}' if isinstance(value, float) else value)
        for key, value in facts['metrics'].get('values', {}).items()
    ]
    header = dict(
        library_name='mmflatten', pipeline_tag=task.hub_tag, tags=[facts['task'], 'mmflatten']
    )
    inputs, extras = ' '.join(f'{part}.png' for part in task.inputs), f'hub,{task.abbreviation}'
    parameters = (
        f'{facts["weights"]["parameters"] / 1e6:.2f} million values'
        f' ({", ".join(facts["weights"]["types"])})'
    )
    sections = [
        f'---\n{yaml.safe_dump(header, sort_keys=False)}---\n\n# {_code(name)}',
        _table(
            ('', ''), [('task', facts['task']), ('model', facts['model']), ('weights', parameters)]
        ),
        (
            f'## Use\n\n```shell\npip install "mmflatten[{extras}]"\nmmflatten predict'
            f' {shlex.quote(name)} {inputs} --out results\n```\n\nGive the folder, or'
            ' `hf://user/model`. `model.safetensors` and `config.json` are data: nothing is'
            ' executed.'
        ),
        '## Metrics\n\n' + (_table(('metric', 'value'), metrics) if metrics else 'Not measured.'),
        (
            f'## Input and classes\n\n```text\n{json.dumps(numbers)}\n'
            f'{printable(json.dumps(facts["classes"], ensure_ascii=False))}\n```'
        ),
        '## Training and environment\n\n'
        + _table(('', ''), [*facts['training'].items(), *facts['environment'].items()]),
        '## Files\n\n'
        + _table(
            ('file', 'bytes', 'SHA-256'),
            [(file, entry['bytes'], entry['sha256']) for file, entry in facts['files'].items()],
        ),
    ]
    path.write_text('\n\n'.join(sections) + '\n', encoding='utf-8')


def _table(header: tuple[str, ...], rows: list[tuple]) -> str:
    cells = [
        [text if _PLAIN.fullmatch(text) else _code(text) for text in map(str, row)] for row in rows
    ]
    return align(cells, header, range(len(header)), markdown=True)


def _code(text: str) -> str:
    """Return text as a span of code. The characters that end it, or a cell of a table, become
    similar ones.
    """
    return f'`{printable(" ".join(text.split()).translate(_SIMILAR))}`'
