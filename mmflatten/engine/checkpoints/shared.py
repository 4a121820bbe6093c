"""Checkpoints of a training that its processes share out: brought together in one file, or left in pieces."""
import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mmengine
import torch
from mmengine.dist import barrier, is_main_process
from mmengine.runner import Runner
from mmengine.runner.checkpoint import save_checkpoint
from torch import Tensor

from mmflatten.engine.checkpoints.files import aside_of, written_aside
from mmflatten.engine.checkpoints.pieces import INDEX, REST, SHARDED, with_tensors


def training_state(runner: Runner, save_optimizer: bool, save_param_scheduler: bool, meta: dict | None,
                   by_epoch: bool) -> dict[str, Any]:
    """What MMEngine's `Runner.save_checkpoint` writes, with each process' own part of what is shared out.

    Every process must call it. MMEngine's own function collects the state on one process and writes it in one go.
    """
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
    return state


def save_shared(runner: Runner, out_dir: str, filename: str, file_client_args: None = None,
                save_optimizer: bool = True, save_param_scheduler: bool = True, meta: dict | None = None,
                by_epoch: bool = True, backend_args: dict | None = None) -> None:
    """Write a checkpoint: a folder in pieces where its name ends so, else one ordinary file.

    Every process must call it. The arguments are those of `Runner.save_checkpoint`.
    """
    state = training_state(runner, save_optimizer, save_param_scheduler, meta, by_epoch)
    if Path(filename).suffix == SHARDED:
        _save_pieces(state, Path(out_dir, filename))
        return
    whole = with_tensors(state, _whole)
    if not is_main_process():
        return
    if '://' in str(out_dir):
        save_checkpoint(whole, f'{out_dir}/{filename}', backend_args=backend_args)
        return
    with written_aside(Path(out_dir, filename)) as aside:
        save_checkpoint(whole, str(aside))


def _whole(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if hasattr(tensor, 'full_tensor') else tensor).cpu()


def _save_pieces(state: dict, path: Path) -> None:
    """Let each process write its part into one folder, which the main process then gives its name."""
    from torch.distributed.checkpoint import CheckpointException, FileSystemReader, FileSystemWriter, save
    pieces: list[Tensor] = []

    def leave_out(tensor: Tensor) -> Tensor:
        if not hasattr(tensor, 'full_tensor'):
            return tensor.cpu()
        pieces.append(tensor)
        return torch.empty(tensor.shape, dtype=tensor.dtype, device='meta')

    rest = with_tensors(state, leave_out)
    with written_aside(path) if is_main_process() else nullcontext(aside_of(path)) as aside:
        try:
            save({str(i): piece for i, piece in enumerate(pieces)}, storage_writer=FileSystemWriter(aside))
        except CheckpointException as error:  # of all processes; what stopped the first of them is the cause
            raise next(iter(error.failures.values()))[0] from error
        if is_main_process():
            torch.save(rest, aside / REST)
            places = [[] for _ in pieces]
            for piece, place in FileSystemReader(aside).read_metadata().storage_data.items():
                places[int(piece.fqn)].append((piece.offset, place.relative_path, place.offset, place.length))
            (aside / INDEX).write_text(json.dumps(places), encoding='utf-8')
    barrier()
