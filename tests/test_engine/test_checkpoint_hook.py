"""Checkpoints that a run keeps and deletes."""

import errno
import os
import resource
from pathlib import Path

import pytest
import torch
from mmengine.runner.checkpoint import get_torch_safe_globals

from mmflatten.checkpoints.run_files import what_is_wrong


def checkpoints(tiny) -> list[str]:
    return sorted(path.name for path in tiny.work_dir.glob('*.pth'))


@pytest.mark.parametrize(
    'by_epoch, half, first, kept',
    [
        (
            True,
            'train_cfg.max_epochs=2',
            ['epoch_1.pth', 'epoch_2.pth'],
            ['epoch_2.pth', 'epoch_3.pth', 'epoch_4.pth'],
        ),
        (
            False,
            'train_cfg.max_iters=6',
            ['iter_3.pth', 'iter_6.pth'],
            ['iter_12.pth', 'iter_15.pth', 'iter_16.pth'],
        ),
    ],
)
def test_hook_keeps_three_newest_at_the_interval_of_validation(
    tiny, tools, by_epoch, half, first, kept
):
    tiny.write_config(by_epoch)
    assert tools.train([tiny.config, '--no-validate', '--cfg-options', half]) == 0
    assert checkpoints(tiny) == first
    assert tools.train([tiny.config, '--no-validate', '--resume']) == 0
    assert checkpoints(tiny) == kept
    assert (tiny.work_dir / 'last_checkpoint').read_text() == str(tiny.work_dir / kept[-1])


def test_old_best_is_kept_until_the_new_best_is_complete(tiny, tools, fails, monkeypatch):
    # An error that decreases every epoch.
    tiny.write_config(
        extra="""
        custom_imports = dict(imports=['falling'])
        val_evaluator = dict(type='Falling')
        train_cfg['max_epochs'] = 3
    """
    )
    (tiny.folder / 'falling.py').write_text(
        'from mmengine.evaluator import BaseMetric\n'
        'from mmengine.registry import METRICS\n'
        '@METRICS.register_module()\n'
        'class Falling(BaseMetric):\n'
        '    def process(self, data_batch, data_samples):\n'
        '        self.results.append(0)\n'
        '    def compute_metrics(self, results):\n'
        '        Falling.value = getattr(Falling, "value", 9.0) - 1\n'
        '        return {"error": Falling.value}\n'
    )
    monkeypatch.syspath_prepend(str(tiny.folder))
    replace = os.replace

    def full(source, target):
        if Path(target).name == 'best_error_epoch_2.pth':
            raise OSError(errno.ENOSPC, 'No space left on device')
        replace(source, target)

    monkeypatch.setattr(os, 'replace', full)
    best = [
        '--cfg-options',
        'default_hooks.checkpoint.save_best=error',
        'default_hooks.checkpoint.rule=less',
    ]
    line = fails('train', tiny.config, *best)
    assert 'best_error_epoch_2.pth' in line
    assert f'last good checkpoint is {tiny.work_dir}/epoch_2.pth' in line
    assert checkpoints(tiny) == ['best_error_epoch_1.pth', 'epoch_1.pth', 'epoch_2.pth']

    monkeypatch.setattr(os, 'replace', replace)
    # What a checkpoint names in another place stays there: it may be of a copied run, or from
    # somebody else.
    content = torch.load(tiny.work_dir / 'epoch_2.pth', weights_only=False)
    state = content['message_hub']['runtime_info']
    other = tiny.folder / 'other' / 'best_error_epoch_1.pth'
    other.parent.mkdir()
    other.touch()
    for elsewhere in (other, other.parent):
        state['best_ckpt'] = str(elsewhere)
        torch.save(content, tiny.work_dir / 'epoch_2.pth')
        assert tools.train([tiny.config, '--resume', tiny.work_dir / 'epoch_2.pth', *best]) == 0
        assert other.exists()
    assert checkpoints(tiny) == [
        'best_error_epoch_3.pth',
        'epoch_1.pth',
        'epoch_2.pth',
        'epoch_3.pth',
    ]
    state['keep_ckpt_ids'] = ['/../../other/best_error_epoch_1']
    torch.save(content, tiny.work_dir / 'epoch_2.pth')
    assert 'keep_ckpt_ids' in fails(
        'train', tiny.config, '--resume', tiny.work_dir / 'epoch_2.pth', *best
    )


def test_checkpoint_loads_without_pickle(trained):
    with torch.serialization.safe_globals(get_torch_safe_globals()):
        checkpoint = torch.load(trained, weights_only=True)
    assert {
        'state_dict',
        'ema_state_dict',
        'optimizer',
        'param_schedulers',
        'mmflatten',
    } <= checkpoint.keys()


def test_full_disk_leaves_no_partial_file_and_names_the_last_good_checkpoint(tiny, fails, trained):
    # A limit on the file size simulates the full disk: writing stops in the middle.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (trained.stat().st_size // 2, limits[1]))
    try:
        line = fails('train', tiny.config, '--resume', trained)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f'{tiny.work_dir}/epoch_2.pth' in line and f'last good checkpoint is {trained}' in line
    assert sorted(path.name for path in tiny.work_dir.iterdir() if path.is_file()) == ['tiny.py']
    assert what_is_wrong(trained) is None


def test_resume_skips_damaged_checkpoints_and_fails_if_all_are_damaged(tiny, tools, fails, capsys):
    assert (
        tools.train(
            [tiny.config, '--resume', '--cfg-options', 'train_cfg.max_epochs=2', '--no-validate']
        )
        == 0
    )
    assert f'{tiny.work_dir} has no checkpoint yet' in capsys.readouterr().out
    newest = tiny.work_dir / 'epoch_2.pth'
    newest.write_bytes(newest.read_bytes()[:-3000])
    assert tools.train([tiny.config, '--resume', '--no-validate']) == 0
    output = capsys.readouterr().out
    assert f'{newest}: it is damaged' in output and 'resumed epoch: 1, iter: 4' in output
    for path in tiny.work_dir.glob('*.pth'):
        path.write_bytes(path.read_bytes()[:1000])
    assert f'3 checkpoints in {tiny.work_dir}' in fails('train', tiny.config, '--resume')
