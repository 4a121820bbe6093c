"""Classification data: a folder of images per class."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mmengine.config import Config

from mmflatten.checkpoints.rules import shorten
from mmflatten.own_data.data import OwnData, OwnDataError, Problem, Request
from mmflatten.own_data.pictures import (
    find_images,
    list_text,
    picture_problems,
    read_pictures,
    size_range,
    split,
    split_folders,
)


def read_classification(images: Sequence[Path], out: Path, val_fraction: float) -> OwnData:
    """Read `train/CLASS/*` and `val/CLASS/*`, two such folders, or one folder that is split class by class."""
    roots = split_folders(images)
    parts = [_class_folders(root) for root in roots]
    names = sorted(parts[0])
    problems = []
    if sorted(parts[-1]) != names:
        problems.append(Problem('class folder in only one part', sorted({*parts[0]} ^ {*parts[-1]}),
                                'training and validation need the same class folders'))
    empty = [f'{root / name}' for root, part in zip(roots, parts) for name, files in part.items() if not files]
    if empty:
        problems.append(Problem('class folder without images', empty, 'fill or remove it'))
    pictures = read_pictures(path for part in parts for files in part.values() for path in files)
    if len(parts) == 1:
        filled = [files for files in parts[0].values() if files]
        sides = [sum(side, []) for side in zip(*(split({path: pictures[path] for path in files}, val_fraction)
                                                 for files in filled))]
    else:
        sides = [[path for files in part.values() for path in files] for part in parts]
    arguments, lists = [], {}
    for name, side, root in zip(('train', 'val'), sides, (roots[0], roots[-1])):
        listed = out.with_name(f'{out.stem}_{name}.txt')
        lines = [(path.relative_to(root).as_posix(), path.relative_to(root).parts[0]) for path in side]
        lists[listed] = list_text(f'{path} {names.index(label)}' for path, label in lines if label in names)
        arguments.append(dict(ann_file=listed, data_prefix=root))
    facts = [f'image sizes: {size_range(pictures)}']
    facts += [f'class {name}: {sum(len(part.get(name, [])) for part in parts)} images' for name in names]
    evaluator = dict(topk=(1, )) if len(names) < 5 else {}  # the default of the base configs, top 5, needs 5 classes
    return OwnData('CustomDataset', *arguments, tuple(map(len, sides)), tuple(names), facts,
                   problems + picture_problems(pictures, *sides), lists, evaluator)


def _class_folders(root: Path) -> dict[str, list[Path]]:
    """List the images of each class.

    Raises:
        OwnDataError: images are outside of class folders, or there are fewer than two classes.
    """
    files = find_images(root)
    loose = [path.name for path in files if path.parent == root]
    if loose:
        raise OwnDataError(f'--images {root}: expected CLASS/IMAGE, or train/CLASS/IMAGE and val/CLASS/IMAGE, got '
                           f'{shorten(loose, 3)} without a class folder.')
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith('.'))
    if len(names) < 2:
        raise OwnDataError(f'--images {root}: expected at least two class folders, got {names[0]}.')
    return {name: [path for path in files if path.relative_to(root).parts[0] == name] for name in names}


def read(request: Request, base: Config, out: Path) -> OwnData:
    """Read the data that `mmflatten init` was given."""
    return read_classification(request.images, out, request.val_share)
