"""Classification data: a folder of images per class."""
from pathlib import Path

from mmengine.config import Config

from mmflatten.checkpoints.rules import shorten
from mmflatten.own_data.data import OwnData, OwnDataError, Problem, Request, listed
from mmflatten.own_data.pictures import find_images, picture_problems, read_pictures, size_range, split, split_folders


def read(request: Request, base: Config) -> OwnData:
    """Read `train/CLASS/*` and `val/CLASS/*`, two such folders, or one folder that is split class by class."""
    roots = split_folders(request.images)
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
        halves = [split({path: pictures[path] for path in files}, request.val_share)
                  for files in parts[0].values() if files]
        sides = [sum(side, []) for side in zip(*halves)]
    else:
        sides = [sum(part.values(), []) for part in parts]
    lines = []
    for side, root in zip(sides, (roots[0], roots[-1])):
        files = [path.relative_to(root) for path in side]
        lines.append(f'{file.as_posix()} {names.index(file.parts[0])}' for file in files if file.parts[0] in names)
    facts = [f'image sizes: {size_range(pictures)}']
    facts += [f'class {name}: {sum(len(part.get(name, [])) for part in parts)} images' for name in names]
    evaluator = dict(topk=(1, )) if len(names) < 5 else {}  # the default of the base configs, top 5, needs 5 classes
    return OwnData('CustomDataset', **listed(request, lines, [dict(data_prefix=root) for root in roots]),
                   classes=tuple(names), facts=facts, problems=problems + picture_problems(pictures, *sides),
                   evaluator=evaluator)


def _class_folders(root: Path) -> dict[str, list[Path]]:
    """List the images of each class."""
    files = find_images(root)
    loose = [path.name for path in files if path.parent == root]
    if loose:
        raise OwnDataError(f'--images {root}: expected CLASS/IMAGE, or train/CLASS/IMAGE and val/CLASS/IMAGE, got '
                           f'{shorten(loose, 3)} without a class folder.')
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith('.'))
    if len(names) < 2:
        raise OwnDataError(f'--images {root}: expected at least two class folders, got {names[0]}.')
    return {name: [path for path in files if path.relative_to(root).parts[0] == name] for name in names}
