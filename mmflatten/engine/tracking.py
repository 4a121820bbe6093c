"""Trackers of experiments: TensorBoard, MLflow and Weights & Biases get what a training logs, over resumes too."""
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config, ConfigDict
from mmengine.dist import is_main_process
from mmengine.visualization import MLflowVisBackend

from mmflatten.registry import VISBACKENDS
from mmflatten.tasks import find_task

TRACKERS = ('tensorboard', 'mlflow', 'wandb')
DRAWING_INTERVAL = 50  # validation batches between two drawings
# What MLflow lists as parameters; the whole config is a file of the run.
_PARAMETERS = ('model', 'train_dataloader', 'optim_wrapper', 'param_scheduler', 'train_cfg')


@VISBACKENDS.register_module()
class MLflowBackend(MLflowVisBackend):
    """MMEngine's, for a run that goes on after a resume: its parameters are fixed, so only the config's file changes.

    Images get the suffix that MLflow asks for, and a name for each step.
    """

    def add_config(self, config: Config, **kwargs: Any) -> None:
        self.cfg, mlflow = config, self.experiment  # MMEngine closes a run with the work_dir of its cfg
        if mlflow.MlflowClient().get_run(os.environ['MLFLOW_RUN_ID']).data.params:
            mlflow.log_text(config.pretty_text, 'config.py')
        else:
            super().add_config(config, **kwargs)

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: Any) -> None:
        super().add_image(f'drawings/{name}_{step}.png', image, step, **kwargs)


def add_tracking(cfg: Config, tracker: str) -> None:
    """Let a training report to a tracker as well: scalars, the config, drawings of the validation.

    A resumed training (`cfg.resume`) goes on in its run of the tracker, whose name a file in the work directory holds.

    Args:
        tracker: `tensorboard` writes to `tensorboard/` in the work directory; `mlflow` to MLFLOW_TRACKING_URI, by
            default the SQLite file `mlflow.db` there; `wandb` to the account of the user, project `mmflatten`.

    Raises:
        ImportError: the tracker is not installed.
        ValueError: there is no such tracker.
    """
    if tracker not in TRACKERS:
        raise ValueError(f'tracker ({tracker}) must be one of {", ".join(TRACKERS)}')
    work_dir = Path(cfg.work_dir).absolute()
    work_dir.mkdir(parents=True, exist_ok=True)
    if cfg.get('visualizer') is None:
        cfg.visualizer = ConfigDict(type=getattr(find_task(cfg.get('default_scope')), 'visualizer_type', 'Visualizer'),
                                    vis_backends=[dict(type='LocalVisBackend')])
    make = dict(tensorboard=_tensorboard, mlflow=_mlflow, wandb=_wandb)[tracker]
    cfg.visualizer.vis_backends = [*(cfg.visualizer.get('vis_backends') or ()), make(cfg, work_dir)]
    hooks = list(cfg.get('custom_hooks') or ())
    if not any(hook['type'] == 'mmflatten.DrawValidationHook' for hook in hooks):
        cfg.custom_hooks = [*hooks, dict(type='mmflatten.DrawValidationHook', interval=DRAWING_INTERVAL)]


def _tensorboard(cfg: Config, work_dir: Path) -> dict:
    import tensorboard  # noqa: F401  MMEngine says only at the first scalar that it is missing
    return dict(type='TensorboardVisBackend', save_dir=str(work_dir / 'tensorboard'))


def _mlflow(cfg: Config, work_dir: Path) -> dict:
    import mlflow
    name, uri = work_dir.name, os.environ.get('MLFLOW_TRACKING_URI') or f'sqlite:///{work_dir / "mlflow.db"}'
    if is_main_process():
        client = mlflow.MlflowClient(uri)

        def new_run() -> str:
            experiment = client.get_experiment_by_name(name)
            number = experiment.experiment_id if experiment else client.create_experiment(
                name, artifact_location=(work_dir / 'mlflow_files').as_uri())
            return client.create_run(number, run_name=name).info.run_id

        os.environ['MLFLOW_RUN_ID'] = _run_of(cfg, work_dir / 'mlflow_run', new_run)
    return dict(type='mmflatten.MLflowBackend', save_dir=str(work_dir / 'mlflow_files'), exp_name=name,
                tracking_uri=uri, tracked_config_keys=[key for key in _PARAMETERS if key in cfg])


def _wandb(cfg: Config, work_dir: Path) -> dict:
    import wandb  # noqa: F401  MMEngine says only at the first scalar that it is missing
    run = _run_of(cfg, work_dir / 'wandb_run', lambda: uuid.uuid4().hex[:8])
    return dict(type='WandbVisBackend', save_dir=str(work_dir),
                init_kwargs=dict(project='mmflatten', name=work_dir.name, id=run, resume='allow'))


def _run_of(cfg: Config, note: Path, new_run: Any) -> str:
    """The tracker's name of this run: of the training that is resumed, else a new one, which is noted."""
    if not (cfg.get('resume') and note.is_file()):
        note.write_text(new_run())
    return note.read_text()
