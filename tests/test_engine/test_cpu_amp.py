"""`--amp` without a GPU: bfloat16 in the backbone, float32 for weights, losses and optimizer."""

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import AmpOptimWrapper
from mmengine.registry import MODELS, OPTIM_WRAPPERS, DefaultScope
from mmpretrain.structures import DataSample
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from mmflatten.engine.optim import CPUAmpOptimWrapper
from mmflatten.engine.setup import build_runner, load_config, set_amp

# to 64 channels
DOUBLED = dict(arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 2, 4, 8)))
FREE = dict(arch=dict(embed_dims=(8, 16, 24, 64), depths=(1, 1, 1, 1), num_heads=(1, 2, 3, 4)))
NANO = {
    'FLattenDeiT': dict(arch=dict(embed_dims=64, depth=4, num_heads=2), out_type='featmap'),
    **dict.fromkeys(('FLattenPVT', 'FLattenPVTv2', 'RAVLT', 'MLLA', 'HViTTT'), FREE),
    **dict.fromkeys(('FLattenSwin', 'FLattenCSwin'), DOUBLED),
    'L2ViT': dict(
        arch=dict(embed_dims=8, depths=(2, 2, 2, 2), num_heads=(1, 2, 4, 8)), last_projection=64
    ),
    'FocalTransformer': dict(DOUBLED, window_size=2, expand_size=1),
}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)


@pytest.mark.parametrize('family', NANO)
def test_every_family_trains(family):
    torch.manual_seed(0)
    backbone = dict(type=f'mmflatten.{family}', img_size=32, out_indices=(3,), **NANO[family])
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(
            dict(
                type='ImageClassifier',
                backbone=backbone,
                data_preprocessor=dict(mean=[127.5] * 3, std=[127.5] * 3),
                neck=dict(type='GlobalAveragePooling'),
                head=dict(
                    type='LinearClsHead',
                    num_classes=2,
                    in_channels=64,
                    loss=dict(type='CrossEntropyLoss'),
                ),
            )
        )
    types = set()
    for part in model.backbone.modules():
        if isinstance(part, nn.Linear):
            part.register_forward_hook(lambda module, inputs, output: types.add(output.dtype))
    wrapper = CPUAmpOptimWrapper(torch.optim.AdamW(model.parameters(), lr=3e-3))
    labels = torch.tensor([0, 1, 0, 1])
    batch = dict(
        inputs=[torch.full((3, 32, 32), 200 * int(label), dtype=torch.uint8) for label in labels],
        data_samples=[DataSample().set_gt_label(label) for label in labels],
    )
    losses = [model.train_step(batch, wrapper)['loss'] for _ in range(8)]
    assert torch.bfloat16 in types
    assert all(loss.dtype == torch.float32 and loss.isfinite() for loss in losses)
    assert losses[-1] < losses[0]
    assert all(
        weight.dtype == torch.float32 and weight.isfinite().all() for weight in model.parameters()
    )
    for states in wrapper.optimizer.state.values():
        assert all(state.dtype == torch.float32 for state in states.values())
    assert not any(
        part._forward_hooks or part._forward_pre_hooks for part in (model, model.backbone)
    )


def test_resume_with_amp_equals_uninterrupted_training_and_differs_from_float32(tiny, tools):
    straight, resumed, exact = (tiny.folder / name for name in ('straight', 'resumed', 'float32'))
    argv = [tiny.config, '--no-validate', '--cfg-options', 'train_cfg.max_epochs=2', '--work-dir']
    assert tools.train([*argv, straight, '--amp', '--seed', 3]) == 0
    assert tools.train([*argv, resumed, '--amp', '--resume', straight / 'epoch_1.pth']) == 0
    assert tools.train([*argv, exact, '--seed', 3]) == 0
    one, other, full = (
        torch.load(folder / 'epoch_2.pth', weights_only=False)
        for folder in (straight, resumed, exact)
    )
    for state in (lambda found: found['state_dict'], lambda found: found['optimizer']['state']):
        torch.testing.assert_close(state(one), state(other), rtol=0, atol=0)
    name = 'head.fc.weight'
    assert not torch.equal(one['state_dict'][name], full['state_dict'][name])
    torch.testing.assert_close(one['state_dict'][name], full['state_dict'][name], rtol=0, atol=0.05)


def test_two_stage_detector_trains(config_on):
    """mmcv's operators on proposals and regions do not support bfloat16 on the CPU."""
    cfg = load_config(str(config_on('mask-rcnn_flatten-swin-nano_fpn_digits')))
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    set_amp(cfg, 'bfloat16')
    runner = build_runner(cfg)
    runner.train()
    losses = [
        history.current()
        for name, history in runner.message_hub.log_scalars.items()
        if 'loss' in name
    ]
    assert len(losses) > 3 and torch.tensor(losses).isfinite().all()


def test_model_without_backbone_runs_in_bfloat16():
    model = nn.Linear(4, 4)
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    wrapper = CPUAmpOptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    with wrapper.optim_context(model):
        assert model(torch.ones(2, 4)).dtype == torch.float32
    assert seen == [torch.bfloat16] and model(torch.ones(2, 4)).dtype == torch.float32


def test_error_in_the_model_ends_autocast():
    model = nn.Linear(4, 4)
    wrapper = CPUAmpOptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(RuntimeError), wrapper.optim_context(model):
        model(torch.ones(2, 5))
    assert not torch.is_autocast_enabled('cpu')


def test_mmengines_wrapper_requires_a_gpu():
    # MMEngine 0.10; if not, use it instead of CPUAmpOptimWrapper
    with pytest.raises(AssertionError):
        AmpOptimWrapper(optimizer=torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))


def test_parameters_on_a_gpu_are_rejected():
    with FakeTensorMode(), pytest.raises(ValueError, match=r'CPUAmpOptimWrapper.* cuda\..*--amp'):
        CPUAmpOptimWrapper(torch.optim.SGD(nn.Linear(2, 2, device='cuda').parameters(), lr=0.1))


def test_wrapper_accepts_meta_parameters():
    assert CPUAmpOptimWrapper(torch.optim.SGD(nn.Linear(2, 2, device='meta').parameters(), lr=0.1))


@pytest.mark.parametrize('own, option', [(None, None), ('bfloat16', None), ('float16', 'bfloat16')])
def test_set_amp_removes_loss_scaling_options(own, option):
    scaled = dict(type='AmpOptimWrapper', loss_scale='dynamic', dtype=own) if own else {}
    cfg = Config(
        dict(optim_wrapper=dict(scaled, optimizer=dict(type='SGD', lr=0.1), accumulative_counts=2))
    )
    set_amp(cfg, option)
    cfg.optim_wrapper.optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    built = OPTIM_WRAPPERS.build(cfg.optim_wrapper)
    assert type(built) is CPUAmpOptimWrapper and built._accumulative_counts == 2


@pytest.mark.parametrize('own, option', [(None, 'float16'), ('float16', None)])
def test_float16_requires_a_gpu(own, option):
    cfg = Config(dict(optim_wrapper=dict(dtype=own, optimizer=dict(type='SGD', lr=0.1))))
    with pytest.raises(ValueError, match='--amp: float16.*bfloat16'):
        set_amp(cfg, option)
