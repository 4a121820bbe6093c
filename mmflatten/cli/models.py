"""List all models with a config, with their cost and the results of the papers.

mmflatten models
mmflatten models '*flatten-swin*' --task detection
mmflatten models --pretrained
"""

import fnmatch
import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from mmflatten.cli.common import command


def options(parser: ArgumentParser) -> None:
    from mmflatten.tasks import tasks

    parser.add_argument(
        'pattern', nargs='?', default='*', help="glob for the names, such as '*swin-t*'"
    )
    parser.add_argument('--task', choices=list(tasks()), help='list only the models for this task')
    parser.add_argument(
        '--pretrained', action='store_true', help='list the trained models in the package instead'
    )


@command('models', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.config import library
    from mmflatten.predict.models import list_models
    from mmflatten.text import align

    if args.pretrained:
        print('\n'.join(_pretrained(args.pattern)))
        return
    names = list_models(args.pattern, args.task)
    if not names:
        raise ValueError(f'pattern: no model matches, got {args.pattern}. {_hint(args.pattern)}')
    rows = [_row(name, library()[name]) for name in names]
    header = ('model', 'task', 'params (M)', 'FLOPs (G)', "the papers' results")
    print(align(rows, header, {0, 1, 4}))


def _pretrained(pattern: str) -> Iterator[str]:
    """Yield a line for each trained model in the package."""
    from mmflatten.hub.folder import shipped
    from mmflatten.untrusted.published import FACTS

    for name, folder in shipped().items():
        if fnmatch.fnmatch(name, pattern):
            facts = json.loads((folder / FACTS).read_text(encoding='utf-8'))
            yield f'{name}: {facts["model"]}'


def _hint(pattern: str) -> str:
    """Return the names that contain the letters and digits of a pattern."""
    from mmflatten.config import library
    from mmflatten.text import shorten

    letters = _letters(pattern.lower())
    similar = []
    if letters:
        similar = [name for name in library() if letters in _letters(name)]
    if not similar:
        return 'See mmflatten models for all names.'
    return f'Similar names are {shorten(similar, 3)}.'


def _letters(text: str) -> str:
    return re.sub('[^a-z0-9]', '', text)


def _row(name: str, entry: Mapping[str, Any]) -> list[str]:
    from mmflatten.text import giga

    facts = entry['Metadata']
    metrics: dict[str, None] = {}  # distinct, in the order of the results
    for result in entry.get('Results', ()):
        metrics |= dict.fromkeys(f'{metric} {value}' for metric, value in result['Metrics'].items())
    return [
        name,
        facts['Task'],
        f'{facts["Parameters"] / 1e6:.2f}',
        giga(facts['FLOPs']),
        ', '.join(metrics) or '-',
    ]
