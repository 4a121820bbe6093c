"""Classification data: a folder of images per class, or CSV files with the class of each image."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config

from mmflatten.custom_data import images as image_files
from mmflatten.custom_data.reading import (
    CustomData,
    DataError,
    Problem,
    Request,
    listed,
    problems_of,
)
from mmflatten.data_folders import IMAGE_SUFFIXES, spelling_hint
from mmflatten.text import shorten
from mmflatten.untrusted.files import read_text

# images of each class in training or validation
Classes = dict[str, list[Path]]

LABEL_COLUMNS = ('label', 'class', 'class_name', 'category', 'target', 'name')
SPLIT_COLUMNS = ('split', 'set', 'subset', 'partition', 'fold')
# name: (is an error, fix)
CSV_PROBLEMS = {
    'line without an image and a class': (
        True,
        'every line needs as many values as the first, and a class',
    ),
    'listed image that does not exist': (True, 'correct the name or --images'),
    'image with two classes': (True, 'keep one of the lines'),
    'name of two images': (True, 'add the suffix, as in NAME.jpg'),
    'column that is not read': (
        False,
        'write the lines for training and for validation into two files: --ann TRAIN.csv VAL.csv',
    ),
}


class Line(NamedTuple):
    """The cells of a line of a CSV file, and its `file:line`."""

    cells: list[str]
    place: str


def read(request: Request, base: Config) -> CustomData:
    """Read `train/CLASS/*` and `val/CLASS/*`, two such folders, or one; or one or two CSV files.

    One part is split class by class.
    """
    if request.ann:
        roots, parts, problems = _read_tables(request)
        kind = 'class'
    else:
        roots = image_files.split_folders(request.images)
        parts = [_class_folders(root) for root in roots]
        problems = []
        kind = 'class folder'
    names = sorted(parts[0])
    problems += _class_problems(roots, parts, kind)

    # Each image is decoded once, whatever the number of its uses.
    labels = _label_images(parts)
    pictures = image_files.read_pictures(labels, request.pictures, request.bands)
    if len(parts) == 2:
        sides = [_all_images(part) for part in parts]
    else:
        sides = _split_classes(parts[0], pictures, request.val_share)

    # Classes of the validation data alone have no number; they are reported above.
    numbers = {name: number for number, name in enumerate(names)}
    lines = []
    for side, root in zip(sides, (roots[0], roots[-1])):
        rows = []
        for path in side:
            number = numbers.get(labels[path])
            if number is not None:
                rows.append(f'{path.relative_to(root).as_posix()} {number}')
        lines.append(rows)

    facts = [f'image sizes: {image_files.size_range(pictures)}']
    for name in names:
        count = sum(len(part.get(name, [])) for part in parts)
        facts.append(f'class {name}: {count} images')
    return CustomData(
        'CustomDataset',
        **listed(request, lines, [dict(data_prefix=root) for root in roots]),
        classes=tuple(names),
        facts=facts,
        metrics=('Accuracy', 'SingleLabelMetric', 'ConfusionMatrix'),
        score='accuracy/top1',
        evaluator=dict(topk=(1,)),
        problems=problems + image_files.picture_problems(pictures, *sides),
    )


def _read_tables(request: Request) -> tuple[list[Path], list[Classes], list[Problem]]:
    """Return the image folder and the classes of each CSV file, and the problems of all."""
    folders = [*request.images, request.images[-1]]
    roots = [folder.resolve() for folder in folders[: len(request.ann)]]
    parts, problems = [], []
    for file, root in zip(request.ann, roots):
        classes, found = read_table(file, root)
        parts.append(classes)
        problems += found
    return roots, parts, problems


def read_table(file: Path, images: Path) -> tuple[Classes, list[Problem]]:
    """Read the images of each class from a CSV file, and its problems.

    File names without suffix are accepted, and a header is detected.
    """
    if file.is_dir():
        raise DataError(
            f'--ann {file}: expected a CSV file for --task cls, got a folder. Class folders go to '
            '--images.'
        )
    found, stems = image_files.names_and_stems(images, image_files.find_images(images))
    names = {*found, *stems}
    in_lower_case = image_files.names_by_lower_case(names)
    lines = _read_lines(file)
    for line in lines:
        _use_plain_names(line.cells, names, in_lower_case, images=images)
    image, label, header = _columns(lines, names, file)
    places: dict[str, list[str]] = defaultdict(list)
    places['column that is not read'] = _split_columns(lines[:header])
    complete = []
    for line in lines[header:]:
        if len(line.cells) == len(lines[0].cells) and line.cells[label]:
            complete.append((line.cells[image], line.cells[label], line.place))
        else:
            places['line without an image and a class'].append(line.place)

    # The first class of an image is kept.
    classes: dict[Path, str] = {}
    for name, class_name, place in complete:
        if name in found:
            if classes.setdefault(found[name], class_name) != class_name:
                places['image with two classes'].append(f'{place} ({name}: {class_name})')
        elif name in stems:
            places['name of two images'].append(f'{place} ({name})')
        else:
            places['listed image that does not exist'].append(
                f'{place} ({image_files.missing(name, name)})'
            )
    return _group(classes, file), problems_of(places, CSV_PROBLEMS)


def _split_columns(header: Sequence[Line]) -> list[str]:
    """Return the columns of a header that divide the images into training and validation."""
    found = []
    for cells, place in header:
        found += [f'{title} in {place}' for title in cells if title.lower() in SPLIT_COLUMNS]
    return found


def _group(classes: Mapping[Path, str], file: Path) -> Classes:
    """Return the images of each class. Raises DataError for less than two classes."""
    parts: Classes = defaultdict(list)
    for path, name in classes.items():
        parts[name].append(path)
    if len(parts) < 2:
        raise DataError(
            f'--ann {file}: expected at least two classes, got {shorten([*parts]) or "none"}.'
        )
    return parts


def _read_lines(file: Path) -> list[Line]:
    """Read the lines of a CSV file that are not empty.

    The delimiter is a tab or, without a tab, a semicolon in the first line; otherwise a comma.
    """
    text = read_text(file)
    first = text.partition('\n')[0]
    if '\t' in first:
        delimiter = '\t'
    elif ';' in first:
        delimiter = ';'
    else:
        delimiter = ','
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    lines = []
    try:
        for row in reader:
            if any(row):
                cells = [cell.strip() for cell in row]
                lines.append(Line(cells, f'{file}:{reader.line_num}'))
    except csv.Error as error:
        raise DataError(f'--ann {file}: expected a CSV file, got {error}.') from error
    return lines


def _use_plain_names(
    cells: list[str], names: set[str], in_lower_case: Mapping[str, str], images: Path
) -> None:
    """Replace the name of an image as another system writes it."""
    for column, cell in enumerate(cells):
        name = image_files.plain_name(cell, images)
        if name not in names and Path(name).suffix.lower() in IMAGE_SUFFIXES:
            name = in_lower_case.get(name.casefold(), name)
        if name in names:
            cells[column] = name


def _columns(lines: list[Line], names: set[str], file: Path) -> tuple[int, int, int]:
    """Return the columns of image and class, and the number of header lines, 0 or 1.

    Args:
        names: names of the images, with and without suffix.
    """
    header = int(bool(lines) and not _has_image(lines[0].cells, names))
    titles = [cell.lower() for cell in lines[0].cells] if header else []
    for cells, _ in lines[header : header + 20]:
        for image, cell in enumerate(cells):
            if cell not in names:
                continue
            label = _label_column(len(cells), image, titles)
            if label is not None:
                return image, label, header
    shown = ', '.join(lines[0].cells) if lines else 'an empty file'
    hint = _hint(lines[header : header + 1])
    raise DataError(
        f'--ann {file}:1: expected a column of images below --images and a column of classes, in a'
        f' file of more than two columns called {LABEL_COLUMNS[0]}, got {shown:.200}.{hint}'
    )


def _hint(lines: Sequence[Line]) -> str:
    """Return a sentence on the spelling of the images of a line, '' if it is not unusual."""
    for cells, place in lines:
        for cell in cells:
            hint = spelling_hint(cell)
            if hint and _has_image([cell], set()):
                return f' {place}: {cell:.100}: {hint}.'
    return ''


def _has_image(cells: Sequence[str], names: set[str]) -> bool:
    """Return True if a cell is the name of an image, even of a missing one."""
    return any(cell in names or Path(cell).suffix.lower() in IMAGE_SUFFIXES for cell in cells)


def _label_column(width: int, image: int, titles: Sequence[str]) -> int | None:
    """Return the column of the classes: the only other one, or the only one with a known title."""
    others = [column for column in range(width) if column != image]
    if len(others) > 1:
        titled = [column for column in others if column < len(titles)]
        others = [column for column in titled if titles[column] in LABEL_COLUMNS]
    return others[0] if len(others) == 1 else None


def _class_folders(root: Path) -> Classes:
    """List the images of each class."""
    files = image_files.find_images(root)
    loose = [path.name for path in files if path.parent == root]
    if loose:
        raise DataError(
            f'--images {root}: expected CLASS/IMAGE, or train/CLASS/IMAGE and val/CLASS/IMAGE, got '
            f'{shorten(loose, 3)} without a class folder.'
        )
    folders = [path for path in root.iterdir() if path.is_dir()]
    names = sorted(path.name for path in folders if not path.name.startswith('.'))
    if len(names) < 2:
        raise DataError(f'--images {root}: expected at least two class folders, got {names[0]}.')
    found: Classes = {name: [] for name in names}
    for path in files:
        found[path.relative_to(root).parts[0]].append(path)
    return found


def _class_problems(roots: Sequence[Path], parts: Sequence[Classes], kind: str) -> list[Problem]:
    """Report classes of only one part, and class folders without images."""
    problems = []
    differing = {*parts[0]} ^ {*parts[-1]}
    if differing:
        problems.append(
            Problem(
                name=f'{kind} in only one part',
                where=sorted(differing),
                fix=f'training and validation need the same {kind}s',
            )
        )
    empty = []
    for root, part in zip(roots, parts):
        empty += [f'{root / name}' for name, files in part.items() if not files]
    if empty:
        problems.append(Problem('class folder without images', empty, 'fill or remove it'))
    return problems


def _label_images(parts: Sequence[Classes]) -> dict[Path, str]:
    """Return the class of each image."""
    labels = {}
    for part in parts:
        for name, files in part.items():
            labels |= dict.fromkeys(files, name)
    return labels


def _all_images(part: Classes) -> list[Path]:
    images = []
    for files in part.values():
        images += files
    return images


def _split_classes(
    part: Classes, pictures: Mapping[Path, image_files.Picture], val_share: float
) -> list[list[Path]]:
    """Split the images of each class into training and validation."""
    train, val = [], []
    for files in part.values():
        if not files:
            continue
        halves = image_files.split({path: pictures[path] for path in files}, val_share)
        train += halves[0]
        val += halves[1]
    return [train, val]
