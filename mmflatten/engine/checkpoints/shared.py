"""The state of a training that its processes share out: collected on all of them, and brought together for one file."""
import time
from pathlib import Path
from typing import Any

import mmengine
from mmengine.dist import is_main_process
from mmengine.runner import Runner
from mmengine.runner.checkpoint import save_checkpoint
from mmengine.utils import apply_to
from torch import Tensor

from mmflatten.engine.checkpoints.files import written_aside


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
    """Write one ordinary checkpoint file; every process must call it. The arguments are `Runner.save_checkpoint`'s."""
    state = training_state(runner, save_optimizer, save_param_scheduler, meta, by_epoch)
    whole = apply_to(state, lambda value: isinstance(value, Tensor), _whole)
    if not is_main_process():
        return
    if '://' in str(out_dir):
        save_checkpoint(whole, f'{out_dir}/{filename}', backend_args=backend_args)
        return
    with written_aside(Path(out_dir, filename)) as aside:
        save_checkpoint(whole, str(aside))


def _whole(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if hasattr(tensor, 'full_tensor') else tensor).cpu()
