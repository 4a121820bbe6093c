"""Reading weights from checkpoint files, and the content of converted files."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from mmflatten.checkpoints.convert import (
    PARALLEL,
    convert_state_dict,
    find_and_convert,
    revert_state_dict,
    unwrapped,
)
from mmflatten.checkpoints.families import FAMILIES
from mmflatten.checkpoints.key_bounds import MAX_KEYS, require_short_keys
from mmflatten.checkpoints.self_supervised import backbone_weights
from mmflatten.text import shorten
from mmflatten.untrusted.files import open_regular, problem_of, read_text
from mmflatten.untrusted.torch_file import MAX_BYTES, read_torch
from mmflatten.version import __version__

HEAD = ('head.fc.weight', 'head.fc.bias')
AUTO = 'auto'  # the family whose names a file has
SAFETENSORS = '.safetensors'  # tensors by name, without code
MAX_HEAD_MAP_BYTES = 2**20
# In order of preference. The accuracies published with official files are those of 'model', even if
# the file also has averaged weights (FLatten-CSwin's 'state_dict_ema', L2ViT's 'model_ema').
# Trainings of DINO have a teacher and a student.
ENTRIES = ('model', 'state_dict', 'model_ema', 'state_dict_ema', 'teacher', 'student')


@dataclass(frozen=True)
class Weights:
    """Weights of a checkpoint file."""

    state_dict: dict[str, Tensor]  # without the prefixes of wrappers
    entry: str | None  # of the file; None for a bare state dict
    notes: tuple[str, ...]  # messages for the user about selected and ignored content


def read_weights(path: str | Path, key: str | None = None, first: str = ENTRIES[0]) -> Weights:
    """Read the weights of a checkpoint, either a bare state dict or an entry of a nested file.

    Args:
        path: a `.safetensors` file, or a file of `torch.save`.
        key: entry to read; None selects the first of `ENTRIES` in the file.
        first: entry that is selected before them, if the file has it.

    Raises:
        ValueError: the file is unreadable, or has no weights or no such entry.
    """
    content: Any
    replaced: list[str] = []
    if Path(path).suffix == SAFETENSORS:
        content = read_safetensors(path)
    else:
        content, replaced = read_torch(path)
    require_short_keys(content, path)
    weights, entry = _select(content, key, path=path, entries=(first, *ENTRIES))
    bare, removed = unwrapped(weights)
    bare, read_notes = backbone_weights(bare)
    notes = [
        f'skipped an object of another library, without running its code: {name}'
        for name in replaced
    ]
    if entry is not None:
        notes.append(_entry_note(content, entry))
    notes += [f'removed the prefix {prefix!r} from the names' for prefix in removed]
    return Weights(bare, entry, (*notes, *read_notes))


def _entry_note(content: Mapping[str, Any], entry: str) -> str:
    note = f'read the entry {entry!r}'
    others = []
    for name in ENTRIES:
        if name != entry and isinstance(content.get(name), Mapping):
            others.append(name)
    if others:
        note += f'; --key selects another: {", ".join(others)}'
    return note


def read_safetensors(path: str | Path) -> dict[str, Tensor]:
    """Read a safetensors file onto the CPU; raise ValueError if it is damaged or has another
    format.
    """
    from safetensors import SafetensorError, safe_open

    if (problem := problem_of(path, MAX_BYTES)) is not None:
        raise ValueError(f'{path}: {problem}. Expected a safetensors file.')
    try:
        with safe_open(path, 'pt') as file:
            names = file.keys()
            if len(names) > MAX_KEYS:
                raise ValueError(f'{path}: expected at most {MAX_KEYS} tensors, got {len(names)}.')
            return {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(
            f'{path}: expected a complete safetensors file, got an error: {str(error)[:200]}.'
        ) from error


def encode(content: dict, name: str | Path) -> bytes:
    """Encode a result of `convert_file` in the format of the suffix of `name`.

    A `.safetensors` file holds the weights only, with the content of `meta` as text in its header.
    """
    if Path(name).suffix == SAFETENSORS:
        from safetensors.torch import save

        (weights,) = (value for entry, value in content.items() if entry != 'meta')
        # The format allows neither shared memory nor strides.
        tensors = {
            key: value.clone(memory_format=torch.contiguous_format)
            for key, value in weights.items()
        }
        header = {key: str(value) for key, value in content['meta'].items()}
        return save(tensors, metadata={'format': 'pt', **header})
    data = io.BytesIO()  # errors of torch.save to a file do not state their cause
    torch.save(content, data)
    return data.getvalue()


def convert_file(
    source: str | Path,
    family: str | None,
    *,
    key: str | None = None,
    revert: bool = False,
    head_map: str | Path | None = None,
) -> tuple[dict, Weights]:
    """Convert a checkpoint file. Returns the content of the new file and the weights that were
    read.

    Converted weights are in the entry `state_dict`; reverted weights in the entry that the official
    code reads.

    Args:
        source: checkpoint file.
        family: a key of `FAMILIES`, or 'auto' for the one that fits; None for a checkpoint of this
            project, whose names are kept.
        key: see `read_weights`.
        revert: convert to the official names.
        head_map: file that lists the classes of the new head, see `map_head`.

    Errors are those of `read_weights`, `convert_state_dict` and `map_head`.
    """
    first = ENTRIES[0]
    if family in FAMILIES and not revert:
        first = FAMILIES[family].entry
    weights = read_weights(source, key, first)
    ours = weights.state_dict
    if family == AUTO and not revert:
        family, ours = find_and_convert(weights.state_dict)
    elif family is not None and not revert:
        ours = convert_state_dict(weights.state_dict, family)
    meta = dict(
        family=family,
        source=Path(source).name,
        source_entry=weights.entry,
        source_sha256=_sha256(source),
        mmflatten_version=__version__,
    )
    if head_map is not None:
        ours = map_head(ours, head_map)
        meta.update(head_map=Path(head_map).name, head_map_sha256=_sha256(head_map))
    if not revert or family is None:
        return dict(state_dict=ours, meta=meta), weights
    prefix = PARALLEL if FAMILIES[family].parallel else ''
    official = revert_state_dict(ours, family)
    official = {prefix + name: value for name, value in official.items()}
    return {FAMILIES[family].entry: official, 'meta': meta}, weights


def map_head(state_dict: Mapping[str, Tensor], path: str | Path) -> dict[str, Tensor]:
    """Select the classes of a head listed in a text file, such as ImageNet-1k from ImageNet-22k.

    Args:
        state_dict: classifier with the names of this project. The result shares all tensors except
            those of the head.
        path: text file with the old class number of each new class, one per line, without empty
            lines.

    Raises:
        FileNotFoundError: the file does not exist.
        UnusableFile: the path is no regular file with text of at most 1 MiB.
        ValueError: the head is missing, the file is empty, or a line is not a class number of the
            head.
    """
    missing = [name for name in HEAD if name not in state_dict]
    if missing:
        raise ValueError(
            f'checkpoint: expected a classifier with {" and ".join(missing)}, got '
            f'{shorten(list(state_dict))}. Official checkpoints need --family.'
        )
    classes = len(state_dict[HEAD[0]])
    lines = read_text(path, MAX_HEAD_MAP_BYTES).splitlines()
    if not lines:
        raise ValueError(f'{path}: expected one class number per line, got an empty file.')
    selected = []
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or int(line) >= classes:
            raise ValueError(
                f'{path}, line {number}: expected a class number from 0 to {classes - 1}, got'
                f' {line!r}.'
            )
        selected.append(int(line))
    head = {name: state_dict[name][selected] for name in HEAD}
    return {**state_dict, **head}


def _sha256(path: str | Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def _select(
    content: Any, key: str | None, path: str | Path, entries: Sequence[str]
) -> tuple[Mapping[str, Tensor], str | None]:
    if not isinstance(content, Mapping):
        raise ValueError(
            f'{path}: expected a dict of weights, got {type(content).__name__}. Save the'
            ' state_dict() of the model in its code.'
        )
    entry = key
    if key is None:
        present_entries = [name for name in entries if name in content]
        entry = present_entries[0] if present_entries else None
    weights = content if entry is None else content.get(entry)
    if not _is_state_dict(weights):
        where = '' if entry is None else f', entry {entry!r}'
        present = shorten([repr(name) for name in content], 8) or 'nothing'
        raise ValueError(
            f'{path}{where}: expected a dict of tensors, got a file with {present}. Select an entry'
            f' with --key; the defaults are {", ".join(ENTRIES)}.'
        )
    return weights, entry


def _is_state_dict(content: Any) -> TypeGuard[Mapping[str, Tensor]]:
    if not isinstance(content, Mapping) or not content:
        return False
    return all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    )
