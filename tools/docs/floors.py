"""Draw docs/floors.png: the folders of mmflatten on their floors, and which folder imports which.

The arrows are read from the source; those that others imply are left out.
"""
import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).resolve().parents[2]
# From the ground up. Each room: where it stands (left, right, in percent of the width) and what it holds.
FLOORS = (
    {'ops': (2, 36, 'pure functions on tensors'), 'structures': (40, 58, 'data samples')},
    {'registry': (50, 66, "scope 'mmflatten'"), 'checkpoints': (69, 85, 'official weights')},
    {'models': (2, 66, ''), 'evaluation': (82, 98, 'metrics')},
    {'timm': (2, 22, "timm's models"), 'visualization': (28, 55, 'drawings and curves')},
    {'datasets': (28, 55, 'digit scenes, stereo'), 'analysis': (60, 98, 'FLOPs, speed, recipes, tables, results')},
    {'engine': (38, 98, 'Runner, hooks, safe checkpoints, errors')},
    {'export': (2, 34, 'ONNX, OpenVINO, pt2')},
    {'apis': (38, 98, "Predictor, models by name, one's own data")},
    {'cli': (2, 98, 'the mmflatten command; the files of tools/ call it')},
)
# The rooms of `models`, from left to right.
MODELS = {'stereo': (4, 12), 'detection': (16, 26), 'layers': (30, 39), 'attention': (43, 52), 'backbones': (55, 65)}
BOX, STOREY = 9, 14  # height of a room, and of a floor
COLORS = ('#dbe7f3', '#d5ebe4', '#fdebc8', '#f9ddd0', '#eadcf0', '#dfe3ee', '#e3efd6', '#d9eef2', '#e6e6e6')
INK, LINE = '#24303c', '#5b6b7a'
Place = tuple[float, float, float]  # left, right, bottom


def imported(file: Path) -> Iterator[str]:
    """Names of mmflatten's modules that a file imports, functions' own imports included."""
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def arrows(rooms: dict[str, Path], prefix: str) -> set[tuple[str, str]]:
    """Pairs (importing room, imported room), without those that follow from others.

    Args:
        rooms: folder or file of each room.
        prefix: of the rooms' modules, such as `mmflatten.`.
    """
    below: dict[str, set[str]] = {}
    for room, path in rooms.items():
        files = path.rglob('*.py') if path.is_dir() else [path]
        names = {name[len(prefix):].split('.')[0] for file in files for name in imported(file)
                 if name.startswith(prefix)}
        below[room] = names & set(rooms) - {room}

    def reach(room: str) -> set[str]:
        return below[room].union(*(reach(lower) for lower in below[room]))

    return {(room, lower) for room in rooms for lower in below[room]
            if not any(lower in reach(other) for other in below[room] - {lower})}


def draw_room(axes: Axes, name: str, place: Place, height: float, color: str, text: str = '', size: float = 11) -> None:
    left, right, bottom = place
    axes.add_patch(FancyBboxPatch((left, bottom), right - left, height, boxstyle='round,pad=0,rounding_size=1.2',
                                  facecolor=color, edgecolor=LINE, linewidth=1))
    x, y = (left + right) / 2, bottom + height / 2
    axes.text(x, y + (1.5 if text else -.1), name, ha='center', va='center', color=INK, fontsize=size,
              fontweight='bold' if text else 'normal')
    axes.text(x, y - 1.8, text, ha='center', va='center', color=INK, fontsize=8.5)


def draw_arrow(axes: Axes, start: Place, end: Place, height: float) -> None:
    """From the importing room to the imported one: across a floor or down, straight where one is above the other."""
    (a, b, y), (c, d, z) = start, end
    if y == z:
        ends = ((a, y + height / 2), (d, y + height / 2)) if c < a else ((b, y + height / 2), (c, y + height / 2))
    else:
        x = (max(a, c) + min(b, d)) / 2
        ends = (min(max(x, a), b), y), (min(max(x, c), d), z + height)
    axes.annotate('', ends[1], ends[0], arrowprops=dict(arrowstyle='-|>', color=LINE, linewidth=1.3, mutation_scale=12,
                                                        shrinkA=0, shrinkB=0))


def draw(path: Path) -> None:
    places = {room: (left, right, i * STOREY)
              for i, rooms in enumerate(FLOORS) for room, (left, right, _) in rooms.items()}
    folders = {room: ROOT / 'mmflatten' / room for room in places}
    folders['registry'] = ROOT / 'mmflatten' / 'registry.py'
    figure = Figure(figsize=(9, 8.6))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 100), ylim=(-1, len(FLOORS) * STOREY - STOREY + BOX + 1))
    axes.axis('off')
    for rooms, color in zip(FLOORS, COLORS):
        for room, (*_, text) in rooms.items():
            draw_room(axes, '' if room == 'models' else room, places[room], BOX, color, text)
    draw_models(axes, places['models'][2])
    for room, lower in sorted(arrows(folders, 'mmflatten.')):
        draw_arrow(axes, places[room], places[lower], BOX)
    figure.savefig(path, dpi=130, bbox_inches='tight', pad_inches=.08, facecolor='white', metadata={'Software': None})


def draw_models(axes: Axes, bottom: float) -> None:
    axes.text(4, bottom + BOX - 1.8, 'models', ha='left', va='center', color=INK, fontsize=11, fontweight='bold')
    places = {room: (left, right, bottom + .9) for room, (left, right) in MODELS.items()}
    for room, place in places.items():
        draw_room(axes, room, place, 3.9, 'white', size=9)
    folders = {room: ROOT / 'mmflatten' / 'models' / room for room in MODELS}
    for room, lower in sorted(arrows(folders, 'mmflatten.models.')):
        draw_arrow(axes, places[room], places[lower], 3.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=Path, default=ROOT / 'docs' / 'floors.png')
    draw(parser.parse_args().out)


if __name__ == '__main__':
    sys.exit(main())
