"""Test a checkpoint: metrics, and optionally predictions, drawings and test-time augmentation."""

import copy
import os
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dist import is_main_process
from mmengine.fileio import dump
from mmengine.hooks import Hook

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.config import model_config, require_parts
from mmflatten.engine.datasets import innermost_configs
from mmflatten.engine.predictions import DrawPredictions, DumpPredictions
from mmflatten.engine.recipe.settings import ema_hooks
from mmflatten.engine.setup import build_runner
from mmflatten.tasks import find_task, task_of

_TRAINING = (
    'train_dataloader',
    'train_cfg',
    'optim_wrapper',
    'param_scheduler',
    'val_dataloader',
    'val_cfg',
    'val_evaluator',
)
SCALES = (0.75, 1.0, 1.25)  # relative to the scale of the config's own test pipeline


def test(
    cfg: Config,
    checkpoint: str,
    out: str | None = None,
    show_dir: str | None = None,
    hooks: Sequence[Hook] = (),
    has_weights: bool = True,
) -> dict:
    """Test `checkpoint`, whose keys must all match the model, and return the metrics.

    The weights are those under `state_dict`, which are the averaged ones if training kept a moving
    average.

    Args:
        out: `NAME.pkl` for the predictions (see `DumpPredictions`), with metrics and `origin_of` in
            `NAME.json`, or `NAME.json` for the latter only.
        show_dir: folder for a drawing of every image.
        hooks: further hooks of the test.
        has_weights: False if the model of the config reads `checkpoint` itself, an exported file.
    """
    if out is not None:
        _require_writable(Path(out))
    require_parts(cfg, 'model', 'test_dataloader', 'test_cfg', 'test_evaluator')
    cfg.load_from = checkpoint if has_weights else None
    cfg.resume = False
    cfg.merge_from_dict(dict.fromkeys(_TRAINING))  # which a config may lack
    # A checkpoint has the moving average as its weights. mmpretrain 1.3's EMAHook would load it
    # from the file again and, inside the wrapper of test-time augmentation, match no key and test
    # random weights.
    averages = ema_hooks(cfg)
    cfg.custom_hooks = [hook for hook in cfg.get('custom_hooks') or [] if hook not in averages]
    task = find_task(cfg.get('default_scope'), cfg.get('model'))
    if show_dir is not None and cfg.get('visualizer') is None and task is not None:
        cfg.visualizer = ConfigDict(
            type=task.visualizer_type, vis_backends=[dict(type='LocalVisBackend')]
        )
    runner = build_runner(cfg)
    for hook in hooks:
        runner.register_hook(hook)
    if show_dir is not None:
        runner.register_hook(DrawPredictions(show_dir))
    if out is not None and Path(out).suffix == '.pkl':
        runner.test_evaluator.metrics.append(DumpPredictions(out_file_path=out))
    metrics = runner.test()
    if out is not None and is_main_process():
        origin = origin_of(cfg, runner.test_dataloader.dataset.metainfo)
        facts = dict(checkpoint=checkpoint, folder=os.getcwd(), metrics=metrics, **origin)
        with atomic_write(Path(out).with_suffix('.json')) as partial:
            dump(facts, str(partial), indent=2)
    return metrics


def origin_of(cfg: Config, metainfo: dict) -> dict:
    """Return the facts needed to evaluate predictions of a config: `config`, `classes`, `palette`,
    `evaluator`.

    Args:
        metainfo: metainfo of the test data set.
    """
    evaluators = cfg.test_evaluator
    if not isinstance(evaluators, list):
        evaluators = [evaluators]
    return dict(
        config=cfg.filename,
        classes=metainfo.get('classes'),
        palette=metainfo.get('palette'),
        evaluator=[dict(evaluator) for evaluator in evaluators],
    )


def _require_writable(path: Path) -> None:
    """Fail before testing if the results cannot be written."""
    if path.suffix not in ('.pkl', '.json') or path.is_dir():
        raise ValueError(
            '--out: expected a .pkl file (predictions and metrics) or .json file (metrics), got'
            f' {path}.'
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(
            f'--out: no permission to write to {path.parent}, got {path}. Name another folder.'
        )


def add_tta(cfg: Config) -> None:
    """Make the config test with augmentation, by its own `tta_model` and `tta_pipeline` where it
    has them.

    Defaults made of the test pipeline: classification averages the scores of the image and its
    mirror image, segmentation the class probabilities of three scales, each mirrored too. Detection
    has none.

    Raises:
        ValueError: the task has no default and the config no `tta_model`, or the test pipeline has
            no `Pack*` step.
    """
    task = task_of(cfg)
    model = cfg.get('tta_model') or task.tta_model
    if model is None:
        raise ValueError(
            f'--tta: {task.name} (default_scope {task.scope}) has no default. Give tta_model and '
            'tta_pipeline in the config.'
        )
    for dataset, _ in innermost_configs(cfg.test_dataloader.dataset):
        own = cfg.get('tta_pipeline')
        dataset.pipeline = own or tta_pipeline(dataset.pipeline, multi_scale=task.tta_scales)
    # The runner would pass the top-level preprocessor to the wrapper, which does not pass all of
    # its fields to the model.
    cfg.model = ConfigDict(**model, module=model_config(cfg))
    cfg.pop('data_preprocessor', None)


def tta_pipeline(test_pipeline: list[dict], multi_scale: bool) -> list[dict]:
    """Turn a test pipeline, which ends with a `Pack*` transform, into one that yields several views
    of each image.

    Args:
        multi_scale: vary the first `Resize` with a `scale` over `SCALES`.
    """
    *steps, pack = copy.deepcopy(list(test_pipeline))
    if not pack['type'].split('.')[-1].startswith('Pack'):
        raise ValueError(
            f'--tta: expected a test pipeline that ends with a Pack transform, got {pack["type"]}.'
            ' Give tta_pipeline in the config.'
        )
    if pack.get('meta_keys') is not None:
        pack['meta_keys'] = tuple(dict.fromkeys((*pack['meta_keys'], 'flip', 'flip_direction')))
    flips = [dict(type='RandomFlip', prob=prob, direction='horizontal') for prob in (0.0, 1.0)]
    resize = _first_resize(steps) if multi_scale else None
    if resize is not None:
        before, after = steps[:resize], steps[resize + 1 :]
        views = [_scaled(steps[resize]), flips]
    else:
        # Labels must not be flipped: the metrics compare in the original image.
        loading = _first_loading_of_labels(steps)
        before, after = steps[:loading], steps[loading:]
        views = [flips]
    views += [[step] for step in (*after, pack)]
    return [*before, dict(type='TestTimeAug', transforms=views)]


def _first_resize(steps: Sequence[dict]) -> int | None:
    """Return the index of the first `Resize` with a `scale`."""
    for index, step in enumerate(steps):
        if step['type'] == 'Resize' and 'scale' in step:
            return index
    return None


def _first_loading_of_labels(steps: Sequence[dict]) -> int:
    """Return the index of the first step that loads annotations; the number of steps if none
    does.
    """
    for index, step in enumerate(steps):
        if 'LoadAnnotations' in step['type']:
            return index
    return len(steps)


def _scaled(resize: dict) -> list[dict]:
    scale = resize['scale']
    sides = (scale, scale) if isinstance(scale, int) else scale
    resized = []
    for factor in SCALES:
        scaled_sides = tuple(round(side * factor) for side in sides)
        resized.append({**resize, 'scale': scaled_sides})
    return resized
