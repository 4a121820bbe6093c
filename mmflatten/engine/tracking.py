"""Experiment trackers: report training logs to TensorBoard, MLflow and Weights & Biases, also after a resume."""
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config, ConfigDict
from mmengine.dist import is_main_process
from mmengine.visualization import MLflowVisBackend

from mmflatten.registry import VISBACKENDS
from mmflatten.tasks import find_task

# Fields of the config that MLflow lists as parameters. The whole config is a file of the run.
_PARAMETERS = ('model', 'train_dataloader', 'optim_wrapper', 'param_scheduler', 'train_cfg')


@VISBACKENDS.register_module()
class MLflowBackend(MLflowVisBackend):
    """MMEngine's backend for resumed runs: MLflow does not allow changed parameters, so only the config file changes.

    Images are named after the step and have the suffix that MLflow requires.
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
    """Report scalars, the config and drawings of the validation to a tracker.

    A resumed training (`cfg.resume`) continues its run in the tracker, whose id is in a file in the work directory.

    Args:
        tracker: `tensorboard` writes to `tensorboard/` in the work directory, `mlflow` to MLFLOW_TRACKING_URI (default:
            the SQLite file `mlflow.db` there), `wandb` to the project `mmflatten` of the user's account.

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
    elif tracker == 'wandb':
        import wandb  # noqa: F401
        run = _run_id(cfg, work_dir / 'wandb_run', lambda: uuid.uuid4().hex[:8])
        backend = dict(type='WandbVisBackend', save_dir=str(work_dir),
                       init_kwargs=dict(project='mmflatten', name=work_dir.name, id=run, resume='allow'))
    else:
        backend = _mlflow(cfg, work_dir)
    cfg.visualizer.vis_backends = [*(cfg.visualizer.get('vis_backends') or ()), backend]
    hooks = list(cfg.get('custom_hooks') or ())
    if not any(hook['type'] == 'mmflatten.DrawValidationHook' for hook in hooks):
        cfg.custom_hooks = [*hooks, dict(type='mmflatten.DrawValidationHook')]


def _mlflow(cfg: Config, work_dir: Path) -> dict:
    import mlflow
    name, uri = work_dir.name, os.environ.get('MLFLOW_TRACKING_URI') or f'sqlite:///{work_dir / "mlflow.db"}'
    files = work_dir / 'mlflow_files'

    def new_run() -> str:
        client = mlflow.MlflowClient(uri)
        experiment = client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else client.create_experiment(
            name, artifact_location=files.as_uri())
        return client.create_run(number, run_name=name).info.run_id

    if is_main_process():
        os.environ['MLFLOW_RUN_ID'] = _run_id(cfg, work_dir / 'mlflow_run', new_run)
    return dict(type='mmflatten.MLflowBackend', save_dir=str(files), exp_name=name, tracking_uri=uri,
                tracked_config_keys=[key for key in _PARAMETERS if key in cfg])


def _run_id(cfg: Config, file: Path, new_run: Callable[[], str]) -> str:
    """Return the tracker's id of this run. A training that is not resumed creates one and writes it to `file`."""
    if not (cfg.get('resume') and file.is_file()):
        file.write_text(new_run())
    return file.read_text()
