"""Progress of a run and what it leaves to the next attempt."""

import pytest
from mmengine.runner import ValLoop

from mmflatten.engine.setup import load_config
from mmflatten_lab.studies.execution import ProgressHook, train_run


def test_resumed_run_repeats_a_lost_validation(tiny_config, tmp_path, monkeypatch):
    config = tmp_path / 'config.py'
    load_config(str(tiny_config), {'train_cfg.max_epochs': 3, 'train_cfg.val_interval': 2}).dump(
        config
    )
    validate, lost = ValLoop.run, {2, 3}

    def killed_once(loop):
        if loop.runner.epoch in lost:
            lost.remove(loop.runner.epoch)
            raise KeyboardInterrupt
        return validate(loop)

    def train() -> tuple[ProgressHook, str]:
        hook = ProgressHook(tmp_path, ['accuracy/top1'])
        return hook, train_run(tmp_path, config, hook)

    monkeypatch.setattr(ValLoop, 'run', killed_once)
    for epoch in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            train()
        assert (tmp_path / 'train' / f'epoch_{epoch}.pth').exists() and epoch not in lost
    hook, checkpoint = train()
    assert list(hook.state['validations']) == ['2', '3']
    assert checkpoint == str(tmp_path / 'train' / 'epoch_3.pth')
