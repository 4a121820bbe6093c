"""Parameters and FLOPs of configs, counted without data, weights or a GPU, beside what the papers print.

    mmflatten flops configs/flatten_swin/*.py
    mmflatten flops CONFIG --by-module --depth 2
    mmflatten flops CONFIG --shape 640 640 --json flops.json
"""
import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmflatten.cli.common import positive, tool_parser
from mmflatten.config_files import config_file
from mmflatten.console import command_line, quiet_libraries, timed_progress
from mmflatten.errors import explain
from mmflatten.measure.flops.model_cost import ModelCost
from mmflatten.measure.papers.costs import count_beside_papers, render
from mmflatten.measure.papers.tables import rows_of_config


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten flops', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('configs', nargs='+', metavar='CONFIG', help='config files')
    made.add_argument('--shape', nargs=2, type=positive, metavar=('H', 'W'),
                      help='image size; by default the size the paper quotes its FLOPs at, else 224 224 for '
                      'classifiers, 800 1280 for detectors, 512 2048 for segmentors')
    made.add_argument('--by-module', action='store_true', help='also print where in each model the operations are')
    made.add_argument('--depth', type=positive, default=3, metavar='N', help='levels of that tree (default: 3)')
    made.add_argument('--json', type=Path, metavar='FILE', help='write everything that was counted to FILE')
    made.add_argument('--markdown', action='store_true', help='print Markdown tables')
    return made


def check_paths(arguments: argparse.Namespace) -> None:
    """Fail before the first model is built."""
    arguments.configs = [config_file(config) for config in arguments.configs]
    if arguments.json is not None and arguments.json.is_dir():
        raise ValueError(f'--json {arguments.json} is a folder; name a file in it')
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise ValueError(f'--json {arguments.json}: the folder {arguments.json.parent} does not exist; make it first')


def count_all(configs: Sequence[str], shape: tuple[int, int] | None) -> tuple[dict[str, ModelCost], list[str]]:
    """Count the configs one by one, with progress on the standard error; returns costs and messages of failures."""
    if len(configs) == 1:
        return {configs[0]: count_beside_papers(configs[0], shape)}, []
    costs, failures, say = {}, [], timed_progress()
    for index, config in enumerate(configs, 1):
        try:
            costs[config] = count_beside_papers(config, shape)
            say(index, len(configs), f'{config} counted')
        except Exception as error:  # one broken config must not hide the others
            reason = explain(error)
            failures.append(reason if config in reason else f'{config}: {reason}')
            say(index, len(configs), f'{config} failed')
    return costs, failures


def config_as_json(config: str, cost: ModelCost, with_modules: bool) -> dict[str, Any]:
    """Everything known about a config's cost, and the papers' rows that it reproduces."""
    rows = [{**row.cells, 'with_products': row.with_products} for row in rows_of_config(config)]
    return {'config': config, **cost.as_json(with_modules), 'paper_rows': rows}


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    check_paths(arguments)
    with quiet_libraries():
        costs, failures = count_all(arguments.configs, arguments.shape and tuple(arguments.shape))
    if costs:
        print(render(costs, arguments.markdown))
    if arguments.by_module:
        for config, cost in costs.items():
            print(f'\n{cost.render_modules(Path(config).stem, arguments.depth, arguments.markdown)}')
    if arguments.json is not None:
        results = [config_as_json(config, cost, arguments.by_module) for config, cost in costs.items()]
        arguments.json.write_text(json.dumps(results, indent=2) + '\n', encoding='utf-8')
    if failures:
        reasons = '; '.join(failures)
        raise ValueError(f'{len(failures)} of {len(arguments.configs)} configs could not be counted: {reasons}')
    return 0
