"""Facts about an exported file, which its metadata hold as JSON under the key `mmflatten`.

docs/export.md lists the fields.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.image_input import input_of
from mmflatten.export.onnx_files import METADATA, batch_range, side_range
from mmflatten.export.wrappers import ExportedModel, ExportError
from mmflatten.untrusted.files import problem_of
from mmflatten.untrusted.published import MAX_BYTES, HubError
from mmflatten.version import __version__

FORMAT = 1


def describe(
    module: ExportedModel,
    cfg: Config,
    dataset_meta: Mapping[str, Any],
    *,
    size: tuple[int, int],
    dynamic: bool,
    checkpoint: str | None = None,
) -> dict[str, Any]:
    """Return the metadata of a model that is about to be written.

    Args:
        dataset_meta: classes and palette of the checkpoint; those of the config replace missing
            ones.
        size: (H, W) of the images, an example if `dynamic`.
        checkpoint: file of the weights.
    """
    metainfo = dict(dataset_meta)
    if 'test_dataloader' in cfg:
        metainfo = {**read_metainfo(cfg), **metainfo}
    palette = metainfo.get('palette')
    facts = dict(
        format=FORMAT,
        mmflatten=__version__,
        task=module.task,
        config=Path(cfg.filename).name,
        checkpoint=None if checkpoint is None else sha256(checkpoint),
        classes=list(metainfo.get('classes') or ()),
        palette=palette if isinstance(palette, (list, tuple)) else None,
        inputs=list(module.inputs),
        outputs=list(module.outputs),
        precision='float32',
        batch=list(batch_range(module) or ()) or None if dynamic else None,
        size=list(size),
        sides=list(side_range(module)) if dynamic else None,
        divisor=module.divisor,
        input=_input(module),
        bands=module.bands,
        mean=module.mean.flatten().tolist(),
        std=module.std.flatten().tolist(),
        transforms=_transforms(cfg, module.bands),
    )
    return json.loads(json.dumps(facts))  # lists for tuples, as a reader of the file sees them


def _input(module: ExportedModel) -> str:
    values = 'RGB, 0 to 255'
    if module.bands is not None:
        values = f'{len(module.mean)} bands'
    return f'{values}, float32; normalised in the graph'


def sha256(file: str | Path) -> str:
    """Return the SHA-256 of a file, which identifies a checkpoint."""
    with open(file, 'rb') as content:
        return hashlib.file_digest(content, 'sha256').hexdigest()


def read_metadata(file: str | Path) -> dict[str, Any]:
    """Read the metadata of an exported file.

    Raises:
        ExportError: the file is not ONNX, or was not written by this version of `mmflatten export`.
    """
    import onnx
    from google.protobuf.message import DecodeError

    problem = problem_of(file, MAX_BYTES)
    if problem is not None:
        raise ExportError(f'{file} {problem}. Name a file of `mmflatten export`.')
    try:
        model = onnx.load(str(file), load_external_data=False)
    except DecodeError as error:
        raise ExportError(
            f'{file}: expected a file of `mmflatten export`, got one that is not ONNX or not'
            ' complete. Export the model again.'
        ) from error
    _require_weights(Path(file), model)
    try:
        entries = {entry.key: entry.value for entry in model.metadata_props}
        metadata = json.loads(entries[METADATA])
        found = metadata['format']
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(
            f'{file}: expected a file of `mmflatten export`, got one without the entry'
            f' {METADATA} in its metadata. Export the model again.'
        ) from error
    if found != FORMAT:
        raise ExportError(
            f'{file}: format: expected {FORMAT}, got {found!r:.80}. Export the model again'
            ' with this version of mmflatten.'
        )
    return metadata


def _require_weights(file: Path, model: Any) -> None:
    """Raise ExportError if weights are in a file beside an ONNX model, which is missing."""
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == 'location' and not (file.parent / entry.value).is_file():
                raise ExportError(
                    f'{file}: weights: expected {entry.value!r:.80} beside it, got no such file.'
                    ' Copy it there, or export the model again.'
                )


def _transforms(cfg: Config, bands: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the resizing and cropping of the config's test pipeline, None if it has other steps.

    The preprocessor and the norms of bands are a part of the graph.
    """
    if 'test_dataloader' not in cfg:
        return None
    try:
        numbers = input_of(cfg, str(cfg.filename))
    except HubError:
        return None
    del numbers['preprocessor']
    if bands is not None:
        numbers['bands'] = dict(bands)
    return numbers
