"""Replace MMEngine's reading of local checkpoints by one that checks them and runs no code from them."""
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmengine.runner import CheckpointLoader

from mmflatten.checkpoints.files import SAFETENSORS, read_safetensors
from mmflatten.checkpoints.safe_pickle import Inert
from mmflatten.engine.checkpoints.files import SHARDED, read_file, read_sharded, require_whole


@contextlib.contextmanager
def safe_reading() -> Iterator[None]:
    """Make MMEngine read local checkpoints with `load_from_local` inside this context.

    MMEngine 0.10 unpickles a file that `weights_only=True` rejects, which runs code from the file. Models of any
    library load their `init_cfg` through its table of loaders, and replacing the table is the only way in.
    """
    table = CheckpointLoader._schemes
    CheckpointLoader._schemes = {**table, '': load_from_local}
    try:
        yield
    finally:
        CheckpointLoader._schemes = table


def load_from_local(filename: str, map_location: Any = None) -> Any:
    """Read a checkpoint. Objects of foreign classes become inert placeholders, and a warning names them.

    A safetensors file gives a state dict. It and a sharded checkpoint are read into CPU memory.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
        ValueError: the file cannot be read as a checkpoint.
    """
    path = Path(filename).expanduser()
    require_whole(path)
    if path.suffix == SAFETENSORS:
        return read_safetensors(path)
    if path.suffix == SHARDED:
        return read_sharded(path)
    return read_file(path, map_location)


def has_placeholders(content: Any) -> bool:
    """Return True if nested containers hold an object that `load_from_local` replaced."""
    if isinstance(content, dict):
        return any(map(has_placeholders, content.values()))
    if isinstance(content, (list, tuple, set)):
        return any(map(has_placeholders, content))
    return isinstance(content, Inert)
