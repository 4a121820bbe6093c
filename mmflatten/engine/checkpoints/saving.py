"""Write checkpoints: files and folders appear under their names only when they are complete."""
import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import mmengine
import torch
from mmengine.dist import barrier, is_main_process
from mmengine.runner import Runner
from mmengine.runner.checkpoint import save_checkpoint
from torch import Tensor
from torch.distributed.tensor import DTensor

from mmflatten.console import OUT_OF_SPACE, space_hint
from mmflatten.engine.checkpoints.files import REST, SHARDED, map_tensors

_PARTIAL = '.part'


class CheckpointWriteError(OSError):
    """A file could not be written. The previous content of the path is unchanged."""

    def __str__(self) -> str:
        return self.strerror


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a hidden path beside `path` to write a file or folder to; on success it is flushed and renamed to `path`.

    `path` therefore holds either the old content or the new, also after a power cut. (A folder that replaces another
    is absent for a moment.) On failure the partial content is deleted.

    Raises:
        CheckpointWriteError: writing failed. If the disk is full, the message gives the free space.
    """
    path = Path(path)
    partial, outdated = partial_path(path), path.with_name(f'.{path.name}.old{_PARTIAL}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        for part in partial.iterdir() if partial.is_dir() else [partial]:
            with open(part, 'rb') as file:
                os.fsync(file.fileno())
        if path.is_dir():
            os.replace(path, outdated)
        os.replace(partial, path)
        _remove(outdated)
        descriptor = os.open(path.parent, os.O_RDONLY)
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(descriptor)
        os.close(descriptor)
    except OSError as error:
        hint = f'; {space_hint(error.errno, path)}' if error.errno in OUT_OF_SPACE else ''
        raise CheckpointWriteError(error.errno, f'cannot write {path}: {error.strerror or error}{hint}') from error
    finally:
        _remove(partial)


def partial_path(path: Path) -> Path:
    """Return the path that `atomic_write` yields for `path`."""
    return path.with_name(f'.{path.name}{_PARTIAL}')


def remove_leftovers(folder: str | Path) -> None:
    """Delete partial files left in `folder` by a killed process."""
    for partial in Path(folder).glob(f'.*{_PARTIAL}'):
        _remove(partial)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def save_distributed(runner: Runner, out_dir: str, filename: str, file_client_args: None = None,
                     save_optimizer: bool = True, save_param_scheduler: bool = True, meta: dict | None = None,
                     by_epoch: bool = True, backend_args: dict | None = None) -> None:
    """Save a training whose state is sharded: one file, or a folder if the filename ends in `.sharded`.

    Every process must call this function. The arguments are those of `Runner.save_checkpoint`.
    """
    # The content of MMEngine's `Runner.save_checkpoint`, which itself runs on one process only.
    progress = dict(epoch=runner.epoch + by_epoch, iter=runner.iter + (not by_epoch))
    meta = {**progress, **(meta or {}), 'cfg': runner.cfg.pretty_text, 'seed': runner.seed,
            'experiment_name': runner.experiment_name, 'time': time.strftime('%Y%m%d_%H%M%S'),
            'mmengine_version': mmengine.__version__}
    if hasattr(runner.train_dataloader.dataset, 'metainfo'):
        meta['dataset_meta'] = runner.train_dataloader.dataset.metainfo
    state = dict(meta=meta, state_dict=runner.model.state_dict(), message_hub=runner.message_hub.state_dict())
    if save_optimizer:
        state['optimizer'] = runner.optim_wrapper.state_dict()
    if save_param_scheduler and runner.param_schedulers is not None:
        state['param_schedulers'] = [scheduler.state_dict() for scheduler in runner.param_schedulers]
    runner.call_hook('before_save_checkpoint', checkpoint=state)
    if Path(filename).suffix == SHARDED:
        _save_folder(state, Path(out_dir, filename))
        return
    state = map_tensors(state, lambda tensor: (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).cpu())
    if '://' in str(out_dir) and is_main_process():
        save_checkpoint(state, f'{out_dir}/{filename}', backend_args=backend_args)
    elif is_main_process():
        with atomic_write(Path(out_dir, filename)) as partial:
            save_checkpoint(state, str(partial))


def _save_folder(state: dict, path: Path) -> None:
    """Write the shards with `torch.distributed.checkpoint`, numbered in order, and everything else to `rest.pth`."""
    from torch.distributed.checkpoint import CheckpointException, FileSystemWriter, save
    shards: dict[str, Tensor] = {}

    def leave_out(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, DTensor):
            return tensor.cpu()
        shards[str(len(shards))] = tensor
        return torch.empty(tensor.shape, dtype=tensor.dtype, device='meta')

    rest = map_tensors(state, leave_out)
    with atomic_write(path) if is_main_process() else contextlib.nullcontext(partial_path(path)) as partial:
        try:
            save(shards, storage_writer=FileSystemWriter(partial))
        except CheckpointException as error:  # raised on every process; the first failure is the cause
            raise next(iter(error.failures.values()))[0] from error
        if is_main_process():
            torch.save(rest, partial / REST)
    barrier()
