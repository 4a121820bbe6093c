"""Test-time augmentation for configs that do not describe their own: flips, and scales where the task has them."""
import copy

from mmengine.config import Config, ConfigDict

from mmflatten.building import model_config
from mmflatten.engine.datasets import leaves
from mmflatten.tasks import task_of

SCALES = (0.75, 1.0, 1.25)  # relative to the scale of the config's own test pipeline


def add_tta(cfg: Config) -> None:
    """Make the config test with augmentation, by its own `tta_model` and `tta_pipeline` where it has them.

    Defaults made of the test pipeline: classification averages the scores of the image and its mirror image;
    detection and segmentation take three scales, each mirrored too. Detection merges the views before it suppresses
    duplicates, and averages masks (`InstanceTTAModel`); segmentation averages the class probabilities.

    Raises:
        ValueError: the task has no default and the config no `tta_model`, or the test pipeline has no `Pack*` step.
    """
    task = task_of(cfg)
    model = cfg.get('tta_model') or task.tta_model
    if model is None:
        raise ValueError(f'--tta: {task.name} (default_scope {task.scope}) has no default. Give tta_model and '
                         'tta_pipeline in the config.')
    for dataset, _ in leaves(cfg.test_dataloader.dataset):
        dataset.pipeline = cfg.get('tta_pipeline') or tta_pipeline(dataset.pipeline, multi_scale=task.tta_scales)
    # The runner would hand the top-level preprocessor to the wrapper, which does not pass all of them on.
    cfg.model = ConfigDict(**model, module=model_config(cfg))
    cfg.pop('data_preprocessor', None)


def tta_pipeline(test_pipeline: list[dict], multi_scale: bool) -> list[dict]:
    """Turn a test pipeline, which ends with a `Pack*` transform, into one that yields several views of each image.

    Args:
        multi_scale: vary the first `Resize` with a `scale` over `SCALES`.
    """
    *steps, pack = copy.deepcopy(list(test_pipeline))
    if not pack['type'].split('.')[-1].startswith('Pack'):
        raise ValueError(f'--tta: expected a test pipeline that ends with a Pack transform, got {pack["type"]}. Give '
                         'tta_pipeline in the config.')
    if pack.get('meta_keys') is not None:
        pack['meta_keys'] = tuple(dict.fromkeys((*pack['meta_keys'], 'flip', 'flip_direction')))
    flips = [dict(type='RandomFlip', prob=prob, direction='horizontal') for prob in (0.0, 1.0)]
    resizes = [i for i, step in enumerate(steps) if multi_scale and step['type'] == 'Resize' and 'scale' in step]
    if not resizes:
        # Labels must not be flipped: the metrics compare in the original image.
        at = next((i for i, step in enumerate(steps) if 'LoadAnnotations' in step['type']), len(steps))
        before, views = steps[:at], [flips]
    else:
        resize, at = steps[resizes[0]], resizes[0] + 1
        sides = (resize['scale'], ) * 2 if isinstance(resize['scale'], int) else resize['scale']
        scaled = [{**resize, 'scale': tuple(round(side * factor) for side in sides)} for factor in SCALES]
        before, views = steps[:resizes[0]], [scaled, flips]
    views += [[step] for step in steps[at:]] + [[pack]]
    return [*before, dict(type='TestTimeAug', transforms=views)]
