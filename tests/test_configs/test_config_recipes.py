"""Recipes in a run: learning rates, averaged weights, samplers, image sizes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DATA_SAMPLERS, MODELS, PARAM_SCHEDULERS, TRANSFORMS
from mmengine.runner import Runner
from torch import nn

ROOT = Path(__file__).parents[2] / 'configs'
FAMILIES = {'flatten_deit', 'flatten_pvt', 'flatten_pvt_v2', 'flatten_swin', 'flatten_cswin'}
FLATTEN = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.glob('flatten_*/*_in1k.py')
    if path.parent.name in FAMILIES
)


def learning_rates(config: Config, per_epoch: int, steps: int = 0) -> list[float]:
    """Compute the learning rate at every step of the training, or at the first `steps`."""
    wrapper = build_optim_wrapper(
        nn.Linear(1, 1), dict(type='OptimWrapper', optimizer=config.optim_wrapper.optimizer)
    )
    schedulers = [
        PARAM_SCHEDULERS.build(
            dict(part), default_args=dict(optimizer=wrapper, epoch_length=per_epoch)
        )
        for part in config.param_scheduler
    ]
    rates = []
    for step in range(1, (steps or config.train_cfg.max_epochs * per_epoch) + 1):
        rates.append(wrapper.optimizer.param_groups[0]['lr'])
        wrapper.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or step % per_epoch == 0:
                scheduler.step()
    return rates


@pytest.mark.parametrize('name', FLATTEN)
def test_flatten_learning_rate_is_5e_4_per_512_images(name, load_config):
    config = load_config(name)
    assert config.optim_wrapper.optimizer.lr == pytest.approx(
        5e-4 * config.auto_scale_lr.base_batch_size / 512
    )


@pytest.mark.parametrize(
    'name, low, first, warm_up',
    [
        ('flatten_deit/flatten-deit-t_8xb128_in1k', 1e-5, 1e-6, 5),
        ('flatten_pvt/flatten-pvt-l_8xb32_in1k', 0.02 * 2.5e-4, 0.002 * 2.5e-4, 5),
        ('flatten_pvt/pvt-l_8xb128_in1k', 1e-5, 1e-6, 5),
        ('flatten_cswin/flatten-cswin-t_8xb256_in1k', 0.02 * 2e-3, 0.002 * 2e-3, 20),
        ('flatten_cswin/cswin-s_8xb256_in1k', 1e-5, 1e-6, 20),
        ('flatten_cswin/cswin-b_8xb128_in1k', 1e-5, 1e-6, 20),
        ('flatten_swin/swin-b_8xb64_in1k', 0.01 * 5e-4, 0.001 * 5e-4, 20),
    ],
)
def test_learning_rates_follow_the_official_scheduler(name, low, first, warm_up, load_config):
    from timm.scheduler import CosineLRScheduler

    config, per_epoch = load_config(f'{name}.py'), 40
    peak = config.optim_wrapper.optimizer.lr
    official = CosineLRScheduler(
        torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak),
        t_initial=300 * per_epoch,
        lr_min=low,
        warmup_lr_init=first,
        warmup_t=warm_up * per_epoch,
        t_in_epochs=False,
    )
    ours = learning_rates(config, per_epoch)
    theirs = [official._get_lr(step)[0] for step in range(len(ours))]
    # In MMEngine a warm-up multiplies the cosine and ends a step earlier; the official warm-up
    # replaces the cosine.
    assert ours == pytest.approx(theirs, abs=0.012 * peak)
    assert ours[20 * per_epoch :] == pytest.approx(theirs[20 * per_epoch :], abs=0.0003 * peak)


@pytest.mark.parametrize(
    'name, peak, first, last',
    [
        ('flatten_swin/flatten-swin-b_8xb32_in1k-384px', 1e-5, 1e-8, 1e-7),
        ('flatten_cswin/flatten-cswin-b_8xb32_in1k-384px', 2.5e-6, 2.5e-6, 2.5e-7),
        ('flatten_cswin/cswin-b_8xb32_in1k-384px', 5e-6, 5e-6, 5e-7),
    ],
)
def test_learning_rates_of_fine_tuning_at_384(name, peak, first, last, load_config):
    rates = learning_rates(load_config(f'{name}.py'), 200)
    assert (rates[0], max(rates), rates[-1]) == pytest.approx((first, peak, last), rel=0.07)


@pytest.mark.parametrize(
    'name, peak, first, last, warm_up, epochs',
    [
        ('l2vit-t_32xb128_in1k', 4e-3, 0, 1e-6, 20, 300),
        ('l2vit-b_8xb128_in22k', 1e-3, 1e-6, 1e-5, 5, 90),
        ('l2vit-b_in22k-pre_16xb64_in1k-384px', 4e-5, 4e-8, 4e-7, 5, 30),
    ],
)
def test_l2vit_learning_rates_equal_the_official_function(
    name, peak, first, last, warm_up, epochs, load_config
):
    """Linear warm-up, then a cosine over the remaining iterations."""
    length = 7
    rise = np.linspace(first, peak, warm_up * length)
    left = (epochs - warm_up) * length
    fall = [last + 0.5 * (peak - last) * (1 + math.cos(math.pi * i / left)) for i in range(left)]
    np.testing.assert_allclose(
        learning_rates(load_config(f'l2vit/{name}.py'), length),
        [*rise, *fall],
        rtol=1e-5,
        atol=1e-8,
    )


def test_upernet_learning_rate_is_warm_up_times_decay(load_config):
    """mmseg 0.x: `lr * (1 - t / 160000)`, in the first 1500 iterations times a line from 1e-6 to
    1.
    """
    found = learning_rates(
        load_config('flatten_swin/upernet_swin-t_8xb2-160k_ade20k-512x512.py'), 10**9, 3001
    )
    for step in (0, 750, 1498, 1500, 3000):
        expected = 6e-5 * (1 - step / 160000) * min(1, 1e-6 + step / 1500)
        assert found[step] == pytest.approx(expected, abs=1e-3 * 6e-5), step


@pytest.mark.parametrize(
    'name',
    [
        'flatten_deit/flatten-deit-t_8xb128_in1k',
        'l2vit/l2vit-deit-t-xca_8xb128_in1k',
        'flatten_pvt/pvt-s_8xb128_in1k',
        'flatten_pvt_v2/pvtv2-b4_8xb128_in1k',
    ],
)
def test_repeated_augmentation_samples_each_image_three_times(name, load_config):
    sampler = dict(load_config(f'{name}.py').train_dataloader.sampler)
    order = list(DATA_SAMPLERS.build(sampler, default_args=dict(dataset=range(12), seed=0)))
    assert len(order) == 12
    assert len(set(order)) == 4
    assert all(order.count(index) == 3 for index in order)


def test_l2vit_ema_has_the_decay_of_the_paper_and_averages_batch_norms(load_config):
    hook = load_config('l2vit/l2vit-t_32xb128_in1k.py').custom_hooks[0].to_dict()
    assert hook.pop('type') == 'EMAHook'
    source = nn.BatchNorm1d(1)
    average = MODELS.build(dict(hook, type='mmengine.ExponentialMovingAverage', model=source))
    average.update_parameters(source)
    for statistic in (source.weight.data, source.running_mean):
        statistic += 1
    average.update_parameters(source)
    assert average.module.weight.item() - 1 == pytest.approx(1e-4, rel=1e-2)
    assert average.module.running_mean.item() == pytest.approx(1e-4, rel=1e-3)


class Slope(BaseModel):
    """A weight that decreases by the learning rate in every step of SGD."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs, data_samples=None, mode='tensor'):
        return dict(loss=self.weight.sum())


def test_cswin_checkpoints_have_averaged_and_trained_weights(tmp_path, load_config):
    config = load_config('flatten_cswin/flatten-cswin-t_8xb256_in1k.py')
    runner = Runner(
        Slope(),
        str(tmp_path),
        train_dataloader=dict(
            batch_size=1,
            sampler=dict(type='DefaultSampler', shuffle=False),
            dataset=[dict(inputs=torch.zeros(1))] * 3,
        ),
        train_cfg=dict(by_epoch=True, max_epochs=1),
        optim_wrapper=dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=1.0)),
        default_hooks=dict(checkpoint=config.default_hooks.checkpoint),
        custom_hooks=config.custom_hooks,
        default_scope='mmpretrain',
        experiment_name='slope',
        log_level='ERROR',
    )
    runner.train()
    saved = torch.load(tmp_path / 'epoch_1.pth', weights_only=False)
    # The steps give -1, -2, -3; the average starts at -1.
    average = -1.0
    for value in (-2.0, -3.0):
        average = 0.99984 * average + (1 - 0.99984) * value
    assert saved['state_dict']['weight'].item() == pytest.approx(average, abs=1e-6)
    assert saved['ema_state_dict']['module.weight'].item() == -3.0


def test_htc_resizes_to_400_to_1400_pixels(load_config):
    config = load_config('focal/htc_focal-l_fpn_ms-3x_coco.py')
    resize = TRANSFORMS.build(
        dict(
            next(step for step in config.train_pipeline if step.type == 'RandomResize'),
            resize_type='mmdet.Resize',
            type='mmcv.RandomResize',
        )
    )
    np.random.seed(0)
    shapes = [
        resize(dict(img=np.zeros((60, 80, 3), dtype=np.uint8), img_shape=(60, 80)))['img'].shape[:2]
        for _ in range(40)
    ]
    assert all(395 <= min(shape) <= 1400 and max(shape) <= 1600 for shape in shapes)
    assert min(map(min, shapes)) < 600 and max(map(max, shapes)) > 1400


# Swin's detectors, and those of Focal's ablations, which use Swin's 1x recipe.
SWIN = {
    'flatten_swin/mask-rcnn_swin-t_fpn_1x': 0.1,
    'flatten_swin/mask-rcnn_swin-t_fpn_ms-3x': 0.2,
    'flatten_swin/cascade-mask-rcnn_swin-s_fpn_ms-3x': 0.2,
    'flatten_swin/atss_swin-t_fpn_ms-3x': 0.2,
    'focal/mask-rcnn_swin-t-no-shift_fpn_1x': 0.1,
    'focal/mask-rcnn_swin-t-window-14_fpn_1x': 0.1,
}


@pytest.mark.parametrize('name', SWIN)
def test_swin_detectors_have_multi_scale_training_and_drop_path(name, load_config):
    config = load_config(f'{name}_coco.py')
    assert config.model.backbone.drop_path_rate == SWIN[name]
    assert any(
        step.type == 'RandomChoice' and 'RandomCrop' in str(step) for step in config.train_pipeline
    )


def test_semantic_fpn_tests_at_multiples_of_32(load_config):
    config = load_config('flatten_pvt/semantic-fpn_pvt-t_8xb4-40k_ade20k-512x512.py')
    results = dict(img=np.zeros((60, 81, 3), dtype=np.uint8), img_shape=(60, 81), seg_fields=[])
    for loader in (config.val_dataloader, config.test_dataloader):
        # between the image's file and the truth, which keeps its size
        for step in loader.dataset.pipeline[1:3]:
            results = TRANSFORMS.build(dict(step))(results)
        assert results['img'].shape[:2] == (512, 704)
