"""Experiment trackers: report training logs to TensorBoard and Weights & Biases, also after a resume."""
import uuid
from collections.abc import Callable
from pathlib import Path

from mmengine.config import Config, ConfigDict

from mmflatten.tasks import find_task


def add_tracking(cfg: Config, tracker: str) -> None:
    """Report scalars, the config and drawings of the validation to a tracker.

    A resumed training (`cfg.resume`) continues its run in the tracker, whose id is in a file in the work directory.

    Args:
        tracker: `tensorboard` writes to `tensorboard/` in the work directory, `wandb` to the project `mmflatten` of the
            user's account.

    Raises:
        ImportError: the tracker is not installed.
    """
    work_dir = Path(cfg.work_dir).absolute()
    work_dir.mkdir(parents=True, exist_ok=True)
    if cfg.get('visualizer') is None:
        cfg.visualizer = ConfigDict(type=getattr(find_task(cfg.get('default_scope')), 'visualizer_type', 'Visualizer'),
                                    vis_backends=[dict(type='LocalVisBackend')])
    # Without an import here, MMEngine would fail at the first scalar.
    if tracker == 'tensorboard':
        import tensorboard  # noqa: F401
        backend = dict(type='TensorboardVisBackend', save_dir=str(work_dir / 'tensorboard'))
    else:
        import wandb  # noqa: F401
        run = _run_id(cfg, work_dir / 'wandb_run', lambda: uuid.uuid4().hex[:8])
        backend = dict(type='WandbVisBackend', save_dir=str(work_dir),
                       init_kwargs=dict(project='mmflatten', name=work_dir.name, id=run, resume='allow'))
    cfg.visualizer.vis_backends = [*(cfg.visualizer.get('vis_backends') or ()), backend]
    hooks = list(cfg.get('custom_hooks') or ())
    if not any(hook['type'] == 'mmflatten.DrawValidationHook' for hook in hooks):
        cfg.custom_hooks = [*hooks, dict(type='mmflatten.DrawValidationHook')]


def _run_id(cfg: Config, file: Path, new_run: Callable[[], str]) -> str:
    """Return the tracker's id of this run. A training that is not resumed creates one and writes it to `file`."""
    if not (cfg.get('resume') and file.is_file()):
        file.write_text(new_run())
    return file.read_text()
