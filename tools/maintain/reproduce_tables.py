"""Write the model zoo: the rows of the papers' tables with the counted costs of their configs.

Needs no data or GPU.

    python tools/maintain/reproduce_tables.py                      # write the files
    python tools/maintain/reproduce_tables.py --check              # fail if one is out of date
    python tools/maintain/reproduce_tables.py --paper flatten --table 8  # only print these rows

The files are docs/model_zoo*, the READMEs of the config folders and the metafiles.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo import speed
from zoo.metafiles import render_metafiles
from zoo.page import render_pages
from zoo.readmes import render_readmes
from zoo.records import ZooEntry, count_rows, from_csv, to_csv, zoo_rows
from zoo.result_tables import render_tables

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line, print_progress, quiet_libraries
from mmflatten.measure.papers.tables import PaperRow, paper_rows

ROOT = Path(__file__).resolve().parents[2]


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--check', action='store_true', help='count again and compare with the files; write nothing'
    )
    parser.add_argument(
        '--pages',
        action='store_true',
        help='write the pages from the committed CSV, without counting',
    )
    parser.add_argument(
        '--paper',
        choices=sorted({row.cells['paper'] for row in paper_rows()}),
        help='print the tables of this paper; write nothing',
    )
    parser.add_argument('--table', help='with --paper: only this table, such as 8, 2a or fig5')
    arguments = parser.parse_args(argv)
    if arguments.table and not arguments.paper:
        parser.error(f'--table: expected --paper as well, got only --table {arguments.table}')
    if arguments.check and arguments.paper:
        parser.error('--check: compares whole files. Remove --paper')
    return arguments


def rows_of_table(paper: str, table: str | None) -> list[PaperRow]:
    """Return the rows of a paper, or of one of its tables."""
    of_paper = [row for row in paper_rows() if row.cells['paper'] == paper]
    if table is None:
        return of_paper
    rows = [row for row in of_paper if row.cells['table'] == table]
    if not rows:
        tables = dict.fromkeys(row.cells['table'] for row in of_paper)
        raise ValueError(f'--table: expected one of {", ".join(tables)}, got {table}.')
    return rows


def files_of(entries: list[ZooEntry]) -> dict[str, str]:
    """Render all generated files: path in the repository -> text."""
    files = {'docs/model_zoo.csv': to_csv(entries)}
    for name, text in render_pages(entries).items():
        files[f'docs/{name}'] = text
    speeds = list(speed.measured_speeds(ROOT))
    files[speed.FILE] = speed.to_csv(speeds)
    files['docs/model_zoo/speed.md'] = speed.render_speed(speeds, entries)
    return files | render_metafiles(entries) | render_readmes(entries)


def write_or_compare(files: dict[str, str], check: bool) -> None:
    """Write the files that differ from those on disk.

    Raises:
        ValueError: `check` is set and a file differs.
    """
    stale = [name for name, text in files.items() if _read(ROOT / name) != text]
    if check:
        if stale:
            raise ValueError(
                f'not up to date: {", ".join(stale)}. Run python tools/maintain/reproduce_tables.py'
            )
        print(f'{len(files)} files are up to date')
        return
    for name in stale:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(files[name], encoding='utf-8')
    print(f'{len(stale)} of {len(files)} files written: {", ".join(stale) or "no changes"}')


def _report(done: int, total: int, config: str) -> None:
    print_progress(f'[{done}/{total}] {config}')


def _read(path: Path) -> str | None:
    return path.read_text(encoding='utf-8') if path.is_file() else None


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    if arguments.pages:
        committed = from_csv((ROOT / 'docs' / 'model_zoo.csv').read_text(encoding='utf-8'))
        write_or_compare(files_of(committed), arguments.check)
        return 0
    if arguments.paper:
        rows = rows_of_table(arguments.paper, arguments.table)
    else:
        rows = zoo_rows(ROOT)
    with quiet_libraries():
        entries, failures = count_rows(rows, ROOT, _report)
    if arguments.paper:
        print(render_tables(entries, ''))
    else:
        write_or_compare(files_of(entries), arguments.check)
    if failures:
        raise ValueError(f'{len(failures)} configs could not be counted: {"; ".join(failures)}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
