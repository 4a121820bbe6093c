"""Checkpoint files: which entry of one holds the weights, and what a converted one holds."""
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mmflatten.checkpoints.convert import PARALLEL, convert_state_dict, revert_state_dict, without_parallel
from mmflatten.checkpoints.families import FAMILIES
from mmflatten.checkpoints.head_map import map_head
from mmflatten.checkpoints.rules import shorten
from mmflatten.checkpoints.safe_pickle import load_without_code
from mmflatten.version import __version__

SAFETENSORS = '.safetensors'  # a file of tensors by their names and nothing that could be run
# In the order of preference. The numbers that the papers' authors publish with their files are those of 'model', also
# where an average of the weights lies next to it (FLatten-CSwin's 'state_dict_ema', L2ViT's 'model_ema').
ENTRIES = ('model', 'state_dict', 'model_ema', 'state_dict_ema')


@dataclass(frozen=True)
class Weights:
    """Weights of a checkpoint file, and how they were found in it."""

    state_dict: dict[str, Tensor]
    entry: str | None  # of the file; None where the file is nothing but the weights
    notes: tuple[str, ...]  # sentences for the user on what was chosen or left out


def read_weights(path: str | Path, key: str | None = None, run_pickled_code: bool = False) -> Weights:
    """Read the weights of a checkpoint: a bare state dict, or one entry of a nested file; without `module.`.

    Args:
        path: a file of `torch.save`, or of safetensors if its name ends so.
        key: the entry to take; None takes the first of `ENTRIES` that is there.
        run_pickled_code: unpickle foreign classes for real, which runs code that the file chooses.

    Raises:
        ValueError: an unreadable file, a file without weights, an entry that is not there.
    """
    replaced: list[str] = []
    if Path(path).suffix == SAFETENSORS:
        content: Any = read_safetensors(path)
    elif run_pickled_code:
        content = torch.load(path, map_location='cpu', weights_only=False)
    else:
        content, replaced = load_without_code(path)
    notes = [f'left out an object of a foreign class, without running its code: {name}' for name in replaced]
    weights, entry = _select(content, key, path)
    if entry is not None:
        others = [name for name in ENTRIES if isinstance(content.get(name), Mapping) and name != entry]
        notes.append(f'took the entry {entry!r}' + (f'; --key takes another: {", ".join(others)}' if others else ''))
    bare = without_parallel(weights)
    if bare.keys() != weights.keys():
        notes.append(f'removed {PARALLEL!r} from the beginning of all names')
    return Weights(bare, entry, tuple(notes))


def read_safetensors(path: str | Path) -> dict[str, Tensor]:
    """Read a safetensors file onto the CPU.

    Raises:
        ValueError: it is none, or not whole.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f'{path} cannot be read as safetensors ({error}). Is it whole?') from error


def encode(content: dict, name: str | Path) -> bytes:
    """What to write to a file of this name for a result of `convert_file`.

    `.safetensors` has no entries: it gets the weights alone, and as text in its header what `meta` says of them.
    """
    if Path(name).suffix == SAFETENSORS:
        from safetensors.torch import save

        weights, = (value for entry, value in content.items() if entry != 'meta')
        return save({key: value.clone(memory_format=torch.contiguous_format) for key, value in weights.items()},
                    {'format': 'pt', **{key: str(value) for key, value in content['meta'].items()}})
    data = io.BytesIO()  # PyTorch would hide the cause of a failed write
    torch.save(content, data)
    return data.getvalue()


def convert_file(source: str | Path, family: str | None, *, key: str | None = None, revert: bool = False,
                 head_map: str | Path | None = None, run_pickled_code: bool = False) -> tuple[dict, Weights]:
    """What to save in place of a file, and the weights that were read from it; raises as the functions it calls.

    Converted weights are in the entry `state_dict`; reverted ones in the entry, and under the names, in which the
    official code expects them. Without a family, the file is of this project and keeps its names.

    Args:
        head_map: file of the classes that the new head takes from the old one, see `map_head`.
    """
    weights = read_weights(source, key, run_pickled_code)
    meta = dict(family=family, source=Path(source).name, source_entry=weights.entry,
                source_sha256=_sha256(source), mmflatten_version=__version__)
    ours = weights.state_dict if revert or family is None else convert_state_dict(weights.state_dict, family)
    if head_map is not None:
        ours = map_head(ours, head_map)
        meta.update(head_map=Path(head_map).name, head_map_sha256=_sha256(head_map))
    if not revert or family is None:
        return dict(state_dict=ours, meta=meta), weights
    start = PARALLEL if FAMILIES[family].parallel else ''
    official = {start + name: value for name, value in revert_state_dict(ours, family).items()}
    return {FAMILIES[family].entry: official, 'meta': meta}, weights


def _sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _select(content: Any, key: str | None, path: str | Path) -> tuple[Mapping[str, Tensor], str | None]:
    if isinstance(content, nn.Module):
        return content.state_dict(), None
    if not isinstance(content, Mapping):
        raise ValueError(f'{path} holds an object of type {type(content).__name__}, not a dict of weights; save the '
                         'state_dict() of a model in the code that knows its class')
    entry = key if key is not None else next((name for name in ENTRIES if name in content), None)
    weights = content if entry is None else content.get(entry)
    weights = weights.state_dict() if isinstance(weights, nn.Module) else weights
    if not isinstance(weights, Mapping) or not weights or not all(isinstance(v, Tensor) for v in weights.values()):
        where = '' if entry is None else f' in its entry {entry!r}'
        there = shorten([repr(name) for name in content], 8) or 'nothing'
        raise ValueError(f'{path} holds no dict of tensors{where}; it has {there}. --key names another entry; '
                         f'looked for were {", ".join(ENTRIES)}')
    return weights, entry
