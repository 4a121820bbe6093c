"""Log hook that uses the unit of the training loop."""
from mmengine.hooks import LoggerHook as _LoggerHook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.registry import HOOKS


@HOOKS.register_module()
class LoggerHook(_LoggerHook):
    """MMEngine's log hook with `log_metric_by_epoch` taken from the training loop.

    One runtime file then serves schedules by epochs and by iterations. The original files all validation metrics of an
    iteration-based training under epoch 0.
    """

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        self.log_metric_by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)
