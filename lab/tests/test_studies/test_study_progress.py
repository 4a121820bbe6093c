"""Progress of a run and what it leaves to the next attempt."""
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.runner import ValLoop

from mmflatten.engine.setup import load_config
from mmflatten_lab.studies.execution import STOPPED_CHECKPOINT, ProgressHook, train_run
from mmflatten_lab.studies.folder import PROGRESS, write_json


def test_progress_hook_counts_the_seconds_of_the_checkpoint_only(tmp_path):
    for saved, over in (({}, False), (dict(training_seconds=4.), True)):
        write_json(tmp_path / PROGRESS, dict(training_seconds=4.))
        hub = SimpleNamespace(runtime_info=saved, update_info=saved.__setitem__)
        hook = ProgressHook(tmp_path, [], 3.)
        assert hook.is_time_up()  # as counted when the process was killed
        hook.before_train(SimpleNamespace(message_hub=hub, iter=0, max_iters=9, val_loop=None))
        assert hook.is_time_up() == over


def test_resumed_run_repeats_a_lost_validation_and_keeps_its_training_seconds(tiny_config, tmp_path, monkeypatch):
    config = tmp_path / 'config.py'
    load_config(str(tiny_config), {'train_cfg.max_epochs': 3, 'train_cfg.val_interval': 2}).dump(config)
    validate, lost = ValLoop.run, {2, 3}

    def killed_once(loop):
        if loop.runner.epoch in lost:
            lost.remove(loop.runner.epoch)
            raise KeyboardInterrupt
        return validate(loop)

    def train() -> tuple[ProgressHook, Path]:
        hook = ProgressHook(tmp_path, ['accuracy/top1'], 1e3)
        return hook, train_run(tmp_path, config, hook)

    monkeypatch.setattr(ValLoop, 'run', killed_once)
    for epoch in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            train()
        assert (tmp_path / 'train' / f'epoch_{epoch}.pth').exists() and epoch not in lost
    hook, checkpoint = train()
    assert list(hook.state['validations']) == ['2', '3']
    seconds = torch.load(checkpoint, weights_only=False)['message_hub']['runtime_info']['training_seconds']
    assert 0 < seconds <= hook.state['training_seconds']

    stopped = tmp_path / 'train' / STOPPED_CHECKPOINT
    stopped.touch()
    hook.seconds = seconds
    assert train_run(tmp_path, config, hook) == str(stopped)  # the time is up, so the training does not resume
