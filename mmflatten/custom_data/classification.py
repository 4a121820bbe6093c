"""Classification data: a folder of images per class, or CSV files with the class of each image."""

import csv
from collections import defaultdict
from pathlib import Path

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
from mmflatten.data_folders import IMAGE_SUFFIXES
from mmflatten.files import read_text
from mmflatten.text import shorten

LABEL_COLUMNS = ('label', 'class', 'class_name', 'category', 'target', 'name')
CSV_PROBLEMS = {
    'line without an image and a class': (
        True,
        'every line needs as many values as the first, and a class',
    ),
    'listed image that does not exist': (True, 'correct the name or --images'),
    'image with two classes': (True, 'keep one of the lines'),
    'name of two images': (True, 'add the suffix, as in NAME.jpg'),
}


def read(request: Request, base: Config) -> CustomData:
    """Read `train/CLASS/*` and `val/CLASS/*`, two such folders, or one; or one or two CSV files.

    One part is split class by class.
    """
    problems: list[Problem] = []
    if request.ann:
        roots = [folder.resolve() for folder in (*request.images, request.images[-1])][
            : len(request.ann)
        ]
        tables = [read_table(file, root) for file, root in zip(request.ann, roots)]
        parts, problems = (
            [part for part, _ in tables],
            [problem for _, found in tables for problem in found],
        )
    else:
        roots = image_files.split_folders(request.images)
        parts = [_class_folders(root) for root in roots]
    names = sorted(parts[0])
    if sorted(parts[-1]) != names:
        kind = 'class' if request.ann else 'class folder'
        problems.append(
            Problem(
                f'{kind} in only one part',
                sorted({*parts[0]} ^ {*parts[-1]}),
                f'training and validation need the same {kind}s',
            )
        )
    empty = [
        f'{root / name}'
        for root, part in zip(roots, parts)
        for name, files in part.items()
        if not files
    ]
    if empty:
        problems.append(Problem('class folder without images', empty, 'fill or remove it'))
    labels = {path: name for part in parts for name, files in part.items() for path in files}
    pictures = image_files.read_pictures(labels, request.pictures)
    if len(parts) == 2:
        sides = [sum(part.values(), []) for part in parts]
    else:
        halves = [
            image_files.split({path: pictures[path] for path in files}, request.val_share)
            for files in parts[0].values()
            if files
        ]
        sides = [sum(side, []) for side in zip(*halves)]
    numbers = {name: number for number, name in enumerate(names)}
    lines = [
        [
            f'{path.relative_to(root).as_posix()} {numbers[labels[path]]}'
            for path in side
            if labels[path] in numbers
        ]
        for side, root in zip(sides, (roots[0], roots[-1]))
    ]
    facts = [f'image sizes: {image_files.size_range(pictures)}']
    facts += [
        f'class {name}: {sum(len(part.get(name, [])) for part in parts)} images' for name in names
    ]
    # the default of the base configs, top 5, needs 5 classes
    evaluator = dict(topk=(1,)) if len(names) < 5 else {}
    return CustomData(
        'CustomDataset',
        **listed(request, lines, [dict(data_prefix=root) for root in roots]),
        classes=tuple(names),
        facts=facts,
        evaluator=evaluator,
        problems=problems + image_files.picture_problems(pictures, *sides),
    )


def read_table(file: Path, images: Path) -> tuple[dict[str, list[Path]], list[Problem]]:
    """Read the images of each class from a CSV file, and its problems.

    Names of files may lack the suffix, and a header is recognised.
    """
    if file.is_dir():
        raise DataError(
            f'--ann {file}: expected a CSV file for --task cls, got a folder. Class folders go to '
            '--images.'
        )
    found, stems = image_files.names_and_stems(images, image_files.find_images(images))
    text = read_text(file)
    try:
        delimiter = next((mark for mark in '\t;' if mark in text.partition('\n')[0]), ',')
        reader = csv.reader(text.splitlines(), delimiter=delimiter)
        rows = [
            ([cell.strip() for cell in row], f'{file}:{reader.line_num}')
            for row in reader
            if any(row)
        ]
        for row, _ in rows:
            plain = [image_files.plain_name(cell, images) for cell in row]
            row[:] = [
                name if name in found or name in stems else cell for name, cell in zip(plain, row)
            ]
    except csv.Error as error:
        raise DataError(f'--ann {file}: expected a CSV file, got {error}.') from error
    image, label, header = _columns(rows, {**dict.fromkeys(stems, images), **found}, file)
    classes: dict[Path, str] = {}
    places: dict[str, list[str]] = defaultdict(list)
    for row, place in rows[header:]:
        if len(row) != len(rows[0][0]) or not row[label]:
            places['line without an image and a class'].append(place)
        elif row[image] not in found and row[image] in stems:
            places['name of two images'].append(f'{place} ({row[image]})')
        elif row[image] not in found:
            places['listed image that does not exist'].append(f'{place} ({row[image]})')
        elif classes.setdefault(found[row[image]], row[label]) != row[label]:
            places['image with two classes'].append(f'{place} ({row[image]}: {row[label]})')
    parts: dict[str, list[Path]] = defaultdict(list)
    for path, name in classes.items():
        parts[name].append(path)
    if len(parts) < 2:
        raise DataError(
            f'--ann {file}: expected at least two classes, got {shorten([*parts]) or "none"}.'
        )
    return parts, problems_of(places, CSV_PROBLEMS)


def _columns(
    rows: list[tuple[list[str], str]], found: dict[str, Path], file: Path
) -> tuple[int, int, int]:
    """Return the columns of image and class, and the number of lines of the header, which names no
    image file.
    """
    header = int(
        bool(rows)
        and not any(
            Path(cell).suffix.lower() in IMAGE_SUFFIXES or cell in found for cell in rows[0][0]
        )
    )
    for row, _ in rows[header : header + 20]:
        for image in (number for number, cell in enumerate(row) if cell in found):
            names = [cell.lower() for cell in rows[0][0]] if header else [''] * len(row)
            others = [number for number in range(len(row)) if number != image]
            chosen = (
                others
                if len(others) == 1
                else [n for n in others if n < len(names) and names[n] in LABEL_COLUMNS]
            )
            if len(chosen) == 1:
                return image, chosen[0], header
    shown = ', '.join(rows[0][0]) if rows else 'an empty file'
    raise DataError(
        f'--ann {file}:1: expected a column of images below --images and a column of classes, in a'
        f' file of more than two columns called {LABEL_COLUMNS[0]}, got {shown:.200}.'
    )


def _class_folders(root: Path) -> dict[str, list[Path]]:
    """List the images of each class."""
    files = image_files.find_images(root)
    loose = [path.name for path in files if path.parent == root]
    if loose:
        raise DataError(
            f'--images {root}: expected CLASS/IMAGE, or train/CLASS/IMAGE and val/CLASS/IMAGE, got '
            f'{shorten(loose, 3)} without a class folder.'
        )
    names = sorted(
        path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith('.')
    )
    if len(names) < 2:
        raise DataError(f'--images {root}: expected at least two class folders, got {names[0]}.')
    found: dict[str, list[Path]] = {name: [] for name in names}
    for path in files:
        found[path.relative_to(root).parts[0]].append(path)
    return found
