"""What a run says of itself."""
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.runner import ValLoop

from mmflatten.engine.setup import load_config
from mmflatten.studies import worker
from mmflatten.studies.folder import PROGRESS, write_json
from mmflatten.studies.progress import STOPPED_CHECKPOINT, ProgressHook


def test_memory_of_a_run_is_not_that_of_the_process_that_started_it():
    held = np.ones(2**27)  # 1 GiB, which `getrusage` of a child would begin with
    code = 'from mmflatten.studies.progress import Meter; print(Meter({}).costs()["peak_memory"])'
    found = int(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout)
    assert 2**26 < found < held.nbytes


def test_seconds_that_no_checkpoint_has_behind_it_are_given_back(tmp_path):
    for saved, over in (({}, False), (dict(training_seconds=4.), True)):
        write_json(tmp_path / PROGRESS, dict(training_seconds=4.))
        hub = SimpleNamespace(runtime_info=saved, update_info=saved.__setitem__)
        hook = ProgressHook(tmp_path, [], 3.)
        assert hook.time_is_up()  # so it seemed when the process was killed
        hook.before_train(SimpleNamespace(message_hub=hub, iter=0, max_iters=9, val_loop=None))
        assert hook.time_is_up() == over


def killed(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize('epochs, lost', [(2, '2'), (3, '2')])
def test_a_validation_that_a_kill_has_taken_is_made_up_for(tiny_config, tmp_path, monkeypatch, epochs, lost):
    config = tmp_path / 'config.py'
    load_config(str(tiny_config), {'train_cfg.max_epochs': epochs, 'train_cfg.val_interval': 2}).dump(config)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ValLoop, 'run', killed)
        worker._train(tmp_path, config, ProgressHook(tmp_path, ['accuracy/top1'], None))
    assert (tmp_path / 'train' / f'epoch_{lost}.pth').exists()
    hook = ProgressHook(tmp_path, ['accuracy/top1'], None)
    assert lost not in hook.state['validations']
    worker._train(tmp_path, config, hook)
    assert list(hook.state['validations']) == [lost, *['3'] * (epochs == 3)]
    again = ProgressHook(tmp_path, ['accuracy/top1'], None)
    monkeypatch.setattr(ValLoop, 'run', killed)
    worker._train(tmp_path, config, again)  # nothing is lacking any more
    assert again.state['validations'] == hook.state['validations']


def test_a_checkpoint_holds_the_seconds_and_a_training_whose_time_is_up_is_not_resumed(tiny_config, tmp_path):
    config = tmp_path / 'config.py'
    load_config(str(tiny_config), {'train_cfg.max_epochs': 1}).dump(config)
    hook = ProgressHook(tmp_path, ['accuracy/top1'], 1e3)
    saved = torch.load(worker._train(tmp_path, config, hook), weights_only=False)
    seconds = saved['message_hub']['runtime_info']['training_seconds']
    assert 0 < seconds <= hook.state['training_seconds']

    stopped = tmp_path / 'train' / STOPPED_CHECKPOINT
    stopped.touch()
    hook.seconds = seconds
    assert worker._train(tmp_path, config, hook) == str(stopped)
