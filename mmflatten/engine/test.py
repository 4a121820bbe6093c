"""A test of a checkpoint: metrics, and on request predictions and drawings."""
import os
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dist import is_main_process
from mmengine.fileio import dump

from mmflatten.engine.checkpoints.files import require_local_whole
from mmflatten.engine.config_files import require_parts
from mmflatten.engine.predictions import DrawPredictions, DumpPredictions
from mmflatten.engine.setup import build_runner

VISUALIZERS = dict(
    mmpretrain='UniversalVisualizer', mmdet='DetLocalVisualizer', mmseg='SegLocalVisualizer',
    mmflatten='StereoVisualizer')


def test(cfg: Config, checkpoint: str, out: str | None = None, show_dir: str | None = None) -> dict:
    """Test `checkpoint`, which must fit the model key by key, and return the metrics.

    The weights are those under `state_dict`, which are the averaged ones if training kept a moving average.

    Args:
        out: `NAME.pkl` gets the predictions (see `DumpPredictions`) and `NAME.json` beside it the metrics;
            `NAME.json` gets the metrics alone.
        show_dir: Folder for a drawing of every image.
    """
    _require_writable_out(out)
    require_local_whole(checkpoint)
    require_parts(cfg, 'model', 'test_dataloader', 'test_cfg', 'test_evaluator')
    cfg.load_from, cfg.resume = checkpoint, False
    _drop_training(cfg)
    if show_dir is not None:
        _require_visualizer(cfg)
    runner = build_runner(cfg)
    if show_dir is not None:
        runner.register_hook(DrawPredictions(show_dir))
    if out is not None and Path(out).suffix == '.pkl':
        runner.test_evaluator.metrics.append(DumpPredictions(out_file_path=out))
    metrics = runner.test()
    if out is not None and is_main_process():
        dump(dict(checkpoint=checkpoint, metrics=metrics), str(Path(out).with_suffix('.json')), indent=2)
    return metrics


def _require_writable_out(out: str | None) -> None:
    """Find out before the test, not after it, that its results cannot be written."""
    if out is None:
        return
    path = Path(out)
    if path.suffix not in ('.pkl', '.json'):
        raise ValueError(f'--out ({out}) must end with .pkl (predictions and metrics) or .json (metrics)')
    if path.is_dir():
        raise ValueError(f'--out ({out}) is a folder; name a file in it')
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f'--out ({out}) cannot be written: no permission in {path.parent}; name another folder')


def _drop_training(cfg: Config) -> None:
    """Leave out what a test does not use, so that a config without it can be tested too."""
    for name in ('train_dataloader', 'train_cfg', 'optim_wrapper', 'param_scheduler', 'val_dataloader', 'val_cfg',
                 'val_evaluator'):
        cfg[name] = None
    # A checkpoint holds the moving average as its weights. mmpretrain's hook would fetch it from the file again, and
    # behind the wrapper of test-time augmentation finds no key and tests random weights instead.
    hooks = cfg.get('custom_hooks') or []
    cfg.custom_hooks = [hook for hook in hooks if not str(hook.get('type')).endswith('EMAHook')]


def _require_visualizer(cfg: Config) -> None:
    """Give a config without a visualizer its task's own."""
    scope = cfg.get('default_scope')
    if cfg.get('visualizer') is None and scope in VISUALIZERS:
        cfg.visualizer = ConfigDict(type=VISUALIZERS[scope], vis_backends=[dict(type='LocalVisBackend')])
