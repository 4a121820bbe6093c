"""Options of the commands applied to a config."""

import pytest
import torch
from mmengine.config import Config

from mmflatten.config import ConfigError
from mmflatten.engine.setup import load_config, set_amp


@pytest.fixture
def foreign(tmp_path):
    """A config without mmflatten."""
    path = tmp_path / 'foreign.py'
    path.write_text(
        "default_scope = 'mmengine'\n"
        "optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1))\n"
    )
    return path


@pytest.mark.parametrize(
    'given, own, subfolder, expected',
    [
        (None, None, '', 'work_dirs/foreign'),
        (None, None, 'test', 'work_dirs/foreign/test'),
        (None, 'mine', 'test', 'mine/test'),
        ('given', 'mine', 'test', 'given'),
    ],
)
def test_work_dir(foreign, given, own, subfolder, expected):
    if own:
        foreign.write_text(f"work_dir = '{own}'\n")
    assert load_config(str(foreign), work_dir=given, subfolder=subfolder).work_dir == expected


@pytest.mark.parametrize(
    'own, option, dtype',
    [
        (None, None, None),
        ('bfloat16', None, 'bfloat16'),
        ('bfloat16', 'float16', 'float16'),
        (None, 'bfloat16', 'bfloat16'),
    ],
)
def test_amp_type_is_that_of_the_option_or_else_of_the_config(
    foreign, monkeypatch, own, option, dtype
):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    cfg = Config.fromfile(foreign)
    if own:
        cfg.optim_wrapper.dtype = own
    set_amp(cfg, option)
    # bfloat16 needs no scaler, which would wait for the GPU at every step.
    scale = dict(enabled=False) if dtype == 'bfloat16' else 'dynamic'
    assert cfg.optim_wrapper.type == 'AmpOptimWrapper' and cfg.optim_wrapper.loss_scale == scale
    assert cfg.optim_wrapper.get('dtype') == dtype

    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    set_amp(cfg, 'bfloat16')
    written = Config(cfg.to_dict())
    set_amp(cfg, None)  # the config that such a run writes can be read again
    assert cfg.to_dict() == written.to_dict()
    assert cfg.optim_wrapper.type == 'mmflatten.CPUAmpOptimWrapper'
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    set_amp(cfg, option)
    assert cfg.optim_wrapper.type == 'AmpOptimWrapper' and cfg.optim_wrapper.get('dtype') == option

    cfg.optim_wrapper.type = 'ApexOptimWrapper'
    with pytest.raises(ValueError, match=r'optim_wrapper.type \(ApexOptimWrapper\)'):
        set_amp(cfg, None)


def test_training_scales_the_learning_rate_and_warns_of_an_unusable_gpu(tiny, tools, monkeypatch):
    monkeypatch.setattr('mmflatten.engine.runner.gpu_problem', lambda: 'the driver is too old')
    tiny.write_config(extra='auto_scale_lr = dict(base_batch_size=8)')
    options = ['--auto-scale-lr', '--cfg-options', 'train_cfg.max_epochs=1']
    assert tools.train([tiny.config, '--no-validate', *options]) == 0
    saved = torch.load(tiny.work_dir / 'epoch_1.pth', weights_only=False)
    # 0.05 for a batch of 8; the batch is 4.
    assert saved['optimizer']['param_groups'][0]['initial_lr'] == pytest.approx(0.025)
    (log,) = tiny.work_dir.glob('*/*.log')
    assert log.read_text().count('WARNING - the driver is too old') == 1


def test_unknown_number_of_workers_is_named(tiny, fails):
    line = fails('train', tiny.config, '--cfg-options', 'train_dataloader.num_workers=all')
    assert 'train_dataloader.num_workers' in line and "'all'" in line


@pytest.mark.parametrize(
    'key, value, words',
    [
        ('optim_wraper.optimizer.lr', 1, ('optim_wraper', 'optim_wrapper')),
        ('optim_wrapper.optimizer.lr', '0.1', ('optim_wrapper.optimizer.lr', "'0.1'")),
        ('optim_wrapper.optimizer.lr', -0.1, ('optim_wrapper.optimizer.lr', '-0.1')),
        ('train_dataloader.batch_size', 2.5, ('train_dataloader.batch_size', '2.5')),
        ('train_dataloader.num_workers', -1, ('train_dataloader.num_workers', '-1')),
        ('train_cfg.max_epochs', 0, ('train_cfg.max_epochs', '0')),
    ],
)
def test_option_without_effect_or_of_another_type_is_named(key, value, words):
    config = 'digits/flatten-swin-nano_digits.py'
    with pytest.raises(ConfigError) as raised:
        load_config(f'configs/{config}', {key: value})
    assert all(word in str(raised.value) for word in words)


def test_new_fields_are_options_too():
    options = {'randomness.seed': 3, 'my_own_field': 1, 'resume': True}
    cfg = load_config('configs/digits/flatten-swin-nano_digits.py', options)
    assert cfg.randomness.seed == 3 and cfg.my_own_field == 1
