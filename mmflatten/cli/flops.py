"""Parameters and FLOPs of configs, next to the numbers in the papers.

They are counted without data, weights or a GPU.

    mmflatten flops configs/flatten_swin/*.py
    mmflatten flops CONFIG --by-module --depth 2
    mmflatten flops CONFIG --shape 640 640 --json flops.json
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmflatten.cli.common import command, positive, require_folder
from mmflatten.console import explain, print_progress, quiet_libraries


def options(parser: ArgumentParser) -> None:
    parser.add_argument('configs', nargs='+', metavar='CONFIG', help='config files')
    parser.add_argument(
        '--shape',
        nargs=2,
        type=positive,
        metavar=('H', 'W'),
        help=(
            "image size (default: the size that the paper's FLOPs are quoted at, otherwise 224 224 "
            'for classifiers, 800 1280 for detectors, 512 2048 for segmentors)'
        ),
    )
    parser.add_argument(
        '--by-module', action='store_true', help='also print the cost of each module'
    )
    parser.add_argument(
        '--depth',
        type=positive,
        default=3,
        metavar='N',
        help='levels of modules for --by-module (default: 3)',
    )
    parser.add_argument('--json', type=Path, metavar='FILE', help='write all counts to FILE')
    parser.add_argument('--markdown', action='store_true', help='print Markdown tables')


@command('flops', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.config import config_file
    from mmflatten.measure.papers.costs import render
    from mmflatten.measure.papers.tables import rows_of_config

    configs = [config_file(config) for config in args.configs]
    if args.json is not None:
        require_folder('--json', args.json)
    with quiet_libraries():
        costs, failures = _count(configs, args.shape and tuple(args.shape))
    if costs:
        print(render(costs, args.markdown))
    if args.by_module:
        for config, cost in costs.items():
            print(f'\n{cost.render_modules(Path(config).stem, args.depth, args.markdown)}')
    if args.json is not None:
        results = []
        for config, cost in costs.items():
            rows = [
                {**row.cells, 'with_products': row.with_products} for row in rows_of_config(config)
            ]
            results.append({'config': config, **cost.as_json(args.by_module), 'paper_rows': rows})
        args.json.write_text(json.dumps(results, indent=2) + '\n', encoding='utf-8')
    if failures:
        raise ValueError(
            f'{len(failures)} of {len(configs)} configs could not be counted: {"; ".join(failures)}'
        )


def _count(
    configs: Sequence[str], shape: tuple[int, int] | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the cost of each config and messages on failures.

    A single config raises its error instead.
    """
    from mmflatten.measure.papers.costs import count_beside_papers

    if len(configs) == 1:
        return {configs[0]: count_beside_papers(configs[0], shape)}, []
    costs, failures = {}, []
    for index, config in enumerate(configs, 1):
        try:
            costs[config] = count_beside_papers(config, shape)
            print_progress(f'[{index}/{len(configs)}] {config} counted')
        except Exception as error:  # one broken config must not hide the others
            reason = explain(error)
            failures.append(reason if config in reason else f'{config}: {reason}')
            print_progress(f'[{index}/{len(configs)}] {config} failed')
    return costs, failures
