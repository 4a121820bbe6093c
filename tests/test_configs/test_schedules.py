"""Runtime and schedules in `configs/_base_`."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS

from mmflatten.models.backbones import FLattenSwin

BASES = Path(__file__).parents[2] / 'configs' / '_base_'


def learning_rates(schedule: str, steps_per_epoch: int, steps: int) -> list[float]:
    cfg = Config.fromfile(BASES / 'schedules' / schedule)
    wrapper = build_optim_wrapper(torch.nn.Linear(1, 1), cfg.optim_wrapper)
    # Arguments from the runner.
    schedulers = [
        PARAM_SCHEDULERS.build(
            s, default_args=dict(optimizer=wrapper, epoch_length=steps_per_epoch)
        )
        for s in cfg.param_scheduler
    ]
    rates = []
    for step in range(1, steps + 1):
        rates.append(wrapper.optimizer.param_groups[0]['lr'])
        wrapper.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or step % steps_per_epoch == 0:
                scheduler.step()
    return rates


def test_imagenet_schedule_equals_the_official_one():
    from timm.scheduler import CosineLRScheduler

    per_epoch = 10
    ours = learning_rates('imagenet_adamw_300e.py', per_epoch, 300 * per_epoch)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    official = CosineLRScheduler(
        optimizer,
        t_initial=300 * per_epoch,
        lr_min=1e-5,
        warmup_lr_init=1e-6,
        warmup_t=20 * per_epoch,
        t_in_epochs=False,
    )
    theirs = [official._get_lr(step)[0] for step in range(300 * per_epoch)]
    # In MMEngine a warm-up multiplies the cosine; the official warm-up replaces it. The peak is
    # 1e-3.
    assert ours[:200] == pytest.approx(theirs[:200], abs=0.006e-3)
    assert ours[200:] == pytest.approx(theirs[200:], abs=0.00012e-3)


@pytest.mark.parametrize(
    'schedule, per_epoch, rates',
    [
        (
            'coco_1x.py',
            1000,
            {0: 1e-7, 499: 1e-4, 7999: 1e-4, 8000: 1e-5, 10999: 1e-5, 11000: 1e-6},
        ),
        ('coco_3x.py', 1000, {499: 1e-4, 26999: 1e-4, 27000: 1e-5, 33000: 1e-6}),
        (
            'ade20k_160k.py',
            10**9,
            {0: 6e-11, 1499: 6e-5 * (1 - 1499 / 160000), 20000: 6e-5 * (1 - 20000 / 160000)},
        ),
        ('ade20k_40k.py', 10**9, {0: 2e-4, 10000: 2e-4 * 0.75**0.9}),
    ],
)
def test_schedule_has_the_learning_rates_of_the_papers(schedule, per_epoch, rates):
    found = learning_rates(schedule, per_epoch, max(rates) + 1)
    for step, rate in rates.items():
        assert found[step] == pytest.approx(rate, rel=2e-3, abs=1e-9), step


def test_imagenet_schedule_decays_only_matrices_and_kernels():
    cfg = Config.fromfile(BASES / 'schedules' / 'imagenet_adamw_300e.py')
    model = FLattenSwin(
        arch=dict(embed_dims=8, depths=(2, 2), num_heads=(1, 1)),
        attn_types='LS',
        img_size=64,
        out_indices=(1,),
    )
    wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    decayed = set()
    for group in wrapper.optimizer.param_groups:
        if group['weight_decay'] > 0:
            decayed.update(map(id, group['params']))
    names = {name for name, parameter in model.named_parameters() if id(parameter) in decayed}
    expected = {
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim > 1 and 'relative_position_bias' not in name
    }
    assert names == expected
    assert any('scale' in name for name in names)
    assert any('positional_encoding' in name for name in names)


@pytest.mark.parametrize(
    'schedule', sorted(path.name for path in (BASES / 'schedules').glob('*.py'))
)
def test_schedule_combines_with_the_default_runtime(tmp_path, schedule):
    child = tmp_path / 'child.py'
    child.write_text(f"_base_ = ['{BASES}/default_runtime.py', '{BASES}/schedules/{schedule}']\n")
    cfg = Config.fromfile(child)
    assert cfg.default_hooks.checkpoint.type == 'mmflatten.CheckpointHook'
    assert {'optim_wrapper', 'param_scheduler', 'train_cfg', 'val_cfg', 'test_cfg'} <= cfg.keys()
