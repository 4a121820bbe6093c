"""List all models with a config, with their cost and the results of the papers.

    mmflatten models
    mmflatten models '*flatten-swin*' --task detection
"""
import argparse
from collections.abc import Sequence

from mmflatten.cli.common import tool_parser
from mmflatten.config_library import library, library_root
from mmflatten.console import command_line
from mmflatten.tasks import tasks


def parser() -> argparse.ArgumentParser:
    parser = tool_parser(__doc__, prog='mmflatten models', formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('pattern', nargs='?', default='*', help="glob for the names, such as '*swin-t*'")
    parser.add_argument('--task', choices=list(tasks()))
    parser.add_argument('--paths', action='store_true', help='print paths of config files instead')
    return parser


@command_line
def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    from mmflatten.predict.models import list_models
    from mmflatten.text_table import align, giga
    names = list_models(args.pattern, args.task)
    if not names:
        raise ValueError(f'pattern: no model matches, got {args.pattern}. See mmflatten models for all names.')
    entries = {name: library()[name] for name in names}
    if args.paths:
        print(*(library_root() / entry['Config'] for entry in entries.values()), sep='\n')
        return 0
    rows = []
    for name, entry in entries.items():
        facts = entry['Metadata']
        metrics = [f'{metric} {value}' for result in entry.get('Results', ()) for metric, value in
                   result['Metrics'].items()]
        rows.append((name, facts['Task'], f'{facts["Parameters"] / 1e6:.2f}', giga(facts['FLOPs']),
                     ', '.join(dict.fromkeys(metrics)) or '-'))
    print(align(rows, ('model', 'task', 'params (M)', 'FLOPs (G)', "the papers' results"), {0, 1, 4}))
    return 0
