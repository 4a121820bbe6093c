"""The schedule of a training that has not begun."""
import math

from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmflatten.analysis.flops.meta import build_on_meta
from mmflatten.analysis.schedule import Loop, Schedule, schedule_of
from mmflatten.engine.cli import quiet_libraries
from mmflatten.engine.datasets import DatasetError
from mmflatten.engine.runner import Runner


def read_schedule(cfg: Config, gpus: int, epoch_length: int | None, every: int | None,
                  points: int) -> tuple[Loop, Schedule]:
    """Length and schedule of the training that a config describes.

    Args:
        gpus: share the images of an epoch; `auto_scale_lr` counts their batches.
        epoch_length: iterations of an epoch; None builds the training data and counts.
        every: iterations between two that are kept; None keeps about `points`.

    Raises:
        DatasetError: the epoch must be counted and the data is not there.
    """
    schedulers = cfg.get('param_scheduler') or []
    schedulers = [schedulers] if isinstance(schedulers, dict) else schedulers
    counts = bool(cfg.train_cfg.get('max_epochs')) or any(item.get('by_epoch', True) for item in schedulers)
    if epoch_length is None:
        epoch_length = _count(cfg, gpus) if counts else cfg.train_cfg.max_iters
    loop = Loop.of(cfg, epoch_length)
    scaling = cfg.get('auto_scale_lr') or {}
    total = gpus * cfg.train_dataloader.batch_size
    factor = total / scaling['base_batch_size'] if scaling.get('enable') else 1.
    with quiet_libraries():
        model = build_on_meta(cfg.model, cfg.get('default_scope', 'mmengine'))
        return loop, schedule_of(cfg, model, loop, every or max(1, loop.iterations // points), factor)


def _count(cfg: Config, gpus: int) -> int:
    """Iterations of an epoch on each GPU."""
    settings = {**cfg.train_dataloader, 'num_workers': 0, 'persistent_workers': False}
    settings.pop('prefetch_factor', None)  # only for loader processes
    try:
        with quiet_libraries(), DefaultScope.overwrite_default_scope(cfg.get('default_scope', 'mmengine')):
            loader = Runner.build_dataloader(settings, seed=0)
    except DatasetError as error:
        raise DatasetError(f'{error}; or tell the iterations of an epoch: --epoch-length') from error
    number = math.ceil(len(loader.batch_sampler.sampler) / gpus) / cfg.train_dataloader.batch_size
    return math.floor(number) if cfg.train_dataloader.get('drop_last') else math.ceil(number)
