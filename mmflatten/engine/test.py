"""Test a checkpoint: metrics, and optionally predictions and drawings."""
import os
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dist import is_main_process
from mmengine.fileio import dump

from mmflatten.config_files import require_parts
from mmflatten.engine.checkpoints.files import require_whole
from mmflatten.engine.predictions import DrawPredictions, DumpPredictions
from mmflatten.engine.setup import build_runner
from mmflatten.tasks import find_task

_TRAINING = ('train_dataloader', 'train_cfg', 'optim_wrapper', 'param_scheduler', 'val_dataloader', 'val_cfg',
             'val_evaluator')


def test(cfg: Config, checkpoint: str, out: str | None = None, show_dir: str | None = None) -> dict:
    """Test `checkpoint`, whose keys must all match the model, and return the metrics.

    The weights are those under `state_dict`, which are the averaged ones if training kept a moving average.

    Args:
        out: `NAME.pkl` for the predictions (see `DumpPredictions`), with metrics and `origin_of` in `NAME.json`, or
            `NAME.json` for the latter only.
        show_dir: folder for a drawing of every image.
    """
    if out is not None:
        _require_writable(Path(out))
    require_whole(checkpoint)
    require_parts(cfg, 'model', 'test_dataloader', 'test_cfg', 'test_evaluator')
    cfg.load_from, cfg.resume = checkpoint, False
    cfg.merge_from_dict(dict.fromkeys(_TRAINING))  # which a config may lack
    # A checkpoint has the moving average as its weights. mmpretrain 1.3's EMAHook would load it from the file again
    # and, inside the wrapper of test-time augmentation, match no key and test random weights.
    cfg.custom_hooks = [hook for hook in cfg.get('custom_hooks') or [] if not str(hook.get('type')).endswith('EMAHook')]
    task = find_task(cfg.get('default_scope'))
    if show_dir is not None and cfg.get('visualizer') is None and task is not None:
        cfg.visualizer = ConfigDict(type=task.visualizer_type, vis_backends=[dict(type='LocalVisBackend')])
    runner = build_runner(cfg)
    if show_dir is not None:
        runner.register_hook(DrawPredictions(show_dir))
    if out is not None and Path(out).suffix == '.pkl':
        runner.test_evaluator.metrics.append(DumpPredictions(out_file_path=out))
    metrics = runner.test()
    if out is not None and is_main_process():
        origin = origin_of(cfg, runner.test_dataloader.dataset.metainfo)
        dump(dict(checkpoint=checkpoint, metrics=metrics, **origin), str(Path(out).with_suffix('.json')), indent=2)
    return metrics


def origin_of(cfg: Config, metainfo: dict) -> dict:
    """Return the facts needed to evaluate predictions of a config: `config`, `classes`, `palette`, `evaluator`.

    Args:
        metainfo: metainfo of the test data set.
    """
    evaluators = cfg.test_evaluator if isinstance(cfg.test_evaluator, list) else [cfg.test_evaluator]
    return dict(config=cfg.filename, classes=metainfo.get('classes'), palette=metainfo.get('palette'),
                evaluator=[dict(evaluator) for evaluator in evaluators])


def _require_writable(path: Path) -> None:
    """Fail before testing if the results cannot be written."""
    if path.suffix not in ('.pkl', '.json') or path.is_dir():
        raise ValueError(f'--out: expected a .pkl file (predictions and metrics) or .json file (metrics), got {path}.')
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f'--out: no permission to write to {path.parent}, got {path}. Name another folder.')
