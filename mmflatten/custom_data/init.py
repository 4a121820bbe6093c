"""Writing a config for user data: `mmflatten init`."""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from mmengine.config import Config

from mmflatten.checkpoints.run_files import atomic_write, require_whole
from mmflatten.console import quiet_libraries
from mmflatten.custom_data.bands import bands_config_text, norms_of
from mmflatten.custom_data.base_changes import BaseChanges, changes_for
from mmflatten.custom_data.base_rules import UnsuitedBase
from mmflatten.custom_data.config_text import custom_config_text, default_batch, require_base
from mmflatten.custom_data.first_batch import BatchError, require_batches, with_files
from mmflatten.custom_data.named_classes import has_classes, named_config_text, with_names
from mmflatten.custom_data.reading import CustomData, DataError, Request, similar_names
from mmflatten.engine.setup import load_config
from mmflatten.text import shorten
from mmflatten.untrusted.files import problem_of


def initialise(request: Request) -> Iterator[str]:
    """Read and check the data, write the config, and yield lines for the user. An error writes
    nothing.
    """
    _check_options(request)
    base = load_config(request.base)
    uses_classes = has_classes(base)
    if uses_classes:
        base = with_names(base)
    _require_free(request, base, [request.out])
    require_base(base, request.spec)
    if request.checkpoint is not None:
        require_whole(request.checkpoint)
    data = request.spec.part('custom_data').read(request, base)
    yield from data.facts
    for problem in [*data.problems, *similar_names(data.classes)]:
        yield f'{"error" if problem.stops else "warning"}: {problem}'
    data.require_usable()
    _require_free(request, base, data.lists)
    with _Between(request) as between:
        if uses_classes:
            base = between.write('base', named_config_text(base), base)
            yield f'the base has classes in place of names; with names: {base.filename}'
        if request.bands:
            norms = norms_of(picture.moments for picture in request.pictures.values())
            base = between.write('bands', bands_config_text(base, norms), base)
            yield f'bands: {norms} (mean +- standard deviation), in {base.filename}'
        yield from _write(request, base, data)


class _Between:
    """Configs between the base and the written one. An error brings back what they replace."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._replaced: dict[Path, bytes | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        for file, content in self._replaced.items():
            if content is None:
                file.unlink()
            else:
                _write_bytes(file, content)

    def write(self, name: str, text: str, base: Config) -> Config:
        """Write a config beside the one to be written, and read it. Errors are those of
        `_require_free`.
        """
        out = self._request.out.absolute()
        file = out.with_name(f'{out.stem}_{name}.py')
        _require_free(self._request, base, [file])
        self._replaced[file] = file.read_bytes() if file.exists() else None
        _write_bytes(file, text.encode())
        return load_config(str(file))


def _write_bytes(file: Path, content: bytes) -> None:
    with atomic_write(file) as partial:
        partial.write_bytes(content)


def _write(request: Request, base: Config, data: CustomData) -> Iterator[str]:
    """Write the config and its lists, and yield lines for the user."""
    with quiet_libraries(logging.ERROR):
        changes = _changes(base, data, request.base)
    yield from changes.notes
    images = data.counts[0]
    batch = min(request.batch, images) if request.batch else default_batch(base, images)
    text = custom_config_text(
        changes, data, base, out=request.out, batch=batch, checkpoint=request.checkpoint
    )
    files = {**data.lists, request.out: text}
    _write_files(files, request, data.classes)
    unit = 'pairs' if request.spec.pairs else 'images'
    yield f'{images} {unit} for training, {data.counts[1]} for validation, in batches of {batch}'
    yield f'written: {", ".join(map(str, files))}; next: mmflatten check {request.out}'


def _changes(base: Config, data: CustomData, name: str) -> BaseChanges:
    try:
        return changes_for(base, data)
    except UnsuitedBase as error:
        raise DataError(f'--base {name}: {error}.') from None


def _check_options(request: Request) -> None:
    """Raise DataError for options that do not fit together, and FileNotFoundError for missing
    files.
    """
    _check_paths(request)
    _check_classes(request)
    if not 0 < request.val_share < 1:
        raise DataError(f'--val-share: expected a number between 0 and 1, got {request.val_share}.')
    if request.out.suffix != '.py':
        raise DataError(f'--out: expected a name ending in .py, got {request.out}.')


def _check_paths(request: Request) -> None:
    """Check `--images` and `--ann`; the folders of the labels replace missing `--images`."""
    spec = request.spec
    if spec.annotation_files and not request.ann:
        raise DataError(f'--ann is missing: --task {request.task} requires annotations.')
    if request.ann and not spec.annotation_files and not spec.label_lists:
        raise DataError(
            f'--ann {" ".join(map(str, request.ann))}: --task {request.task} reads no annotations. '
            'Leave --ann out.'
        )
    _require_existing('images', request.images)
    _require_existing('ann', request.ann or [])
    if not request.images:  # `data.yaml` names its images, and labelme's files are beside them
        if not request.ann:
            raise DataError('--images is missing: name the folder of the images.')
        request.images = [path if path.is_dir() else path.parent for path in request.ann]
    if request.ann and len(request.images) > len(request.ann):
        raise DataError(
            f'--ann: expected annotations for each of {len(request.images)} folders, got '
            f'{len(request.ann)}.'
        )


def _require_existing(option: str, paths: Sequence[Path]) -> None:
    if len(paths) > 2:
        raise DataError(
            f'--{option}: expected one path, or one for training and one for validation, got '
            f'{len(paths)}.'
        )
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f'--{option} {path} {problem_of(path)}. Check the path.')


def _check_classes(request: Request) -> None:
    if request.classes and not request.spec.annotation_files:
        raise DataError(
            f'--classes {" ".join(request.classes)}: --task {request.task} has no such option.'
            ' Leave --classes out.'
        )
    repeated = [name for name, count in Counter(request.classes).items() if count > 1]
    if repeated:
        raise DataError(
            f'--classes: expected each class once, got {shorten(repeated, 5)} repeatedly.'
        )


def _require_free(request: Request, base: Config, paths: Iterable[Path]) -> None:
    """Raise DataError if a file would replace one that is read or that exists."""
    # `resolve` fails for a link to itself
    sources = {os.path.realpath(path) for path in (*(request.ann or []), base.filename)}
    for path in paths:
        if os.path.realpath(path) in sources:
            raise DataError(
                f'--out {request.out}: would replace the input {path}. Choose another name.'
            )
        if path.exists() and not request.force:
            raise DataError(
                f'--out {request.out}: {path} exists. Choose another name, or replace it with'
                ' --force.'
            )


def _write_files(files: dict[Path, str], request: Request, classes: Sequence[str]) -> None:
    """Write all files, or none if the config cannot be read back with these classes, or if its data
    sets do not give a batch.
    """
    with ExitStack() as stack:
        # The config is opened first, so that it appears last, with all files that it names.
        partial = {path: stack.enter_context(atomic_write(path)) for path in reversed(files)}
        for path, content in files.items():
            partial[path].write_bytes(content.encode())
        with quiet_libraries(logging.ERROR):
            read_back = load_config(str(partial[request.out]))
            if classes and tuple(read_back.classes) != tuple(classes):
                raise DataError(
                    f'--out {request.out.name}: the config has other classes than the data. Rename'
                    ' the classes.'
                )
            _require_batches(with_files(read_back, partial), request.base)


def _require_batches(cfg: Config, base: str) -> None:
    try:
        require_batches(cfg)
    except BatchError as error:
        raise DataError(f'--base {base}: {error}') from error
