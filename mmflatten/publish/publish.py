"""Write the folder of a published model from a checkpoint and the files of its training."""
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor

from mmflatten.checkpoints.convert import without_parallel
from mmflatten.checkpoints.converted_files import encode
from mmflatten.checkpoints.loading import load_from_local, require_dict
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.config_files import require_parts
from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.setup import load_config
from mmflatten.hub.config_data import HubError, accepted, to_data
from mmflatten.hub.folder import BACKBONE, CARD, CONFIG, FACTS, FORMAT, WEIGHTS, facts_of
from mmflatten.hub.inputs import input_of
from mmflatten.publish.card import draw_pictures, write_card
from mmflatten.report.collect import find_config_file, model_name, read_logs
from mmflatten.requirements import LIBRARIES, inspect
from mmflatten.results.curves import is_training, read_scalars
from mmflatten.results.reading import ResultsError, read_origin
from mmflatten.tasks import task_of
from mmflatten.text import shorten
from mmflatten.version import __version__

_AVERAGES = ('model_ema', 'state_dict_ema')  # in files of other projects
_LOGGED = ('sys.platform', 'Python', 'CUDA available', 'PyTorch', 'seed', 'deterministic')


def publish(checkpoint: str | Path, out: str | Path, config: str | None = None, *, name: str | None = None,
            ema: bool = False, half: bool = False, backbone: bool = False) -> list[str]:
    """Write a published model, read it back, and draw its card. Returns notes for the user.

    Args:
        config: default: the newest config in the folder of the checkpoint.
        name: of the model, on the card. Default: the name of `out`.
        ema: require the averaged weights, which `mmflatten test` also uses if a checkpoint has them.
        half: store float16.
        backbone: also write the weights of the backbone alone.

    Raises:
        HubError: `out` is not empty, there is no config, or config or weights cannot be published.
        CheckpointError: the checkpoint is missing, damaged or does not fit the config.
    """
    checkpoint, out = Path(checkpoint), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise HubError(f'--out: expected a new or empty folder, got {out}. Name another one, or delete it.')
    content = load_from_local(str(checkpoint))
    require_dict(content, str(checkpoint))
    file = config or find_config_file(checkpoint.parent)
    if file is None:
        raise HubError(f'config: there is none beside {checkpoint}. Name it with --config.')
    cfg = load_config(str(file))
    require_parts(cfg, 'model', 'test_dataloader')
    weights = _weights(content, checkpoint, ema, half)
    parts = {WEIGHTS: weights}
    if backbone:
        parts[BACKBONE] = {key: value for key, value in weights.items() if key.startswith('backbone.')}
        if not parts[BACKBONE]:
            raise HubError(f'--backbone: the model has no weights backbone.*, got {shorten(list(weights), 3)}.')
    data = dict(input=input_of(cfg, str(file)), model=to_data(cfg.model, f'{file}: model'))
    accepted(data['model'], cfg.default_scope, f'{file}: model')
    facts = _facts(cfg, checkpoint, content, weights, name or out.name)
    with atomic_write(out) as folder:
        folder.mkdir()
        for part, tensors in parts.items():
            (folder / part).write_bytes(encode(dict(state_dict=tensors, meta=dict(mmflatten=__version__)), part))
        _write_json(folder / CONFIG, data)
        notes = _finish(folder, facts, data['input'], cfg)
    return notes


def _finish(folder: Path, facts: dict[str, Any], numbers: dict[str, Any], cfg: Config) -> list[str]:
    """Read the files back as a user would, draw pictures with the model, and write facts and card."""
    facts['files'] = {path.name: facts_of(path) for path in sorted(folder.iterdir())}
    _write_json(folder / FACTS, facts)
    pictures, notes = draw_pictures(folder, cfg)  # an error for what a reader would refuse
    facts['files'].update({path.name: facts_of(path) for path in pictures})
    _write_json(folder / FACTS, facts)
    write_card(folder / CARD, facts, numbers, pictures)
    if not facts['metrics']:
        notes.append('No metrics: `mmflatten test CONFIG CHECKPOINT --out results.pkl` in the folder of the checkpoint '
                     'measures them.')
    return notes


def _weights(content: Mapping[str, Any], checkpoint: Path, ema: bool, half: bool) -> dict[str, Tensor]:
    entry = 'state_dict'
    if ema and 'ema_state_dict' not in content:  # MMEngine swaps: its `state_dict` is then the average
        entry = next((key for key in _AVERAGES if key in content), '')
        if not entry:
            raise HubError(f'--ema: {checkpoint} has no averaged weights, got {shorten(list(content), 5)}.')
    weights = without_parallel(content.get(entry, content))
    wrong = [key for key, value in weights.items() if not isinstance(value, Tensor)]
    if wrong or not weights:
        raise HubError(f'checkpoint {checkpoint}: expected tensors, got {shorten(wrong, 3) or "no weights"}.')
    if not half:
        return dict(weights)
    halves = {key: value.half() if value.is_floating_point() else value for key, value in weights.items()}
    for key, value in halves.items():
        if not torch.equal(value.isfinite(), weights[key].isfinite()):
            raise HubError(f'--half: {key} has values above 65504, which float16 cannot hold. Leave --half out.')
    return halves


def _facts(cfg: Config, checkpoint: Path, content: Mapping[str, Any], weights: dict[str, Tensor],
           name: str) -> dict[str, Any]:
    metainfo, meta = read_metainfo(cfg), content['meta'] if isinstance(content.get('meta'), dict) else {}
    palette = metainfo.get('palette')
    folder, (environment, seconds) = checkpoint.parent, read_logs(checkpoint.parent)
    training = dict(seed=meta.get('seed'), epoch=meta.get('epoch'), iterations=meta.get('iter'),
                    seconds=round(seconds) or None)
    return dict(
        format=FORMAT, name=name, task=task_of(cfg).name, model=model_name(cfg),
        classes=list(metainfo.get('classes') or ()), palette=None if isinstance(palette, str) else palette,
        weights=dict(parameters=sum(value.numel() for value in weights.values()),
                     types=sorted({str(value.dtype).removeprefix('torch.') for value in weights.values()})),
        metrics=_metrics(folder, checkpoint, training), training={key: value for key, value in training.items()
                                                                  if isinstance(value, (int, float))},
        environment={**{key: environment[key] for key in _LOGGED if key in environment}, 'mmflatten': __version__,
                     **{name: inspect(library).version for name, library in LIBRARIES.items()}})


def _metrics(folder: Path, checkpoint: Path, training: dict[str, Any]) -> dict[str, Any]:
    """Return metrics of a test of this checkpoint, or else of the validation after its epoch or iteration."""
    for path in sorted(folder.glob('*.json')):
        try:
            origin = read_origin(path)
        except ResultsError:  # another kind of JSON file
            continue
        tested = origin.get('checkpoint') and Path(origin.get('folder') or '', origin['checkpoint'])
        if tested and tested.resolve() == checkpoint.resolve() and origin.get('metrics'):
            return dict(measured_by='mmflatten test', seed=training['seed'], values=origin['metrics'])
    try:
        records = read_scalars(folder)
    except (FileNotFoundError, ValueError):
        return {}
    found = [record for record in records if not is_training(record)
             and record['step'] in (training['epoch'], training['iterations'])]
    values = {key: value for record in found[-1:] for key, value in record.items()
              if key not in ('step', 'time', 'data_time')}
    return dict(measured_by='validation during training', seed=training['seed'], values=values) if values else {}


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, default=float) + '\n', encoding='utf-8')
