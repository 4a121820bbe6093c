"""A test of a checkpoint: metrics, and on request predictions and drawings."""
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
    """Test `checkpoint`, which must fit the model key by key, and return the metrics.

    The weights are those under `state_dict`, which are the averaged ones if training kept a moving average.

    Args:
        out: `NAME.pkl` gets the predictions (see `DumpPredictions`) and `NAME.json` beside it the metrics and
            what `origin_of` says; a `NAME.json` gets the latter alone.
        show_dir: Folder for a drawing of every image.
    """
    if out is not None:
        _require_writable(Path(out))
    require_whole(checkpoint)
    require_parts(cfg, 'model', 'test_dataloader', 'test_cfg', 'test_evaluator')
    cfg.load_from, cfg.resume = checkpoint, False
    cfg.merge_from_dict(dict.fromkeys(_TRAINING))  # so that a config without them can be tested too
    # A checkpoint holds the moving average as its weights. mmpretrain's hook would fetch it from the file again, and
    # behind the wrapper of test-time augmentation finds no key and tests random weights instead.
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
    """What must be known to judge the predictions of a config: `config`, `classes`, `palette`, `evaluator`.

    Args:
        metainfo: of the test's data set.
    """
    evaluators = cfg.test_evaluator if isinstance(cfg.test_evaluator, list) else [cfg.test_evaluator]
    return dict(config=cfg.filename, classes=metainfo.get('classes'), palette=metainfo.get('palette'),
                evaluator=[dict(evaluator) for evaluator in evaluators])


def _require_writable(path: Path) -> None:
    """Find out before the test, not after it, that its results cannot be written."""
    if path.suffix not in ('.pkl', '.json') or path.is_dir():
        raise ValueError(f'--out ({path}) must be a file, .pkl (predictions and metrics) or .json (metrics)')
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f'--out ({path}) cannot be written: no permission in {path.parent}; name another folder')
