"""Write the folder of a published model from a checkpoint and the files of its training."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import Tensor

from mmflatten.checkpoints.convert import unwrapped
from mmflatten.checkpoints.converted_files import encode
from mmflatten.checkpoints.loading import read_checkpoint, require_dict
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.config import require_parts
from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.image_input import input_of
from mmflatten.engine.setup import load_config
from mmflatten.export.metadata import read_metadata, sha256
from mmflatten.hub.card import write_card
from mmflatten.hub.config_data import accepted, to_data
from mmflatten.hub.folder import facts_of
from mmflatten.hub.remote import from_pretrained
from mmflatten.requirements import LIBRARIES, inspect
from mmflatten.results.reading import ResultsError, read_origin
from mmflatten.results.work_dir import find_config_file, model_name
from mmflatten.tasks import task_of
from mmflatten.text import shorten
from mmflatten.untrusted.published import CARD, CONFIG, FACTS, FORMAT, ONNX, WEIGHTS, HubError
from mmflatten.version import __version__


def publish(
    checkpoint: str | Path,
    out: str | Path,
    config: str | None = None,
    *,
    name: str | None = None,
    onnx: str | Path | None = None,
) -> list[str]:
    """Write a published model and its card after reading the files back. Returns notes for the
    user.

    The weights are those that `mmflatten test` uses: averaged ones if the training kept a moving
    average.

    Args:
        config: default: the newest config in the folder of the checkpoint.
        name: of the model, on the card. Default: the name of `out`.
        onnx: file of `mmflatten export` of this checkpoint, which the folder will contain.

    Raises:
        HubError: `out` is not empty, there is no config, config or weights cannot be published, or
            the ONNX file is of another checkpoint.
        ExportError: the ONNX file is not one of `mmflatten export`.
        CheckpointError: the checkpoint is missing, damaged or does not fit the config.
    """
    checkpoint, out = Path(checkpoint), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise HubError(
            f'--out: expected a new or empty folder, got {out}. Name another one, or delete it.'
        )
    content = read_checkpoint(str(checkpoint))
    require_dict(content, str(checkpoint))
    file = config or find_config_file(checkpoint.parent)
    if file is None:
        raise HubError(f'config: there is none beside {checkpoint}. Name it with --config.')
    cfg = load_config(str(file))
    require_parts(cfg, 'model', 'test_dataloader')
    weights = _weights(content, checkpoint)
    data = dict(input=input_of(cfg, str(file)), model=to_data(cfg.model, f'{file}: model'))
    accepted(data['model'], cfg.default_scope, f'{file}: model')
    facts = _facts(
        cfg=cfg,
        checkpoint=checkpoint,
        content=content,
        weights=weights,
        name=name or out.name,
    )
    if onnx is not None:
        facts['onnx'] = _onnx_facts(onnx, checkpoint)
    encoded = encode(dict(state_dict=weights, meta=dict(mmflatten=__version__)), WEIGHTS)
    with atomic_write(out) as folder:
        folder.mkdir()
        (folder / WEIGHTS).write_bytes(encoded)
        _write_json(folder / CONFIG, data)
        if onnx is not None:
            shutil.copyfile(onnx, folder / ONNX)
        facts['files'] = {
            path.name: facts_of(path).model_dump() for path in sorted(folder.iterdir())
        }
        _write_json(folder / FACTS, facts)
        # Fail here if a reader would refuse the folder.
        from_pretrained(folder, device='cpu')
        write_card(folder / CARD, facts, data['input'])
    if facts['metrics']:
        return []
    return [
        'No metrics: `mmflatten test CONFIG CHECKPOINT --out results.pkl` in the folder of the'
        ' checkpoint measures them.'
    ]


def _weights(content: Mapping[str, Any], checkpoint: Path) -> dict[str, Tensor]:
    weights, _ = unwrapped(content.get('state_dict', content))
    wrong = [key for key, value in weights.items() if not isinstance(value, Tensor)]
    if wrong or not weights:
        raise HubError(
            f'checkpoint {checkpoint}: expected tensors, got {shorten(wrong, 3) or "no weights"}.'
        )
    return weights


def _facts(
    cfg: Config, checkpoint: Path, content: Mapping[str, Any], weights: dict[str, Tensor], name: str
) -> dict[str, Any]:
    metainfo = read_metainfo(cfg)
    palette = metainfo.get('palette')
    training = _training(content)
    types = {str(value.dtype).removeprefix('torch.') for value in weights.values()}
    versions = {name: inspect(library).version for name, library in LIBRARIES.items()}
    return dict(
        format=FORMAT,
        name=name,
        task=task_of(cfg).name,
        model=model_name(cfg),
        classes=list(metainfo.get('classes') or ()),
        palette=None if isinstance(palette, str) else palette,
        weights=dict(
            parameters=sum(value.numel() for value in weights.values()),
            types=sorted(types),
        ),
        metrics=_metrics(checkpoint, training.get('seed')),
        training=training,
        environment={'mmflatten': __version__, **versions},
    )


def _onnx_facts(file: str | Path, checkpoint: Path) -> dict[str, Any]:
    """Return the facts of an ONNX file that the card states."""
    metadata = read_metadata(file)
    if metadata.get('checkpoint') != sha256(checkpoint):
        raise HubError(
            f'--onnx: expected a file exported from {checkpoint}, got {file} of another checkpoint.'
            ' Export this one.'
        )
    names = ('outputs', 'precision', 'batch', 'size', 'sides', 'bands', 'mean', 'difference')
    return {name: metadata.get(name) for name in names}


def _training(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a training that a checkpoint states."""
    meta = content.get('meta')
    if not isinstance(meta, dict):
        return {}
    training = {}
    for name, key in dict(seed='seed', epoch='epoch', iterations='iter').items():
        if isinstance(meta.get(key), (int, float)):
            training[name] = meta[key]
    return training


def _metrics(checkpoint: Path, seed: int | None) -> dict[str, Any]:
    """Return the metrics of a test of this checkpoint, from a JSON file beside it."""
    for path in sorted(checkpoint.parent.glob('*.json')):
        try:
            origin = read_origin(path)
        except ResultsError:  # another kind of JSON file
            continue
        if not origin.get('checkpoint') or not origin.get('metrics'):
            continue
        tested = Path(origin.get('folder') or '', origin['checkpoint'])
        if tested.resolve() == checkpoint.resolve():
            return dict(measured_by='mmflatten test', seed=seed, values=origin['metrics'])
    return {}


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, default=float) + '\n', encoding='utf-8')
