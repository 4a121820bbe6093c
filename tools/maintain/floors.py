"""Draw docs/floors.png: the rooms of mmflatten on their floors, with an arrow from a room to each room it imports.

    python tools/maintain/floors.py

The floors are from `layout.py`, the imports from the source. Arrows that follow from others are omitted.
"""
import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from layout import FLOORS
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]


def imported(file: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports, including imports inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def arrows(rooms: list[str]) -> set[tuple[str, str]]:
    """Return pairs (importing room, imported room), without those that follow from others."""
    below: dict[str, set[str]] = {}
    for room in rooms:
        path = ROOT / 'mmflatten' / room
        files = path.rglob('*.py') if path.is_dir() else [path.with_suffix('.py')]
        names = {name.split('.')[1] for file in files for name in imported(file) if name.startswith('mmflatten.')}
        below[room] = names & set(rooms) - {room}

    def reach(room: str) -> set[str]:
        return below[room].union(*(reach(lower) for lower in below[room]))

    return {(room, lower) for room in rooms for lower in below[room]
            if not any(lower in reach(other) for other in below[room] - {lower})}


def draw(path: Path) -> None:
    """Draw the rooms that are folders; the documentation lists the single files."""
    floors = [[room for room in floor if (ROOT / 'mmflatten' / room).is_dir()] for floor in FLOORS]
    floors = [floor for floor in floors if floor]
    center = {room: ((i + 0.5) / len(floor), number) for number, floor in enumerate(floors)
              for i, room in enumerate(floor)}
    figure = Figure(figsize=(9, len(floors)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(-0.5, len(floors) - 0.5))
    axes.axis('off')
    for room, place in center.items():
        axes.text(*place, room, ha='center', va='center', size=12, zorder=2,
                  bbox=dict(boxstyle='round,pad=0.5', facecolor='#dbe7f3', edgecolor='#5b6b7a'))
    for room, lower in sorted(arrows(list(center))):
        axes.annotate('', center[lower], center[room], zorder=1,
                      arrowprops=dict(arrowstyle='-|>', color='#5b6b7a', shrinkA=14, shrinkB=16))
    figure.savefig(path, dpi=130, metadata={'Software': None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=Path, default=ROOT / 'docs' / 'floors.png')
    draw(parser.parse_args().out)


if __name__ == '__main__':
    sys.exit(main())
