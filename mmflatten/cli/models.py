"""List the models that there is a config for, with their size and what the papers report.

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
    made = tool_parser(__doc__, prog='mmflatten models', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('pattern', nargs='?', default='*', help="as file names have them, such as '*swin-t*'")
    made.add_argument('--task', choices=list(tasks()))
    made.add_argument('--paths', action='store_true', help='print the config files instead')
    return made


@command_line
def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    from mmflatten.predict.models import list_models
    from mmflatten.text_table import align, giga
    names = list_models(args.pattern, args.task)
    if not names:
        raise ValueError(f"no model's name is like {args.pattern}; `mmflatten models` lists all")
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
