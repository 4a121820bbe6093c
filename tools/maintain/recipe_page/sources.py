"""Source of each setting of each config, from `recipe_sources.csv`; later lines override earlier ones."""
from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from mmengine.config import Config
from recipe_page.recipe import SETTINGS

FILE = Path(__file__).with_name('recipe_sources.csv')


@dataclass(frozen=True)
class SourceLine:
    """Source of some settings in all configs that match a pattern or inherit from a file that does."""

    configs: str  # below configs/
    settings: tuple[str, ...]
    source: str

    def holds_for(self, files: Iterable[str]) -> bool:
        return any(fnmatch(file, self.configs) for file in files)


@cache
def source_lines() -> tuple[SourceLine, ...]:
    """Read the lines of the file; `all` stands for every setting.

    Raises:
        ValueError: a line names an unknown setting.
    """
    with FILE.open(newline='', encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    lines = tuple(SourceLine(row['configs'], SETTINGS if row['settings'] == 'all' else tuple(row['settings'].split()),
                             row['source']) for row in rows)
    unknown = [name for line in lines for name in line.settings if name not in SETTINGS]
    if unknown:
        raise ValueError(f'{FILE.name}: expected settings among {", ".join(SETTINGS)}, got {", ".join(unknown)}.')
    return lines


def files_of(cfg: Config, configs: Path) -> list[str]:
    """List a config and its base files relative to `configs`; MMEngine keeps their names in the config's text."""
    folder = f'{configs.absolute().as_posix()}/'
    return [line[len(folder):] for line in cfg.text.splitlines() if line.startswith(folder) and line.endswith('.py')]


def lines_of(files: Iterable[str]) -> dict[str, SourceLine]:
    """Source line for each setting of a config with these files."""
    files = list(files)
    return {setting: line for line in source_lines() if line.holds_for(files) for setting in line.settings}
