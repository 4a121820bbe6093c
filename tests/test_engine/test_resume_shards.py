"""Trainings on shards: equal to those on folders, and exact after an interruption (CPU, no loader
processes).
"""

import shutil
import subprocess

import pytest
import torch

from mmflatten.cli.data import main

# A hook that stops the training as Ctrl-C does; the config imports it.
STOPPER = """
import os
from mmengine.hooks import Hook
from mmengine.registry import HOOKS

@HOOKS.register_module(force=True)
class Stopper(Hook):
    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.iter == int(os.environ.get('STOP_AT', -1)):
            raise KeyboardInterrupt
"""
USE = """
    custom_imports = dict(imports=['stopper'])
    custom_hooks = [dict(type='EMAHook', momentum=0.1), dict(type='Stopper')]
"""


@pytest.mark.parametrize(
    'by_epoch, last, length',
    [
        (True, 'epoch_2.pth', 'train_cfg.max_epochs=2'),
        (False, 'iter_8.pth', 'train_cfg.max_iters=8'),
    ],
)
def test_resumed_training_on_shards_equals_training_on_folders(
    tiny, tools, monkeypatch, by_epoch, last, length
):
    (tiny.folder / 'stopper.py').write_text(STOPPER)
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(by_epoch, USE)
    source, packed = tiny.folder / 'imagenet', tiny.folder / 'packed'
    shutil.copytree(tiny.data, source / 'train')
    packed.mkdir()
    subprocess.run(
        'find * -type f | LC_ALL=C sort | tar -cf ../../packed/train-00000.tar -T -',
        shell=True,
        cwd=source / 'train',
        check=True,
    )
    assert (
        main(['index', str(packed / 'train-00000.tar'), '--out', str(packed / 'train.index')]) == 0
    )

    straight = tiny.folder / 'straight'
    assert (
        tools.train(
            [
                tiny.config,
                '--no-validate',
                '--work-dir',
                straight,
                '--seed',
                3,
                '--cfg-options',
                length,
            ]
        )
        == 0
    )
    here = [
        length,
        *(
            f'train_dataloader.dataset.{option}'
            for option in ('type=mmflatten.IndexedImages', f'data_root={packed}', 'split=train')
        ),
    ]
    monkeypatch.setenv('STOP_AT', '5')  # in the second epoch
    assert tools.train([tiny.config, '--no-validate', '--seed', 3, '--cfg-options', *here]) == 130
    assert not (tiny.work_dir / last).exists()
    monkeypatch.delenv('STOP_AT')
    assert tools.train([tiny.config, '--no-validate', '--resume', '--cfg-options', *here]) == 0

    one, other = (
        torch.load(folder / last, weights_only=False) for folder in (straight, tiny.work_dir)
    )
    for state in (
        lambda found: found['state_dict'],
        lambda found: found['ema_state_dict'],
        lambda found: found['optimizer']['state'],
    ):
        torch.testing.assert_close(state(one), state(other), rtol=0, atol=0)
