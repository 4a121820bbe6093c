"""Schedules of `mmflatten init` for few and many images."""
from pathlib import Path

import pytest
from mmengine.config import Config

from mmflatten.custom_data.schedule import default_batch, fitted_schedule, scaled_rate
from mmflatten.engine.recipe.checks import warnings_of
from mmflatten.engine.recipe.training import Training

CONFIGS = Path(__file__).parents[2] / 'configs'
BASES = ['digits/flatten-swin-nano_digits', 'digits/retinanet_flatten-swin-nano_fpn_digits',
         'digits/semantic-fpn_flatten-swin-nano_digits', 'digits/psmnet-tiny_digits-stereo',
         'flatten_swin/flatten-swin-t_8xb128_in1k', 'flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco',
         'flatten_swin/upernet_flatten-swin-t_8xb2-160k_ade20k-512x512',
         'l2vit/l2vit-t_32xb128_in1k']


def fitted(name: str, images: int) -> Training:
    """The training that `init` would write."""
    cfg = Config.fromfile(CONFIGS / f'{name}.py')
    batch = default_batch(cfg, images)
    lr, factor, _ = scaled_rate(cfg, batch)
    for field, value in fitted_schedule(cfg, images, batch).items():
        cfg[field] = {**cfg.get(field, {}), **value} if isinstance(value, dict) else value
    cfg.merge_from_dict(dict(train_dataloader=dict(batch_size=batch), auto_scale_lr=dict(base_batch_size=batch),
                             optim_wrapper=dict(optimizer=dict(lr=lr * factor))))
    return Training(cfg, gpus=1, images=images)


@pytest.mark.parametrize('name', BASES)
@pytest.mark.parametrize('images', [3, 19, 160])
def test_schedule_fits_few_images(name, images):
    training = fitted(name, images)
    rates = training.rates
    peak = max(rates)
    assert 1000 <= training.iterations <= max(2000, 300 * training.epoch_length)
    assert rates.index(peak) <= .1 * training.iterations and rates[-1] < .2 * peak
    assert not [name for name, _ in warnings_of(training) if name in ('unit', 'warm-up', 'schedule', 'ema-length')]


def test_schedule_of_the_base_stays_for_as_many_images_as_it_was_made_for():
    for name, images in (('flatten_swin/flatten-swin-t_8xb128_in1k', 1_281_167),
                         ('flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco', 117_266),
                         ('flatten_swin/upernet_flatten-swin-t_8xb2-160k_ade20k-512x512', 20_210)):
        cfg = Config.fromfile(CONFIGS / f'{name}.py')
        assert fitted_schedule(cfg, images, cfg.train_dataloader.batch_size) == {}


def test_milestones_move_with_the_length():
    cfg = Config.fromfile(CONFIGS / 'flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco.py')
    changes = fitted_schedule(cfg, 19, 2)
    assert changes['train_cfg'] == dict(max_epochs=100, val_interval=5)
    warm_up, steps = changes['param_scheduler']
    assert warm_up['end'] == 100 and steps['milestones'] == [67, 92] and steps['end'] == 100


def test_rate_scales_by_the_root_for_adam_and_linearly_for_sgd():
    cfg = Config.fromfile(CONFIGS / 'digits/flatten-swin-nano_digits.py')
    assert scaled_rate(cfg, 16)[1:] == (.5, 'square root')
    cfg.optim_wrapper.optimizer = dict(type='SGD', lr=.1)
    assert scaled_rate(cfg, 16)[1:] == (.25, 'linear')
    cfg.pop('auto_scale_lr')
    assert scaled_rate(cfg, 16) is None
