"""What the tools' options make of a config."""
import pytest
import torch
from mmengine.config import Config

from mmflatten.engine.setup import drop_validation, load_config, set_amp, set_seed
from mmflatten.engine.train import _resuming


@pytest.fixture
def foreign(tmp_path):
    """A config that knows nothing of mmflatten."""
    path = tmp_path / 'foreign.py'
    path.write_text("default_scope = 'mmengine'\n"
                    "optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1))\n")
    return path


@pytest.mark.parametrize('given, own, subfolder, expected', [
    (None, None, '', 'work_dirs/foreign'),
    (None, None, 'test', 'work_dirs/foreign/test'),
    (None, 'mine', 'test', 'mine/test'),
    ('given', 'mine', 'test', 'given'),
])
def test_work_dir(foreign, given, own, subfolder, expected):
    if own:
        foreign.write_text(f"work_dir = '{own}'\n")
    assert load_config(str(foreign), work_dir=given, subfolder=subfolder).work_dir == expected


@pytest.mark.parametrize('own, option, dtype', [
    (None, None, None), ('bfloat16', None, 'bfloat16'), ('bfloat16', 'float16', 'float16'),
    (None, 'bfloat16', 'bfloat16')])
def test_amp_takes_the_type_of_the_option_then_of_the_config(foreign, monkeypatch, own, option, dtype):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    cfg = Config.fromfile(foreign)
    if own:
        cfg.optim_wrapper.dtype = own
    set_amp(cfg, option)
    assert cfg.optim_wrapper.type == 'AmpOptimWrapper' and cfg.optim_wrapper.loss_scale == 'dynamic'
    assert cfg.optim_wrapper.get('dtype') == dtype


def test_amp_refuses_a_wrapper_it_cannot_replace(foreign, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    cfg = Config.fromfile(foreign)
    cfg.optim_wrapper.type = 'ApexOptimWrapper'
    with pytest.raises(ValueError, match=r'optim_wrapper.type \(ApexOptimWrapper\)'):
        set_amp(cfg, None)


def test_seed_and_validation(foreign):
    cfg = Config.fromfile(foreign)
    cfg.randomness = dict(deterministic=True)
    set_seed(cfg, 7)
    assert cfg.randomness == dict(deterministic=True, seed=7)
    drop_validation(cfg)
    assert cfg.val_cfg is cfg.val_dataloader is cfg.val_evaluator is None


def test_scaled_learning_rate_reaches_the_optimizer(tiny, tools):
    options = ['auto_scale_lr.base_batch_size=8', 'train_cfg.max_epochs=1']
    tiny.write_config(extra='auto_scale_lr = dict(base_batch_size=8)')
    assert tools.train([tiny.config, '--no-validate', '--auto-scale-lr', '--cfg-options', *options]) == 0
    saved = torch.load(tiny.work_dir / 'epoch_1.pth', weights_only=False)
    # 0.05 for a batch of 8; the batch is 4.
    assert saved['optimizer']['param_groups'][0]['initial_lr'] == pytest.approx(0.025)


@pytest.mark.parametrize('words, expected', [
    (['t.py', '--resume', 'a b.pth', 'c.py'], 't.py c.py --resume'),
    (['t.py', 'c.py', '--resume', '--seed', '1'], 't.py c.py --seed 1 --resume'),
    (['t.py', '--resume=x', 'a b.py'], "t.py 'a b.py' --resume"),
])
def test_the_command_to_go_on_with_is_that_of_the_tool_or_of_the_script_that_started_it(monkeypatch, words, expected):
    assert _resuming(words) == expected
    monkeypatch.setenv('MMFLATTEN_COMMAND', 'bash tools/dist_train.sh a\\ b.py 2 --seed 1 ')
    assert _resuming(words) == "bash tools/dist_train.sh 'a b.py' 2 --seed 1 --resume"
