"""A schedule for the number of images in user data."""
import copy
import math
from typing import Any

from mmengine.config import Config

from mmflatten.engine.recipe.settings import base_batch, ema_hooks, ema_momentum, schedulers, training_length

SHORTEST = 1000  # iterations; fewer do not train a head from random weights
MOST_PASSES = 300  # of an iteration-based schedule, as ImageNet's recipes have
VALIDATIONS = 20
WARM_UP = .1  # longest, as a fraction of the training
TIMES = ('begin', 'end', 'T_max')


def default_batch(base: Config, images: int) -> int:
    """Batch size of the base, or less if an epoch had fewer than ten iterations."""
    return min(base.train_dataloader.batch_size, max(4, images // 10), images)


def scaled_rate(base: Config, batch: int) -> tuple[float, float, str] | None:
    """Return the rate of the base, the factor for another batch size, and the rule; None if the base has no batch.

    SGD's rate is proportional to the batch (Goyal et al., arXiv 1706.02677), Adam's to its square root (Malladi et
    al., arXiv 2205.10287).
    """
    optimizer = base.optim_wrapper.get('optimizer', {})
    if not optimizer.get('lr') or not base_batch(base):
        return None
    ratio = batch / base_batch(base)
    adaptive = 'Adam' in optimizer.type
    return optimizer.lr, math.sqrt(ratio) if adaptive else ratio, 'square root' if adaptive else 'linear'


def fitted_schedule(base: Config, images: int, batch: int) -> dict[str, Any]:
    """Return the fields of the config that change so that the schedule of the base fits the number of images.

    A training has at least `SHORTEST` iterations, an iteration-based one at most `MOST_PASSES` over the images.
    Milestones and EMA keep their place in it, and a warm-up counted in iterations takes at most `WARM_UP`.

    Args:
        images: number of training images.
        batch: images per iteration.
    """
    (before, unit), rounded = training_length(base), math.floor if base.train_dataloader.get('drop_last') else math.ceil
    epoch = rounded(images / batch)
    by_epoch = unit == 'epochs'
    if by_epoch:
        length = max(before, math.ceil(SHORTEST / epoch))
    else:
        length = min(before, max(SHORTEST, MOST_PASSES * epoch))
    iterations = length * epoch if by_epoch else length
    changes: dict[str, Any] = {}
    if length != before:
        changes['train_cfg'] = {'max_epochs' if by_epoch else 'max_iters': length,
                                'val_interval': math.ceil(length / VALIDATIONS)}
    items = [_fitted(item, length / before, by_epoch, iterations) for item in schedulers(base)]
    if items != schedulers(base):
        changes['param_scheduler'] = items
    hooks = copy.deepcopy(list(base.get('custom_hooks') or []))
    for hook in hooks:
        if hook in ema_hooks(base):
            horizon = max(1., .1 * iterations / hook.get('interval', 1))
            hook['momentum'] = max(ema_momentum(hook), round(min(.5, 1 / horizon), 6))
    if hooks != list(base.get('custom_hooks') or []):
        changes['custom_hooks'] = hooks
    return changes


def _fitted(item: dict, factor: float, by_epoch: bool, iterations: int) -> dict[str, Any]:
    item = dict(item)
    if item.get('by_epoch', True) == by_epoch:
        item |= {name: max(1, round(item[name] * factor)) for name in TIMES if item.get(name)}
        if item.get('milestones'):
            item['milestones'] = [max(1, round(value * factor)) for value in item['milestones']]
    elif not by_epoch:
        return item  # counts epochs in a loop of iterations, which `check` reports
    elif item.get('end') and not item.get('begin'):
        item['end'] = min(item['end'], max(2, round(WARM_UP * iterations)))
    return item
