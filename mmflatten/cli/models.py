"""List all models with a config, with their cost and the results of the papers.

mmflatten models
mmflatten models '*flatten-swin*' --task detection
mmflatten models --pretrained
"""

import fnmatch
import json
import re
from argparse import ArgumentParser, Namespace

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
    from mmflatten.hub.folder import shipped
    from mmflatten.predict.models import list_models
    from mmflatten.text import align, giga, shorten
    from mmflatten.untrusted.published import FACTS

    if args.pretrained:
        print(
            *(
                f'{name}: {json.loads((folder / FACTS).read_text(encoding="utf-8"))["model"]}'
                for name, folder in shipped().items()
                if fnmatch.fnmatch(name, args.pattern)
            ),
            sep='\n',
        )
        return
    entries = {name: library()[name] for name in list_models(args.pattern, args.task)}
    if not entries:
        letters = re.sub('[^a-z0-9]', '', args.pattern.lower())
        similar = [
            name for name in library() if letters and letters in re.sub('[^a-z0-9]', '', name)
        ]
        hint = (
            f'Similar names are {shorten(similar, 3)}.'
            if similar
            else 'See mmflatten models for all names.'
        )
        raise ValueError(f'pattern: no model matches, got {args.pattern}. {hint}')
    rows = []
    for name, entry in entries.items():
        facts = entry['Metadata']
        metrics = dict.fromkeys(
            f'{metric} {value}'
            for result in entry.get('Results', ())
            for metric, value in result['Metrics'].items()
        )
        rows.append(
            (
                name,
                facts['Task'],
                f'{facts["Parameters"] / 1e6:.2f}',
                giga(facts['FLOPs']),
                ', '.join(metrics) or '-',
            )
        )
    print(
        align(rows, ('model', 'task', 'params (M)', 'FLOPs (G)', "the papers' results"), {0, 1, 4})
    )
