"""Writing a config for user data: `mmflatten init`."""
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from mmengine.config import Config

from mmflatten.checkpoints.run_files import require_whole
from mmflatten.console import quiet_libraries
from mmflatten.custom_data.config_text import custom_config_text, require_base
from mmflatten.custom_data.reading import CustomData, DataError, Request
from mmflatten.custom_data.schedule import default_batch
from mmflatten.engine.recipe.checks import warnings_of
from mmflatten.engine.recipe.training import Training
from mmflatten.engine.setup import load_config
from mmflatten.text import shorten


def initialise(request: Request) -> Iterator[str]:
    """Read and check the data, write the config, or one for each fold, and yield lines for the user.

    An error writes nothing.
    """
    _check_options(request)
    base = load_config(request.base)
    requests = request.each_fold()
    _require_free(request, base, [item.out for item in requests])
    require_base(base, request.spec)
    if request.checkpoint is not None:
        require_whole(request.checkpoint)
    folds = []
    for item in requests:
        data = request.spec.part('custom_data').read(item, base)
        yield from _news(data, f'fold {item.fold + 1}: ' if request.folds else '', folds)
        data.require_usable()
        folds.append(data)
    files: dict[Path, bytes] = {}
    batches = []
    for item, data in zip(requests, folds):
        _require_free(request, base, data.lists)
        require_base(base, request.spec, data)
        batches.append(min(request.batch, data.counts[0]) if request.batch else default_batch(base, data.counts[0]))
        text = custom_config_text(data, base, item.out, batches[-1], request.checkpoint)
        files |= {path: content.encode() for path, content in {**data.lists, item.out: text}.items()}
    request.out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix='.init-', dir=request.out.parent) as folder:  # on the disk of the config
        written = {path: Path(folder, path.name) for path in files}
        for path, content in files.items():
            written[path].write_bytes(content)
        configs = [_read_back(written[item.out], data) for item, data in zip(requests, folds)]
        lines = [*_checks(requests[0], configs[0], base, folds[0].counts, batches[0])]
        for path, part in written.items():
            part.replace(path)
    yield from lines
    yield f'written: {", ".join(map(str, files))}'


def _read_back(path: Path, data: CustomData) -> Config:
    """Read a written config. Raises DataError if its classes are not those of the data."""
    with quiet_libraries(logging.ERROR):
        cfg = load_config(str(path))
    if data.classes and tuple(cfg.classes) != data.classes:
        raise DataError(f'--out {path.name}: the config has other classes than the data. Rename the classes.')
    return cfg


def _news(data: CustomData, prefix: str, before: list[CustomData]) -> Iterator[str]:
    """Yield the facts and problems of the data, without those of the folds before."""
    told = {line for item in before for line in [*item.facts, *map(str, item.problems)]}
    if prefix and any(data.counts):
        yield f'{prefix}{data.counts[0]} for training, {data.counts[1]} for validation'
    for line in data.facts:
        if line not in told:
            yield (prefix if 'validation' in line else '') + line
    for problem in data.problems:
        if str(problem) not in told:
            yield ('error: ' if problem.stops else 'warning: ') + str(problem)


def _checks(request: Request, cfg: Config, base: Config, counts: tuple[int, int], batch: int) -> Iterator[str]:
    """Yield the length of the training, and what `mmflatten check` finds in the written config."""
    train, val = counts
    with quiet_libraries(logging.ERROR):
        training = Training(cfg, gpus=1, images=train)
        warnings = warnings_of(training)
    unit = 'pairs' if request.spec.pairs else 'images'
    passes = training.iterations / training.epoch_length
    yield (f'{train} {unit} for training, {val} for validation; {training.iterations:,} iterations with a batch of '
           f'{batch}, {passes:.0f} epochs')
    yield from (f'warning: {text}' for _, text in warnings)
    weights = (base.model.get('backbone', {}).get('init_cfg') or {}).get('checkpoint')
    if weights and request.checkpoint is None and '://' not in weights and not Path(weights).exists():
        yield (f'warning: the pretrained weights of the base, {weights}, do not exist. Download them, or start from '
               'random weights with --cfg-options model.backbone.init_cfg=None')


def _check_options(request: Request) -> None:
    """Raise DataError for options that do not fit together, and FileNotFoundError for missing files."""
    spec = request.spec
    if spec.annotation_files and not request.ann:
        raise DataError(f'--ann is missing: --task {request.task} requires annotations.')
    if request.ann and not spec.annotation_files and not spec.label_lists:
        raise DataError(f'--ann {" ".join(map(str, request.ann))}: --task {request.task} reads no annotations. '
                        'Leave --ann out.')
    for option in ('images', 'ann'):
        paths = getattr(request, option) or []
        if len(paths) > 2:
            raise DataError(f'--{option}: expected one path, or one for training and one for validation, got '
                            f'{len(paths)}.')
        for path in paths:
            if not path.exists():
                raise FileNotFoundError(f'--{option} {path} does not exist')
    if not request.images:  # `data.yaml` names its images, and labelme's files are beside them
        if not request.ann:
            raise DataError('--images is missing: name the folder of the images.')
        request.images = [path if path.is_dir() else path.parent for path in request.ann]
    if request.folds is not None and request.folds < 2:
        raise DataError(f'--folds: expected at least 2, got {request.folds}.')
    if request.ann and len(request.images) > len(request.ann):
        raise DataError(f'--ann: expected annotations for each of {len(request.images)} folders, got '
                        f'{len(request.ann)}.')
    if request.classes and not spec.annotation_files:
        raise DataError(f'--classes {" ".join(request.classes)}: --task {request.task} has no such option. Leave '
                        '--classes out.')
    repeated = [name for name, count in Counter(request.classes).items() if count > 1]
    if repeated:
        raise DataError(f'--classes: expected each class once, got {shorten(repeated, 5)} repeatedly.')
    if not 0 < request.val_share < 1:
        raise DataError(f'--val-share: expected a number between 0 and 1, got {request.val_share}.')
    if request.out.suffix != '.py':
        raise DataError(f'--out: expected a name ending in .py, got {request.out}.')


def _require_free(request: Request, base: Config, paths: Iterable[Path]) -> None:
    """Raise DataError if a file would replace one that is read or that exists."""
    sources = {path.resolve() for path in (*(request.ann or []), Path(base.filename))}
    for path in paths:
        if path.resolve() in sources:
            raise DataError(f'--out {request.out}: would replace the input {path}. Choose another name.')
        if path.exists() and not request.force:
            raise DataError(f'--out {request.out}: {path} exists. Choose another name, or replace it with --force.')
