"""All configs, recipe by recipe, as a Markdown page."""
from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from mmengine.config import Config
from recipe_page.recipe import SETTINGS, Recipe
from recipe_page.sources import FILE, SourceLine, files_of, lines_of

from mmflatten.engine.recipe.settings import DATA_SETS, training_length, training_set
from mmflatten.text import align

TITLES = dict(batch='batch', rate='optimizer and rate', schedule='schedule', decay='weight decay',
              augmentation='augmentation', drop_path='drop path', ema='EMA')

MEMORY = Path('/dev/shm')
INTRODUCTION = """\
# Recipes

This page is generated from the configs and `tools/maintain/recipe_page/recipe_sources.csv`.

Configs with the same recipe share a section, except for drop path, which is listed per config. The learning rate is for
the batch size in the same table; `mmflatten train --auto-scale-lr` scales it linearly to another number of GPUs. *Other
vectors* are one-dimensional parameters besides norms and biases; a name in code style stands for every parameter whose
name contains it. The letters refer to the sources below each table: a file of the official code, a table or section of
the paper, or the reason for a choice of this project. If the configs of a section have different sources, the lists
name them. `mmflatten check CONFIG` prints what a recipe means on your GPUs and warns of common mistakes.
"""


@dataclass(frozen=True)
class ConfigRecipe:
    """Name of a config below `configs/`, its data set, length, recipe, and the source of each setting."""

    name: str
    data: str
    length: str
    recipe: Recipe
    sources: dict[str, SourceLine]

    @classmethod
    def read(cls, path: Path, configs: Path) -> ConfigRecipe:
        """Read a config.

        Raises:
            ValueError: a setting has no source.
        """
        cfg = Config.fromfile(path)
        sources = lines_of(files_of(cfg, configs))
        missing = [name for name in SETTINGS if name not in sources]
        if missing:
            raise ValueError(f'config {path}: no source for {", ".join(missing)}. Add a line to {FILE}.')
        number, unit = training_length(cfg)
        data = training_set(cfg.train_dataloader.dataset).name
        return cls(path.relative_to(configs).as_posix(), data, f'{number} {unit}', Recipe.of(cfg), sources)

    @property
    def folder(self) -> str:
        return PurePosixPath(self.name).parts[0]

    @property
    def group(self) -> tuple[str, ...]:
        """Settings that the configs of a section share."""
        return (self.data, *(value for name, value in asdict(self.recipe).items() if name != 'drop_path'))


@cache
def read_recipes(root: Path) -> list[ConfigRecipe]:
    """Read the recipe of every config of a repository, sorted by name.

    MMEngine copies the base files of a config to a temporary folder, which is faster in memory.
    """
    configs = root / 'configs'
    paths = sorted(path for path in configs.glob('*/*.py') if path.parent.name != '_base_')
    usual = tempfile.tempdir
    tempfile.tempdir = str(MEMORY) if MEMORY.is_dir() else usual
    try:
        return [ConfigRecipe.read(path, configs) for path in paths]
    finally:
        tempfile.tempdir = usual


def render_page(recipes: Sequence[ConfigRecipe]) -> str:
    """Render an overview and a section for each recipe."""
    groups: dict[tuple[str, ...], list[ConfigRecipe]] = {}
    for recipe in sorted(recipes, key=lambda recipe: DATA_SETS.index(recipe.data)):
        groups.setdefault(recipe.group, []).append(recipe)
    numbered = list(enumerate(groups.values(), 1))
    header = ('', 'data', 'length', 'batch', 'optimizer and rate', 'configs', 'in')
    rows = [(str(number), group[0].data, group[0].length, group[0].recipe.batch, group[0].recipe.rate, str(len(group)),
             _folders(group)) for number, group in numbered]
    overview = f'{len(recipes)} configs with {len(groups)} recipes.\n\n{align(rows, header, {1, 2, 3, 4, 6}, True)}'
    return '\n\n'.join([INTRODUCTION.strip(), overview, *(_section(*item) for item in numbered)]) + '\n'


def _section(number: int, group: Sequence[ConfigRecipe]) -> str:
    first, letters = group[0], _letters(group)
    rows = []
    for name in SETTINGS:
        values = sorted({getattr(each.recipe, name) for each in group})
        marks = dict.fromkeys(letters[each.sources[name].source] for each in group)
        rows.append((TITLES[name], ', '.join(values), ', '.join(marks)))
    table = align(rows, ('setting', 'value', 'source'), {0, 1, 2}, markdown=True)
    title = f'## {number}. {first.data}, {first.length}, batch {first.recipe.batch.split()[0]}: {_folders(group)}'
    legend = '\n'.join(f'- *{letter}*: {source}' for source, letter in letters.items())
    return '\n\n'.join([title, table, legend, *_lists(group, letters)])


def _letters(group: Sequence[ConfigRecipe]) -> dict[str, str]:
    """Assign a letter to every source of a section, in the order of the settings."""
    sources = dict.fromkeys(each.sources[name].source for name in SETTINGS for each in group)
    return {source: chr(ord('a') + index) for index, source in enumerate(sources)}


def _folders(group: Sequence[ConfigRecipe]) -> str:
    return ', '.join(dict.fromkeys(each.folder for each in group))


def _lists(group: Sequence[ConfigRecipe], letters: dict[str, str]) -> list[str]:
    """List links to the configs by drop path, and by sources if they differ."""
    links: dict[tuple[str, str], list[str]] = {}
    for each in group:
        own = ', '.join(sorted({letters[line.source] for line in each.sources.values()}))
        link = f'[{PurePosixPath(each.name).stem}](../configs/{each.name})'
        links.setdefault((each.recipe.drop_path, own), []).append(link)
    shared = len({own for _, own in links}) == 1
    return [f'Drop path {drop_path}{"" if shared else f", sources {own}"}: {", ".join(names)}.'
            for (drop_path, own), names in sorted(links.items())]
