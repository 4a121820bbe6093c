"""Models by name: the configs that travel with the package."""
from __future__ import annotations

import difflib
import fnmatch
from pathlib import Path

from torch import nn

from mmflatten.building import build_model
from mmflatten.config_library import library
from mmflatten.engine.checkpoints.loading import load_all_weights
from mmflatten.engine.setup import load_config
from mmflatten.tasks import tasks


def list_models(pattern: str = '*', task: str | None = None) -> list[str]:
    """Names of the models that there is a config for, in alphabetical order.

    Args:
        pattern: as file names have them: `*swin-t*`.
        task: classification, detection, segmentation or stereo; None for all.

    Raises:
        ValueError: there is no such task.
    """
    if task is not None and task not in tasks():
        raise ValueError(f'task: expected one of {", ".join(tasks())}, got {task}.')
    return sorted(name for name, entry in library().items()
                  if fnmatch.fnmatch(name, pattern) and task in (None, entry['Metadata']['Task']))


def get_model(name: str, pretrained: str | Path | None = None, **options: object) -> nn.Module:
    """Build a model by the name of its config, or by the config's path, in evaluation mode on the CPU.

    Args:
        pretrained: checkpoint whose every key must fit; None for random weights.
        options: fields of the config's `model` to replace, dotted where deeper: `{'backbone.drop_path_rate': 0}`.

    Raises:
        ValueError: there is no such model.
        CheckpointError: the checkpoint is missing, damaged or of another model.
    """
    if '/' not in name and not name.endswith('.py') and name not in library():
        near = difflib.get_close_matches(name, library()) or list(library())[:3]
        raise ValueError(f'model ({name}) has no config here; there are {", ".join(near)}; list_models() names all')
    cfg = load_config(name)
    cfg.merge_from_dict({f'model.{key}': value for key, value in options.items()})
    model = build_model(cfg)
    model.cfg = cfg
    if pretrained is not None:
        load_all_weights(model, str(pretrained))
    return model.eval()
