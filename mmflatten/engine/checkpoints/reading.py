"""Reading of checkpoint files on this machine: whole ones only, and without running code from them."""
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmengine.runner import CheckpointLoader

from mmflatten.checkpoints.files import SAFETENSORS, read_safetensors
from mmflatten.checkpoints.safe_pickle import Inert
from mmflatten.engine.checkpoints.files import require_whole
from mmflatten.engine.checkpoints.one_file import read_file
from mmflatten.engine.checkpoints.pieces import SHARDED, read_pieces


@contextlib.contextmanager
def safe_reading() -> Iterator[None]:
    """Inside, whoever asks MMEngine for a checkpoint on this machine gets it by `load_from_local`.

    MMEngine itself unpickles a file that `weights_only=True` refuses, which runs whatever the file says. Models of any
    library read their `init_cfg` through its table of loaders, and there is no other way to give them another one.
    """
    table = CheckpointLoader._schemes
    CheckpointLoader._schemes = {**table, '': load_from_local}
    try:
        yield
    finally:
        CheckpointLoader._schemes = table


def load_from_local(filename: str, map_location: Any = None) -> Any:
    """Read a checkpoint. Objects of foreign classes in it become inert stand-ins, and a warning names them.

    A safetensors file is nothing but weights by their names, on the CPU; pieces are put together there.

    Raises:
        CheckpointError: there is no such file, or it is damaged.
        ValueError: it cannot be read as a checkpoint.
    """
    path = Path(filename).expanduser()
    require_whole(path)
    if path.suffix == SAFETENSORS:
        return read_safetensors(path)
    if path.suffix == SHARDED:
        return read_pieces(path)
    return read_file(path, map_location)


def holds_stand_ins(content: Any) -> bool:
    """Whether plain containers hold, at any depth, an object that `load_from_local` left out."""
    if isinstance(content, dict):
        return any(map(holds_stand_ins, content.values()))
    if isinstance(content, (list, tuple, set)):
        return any(map(holds_stand_ins, content))
    return isinstance(content, Inert)
