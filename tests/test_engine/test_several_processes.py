"""Training on several processes equals training on one, and resumes on another number of
processes.
"""

from pathlib import Path
from textwrap import dedent

import pytest
import torch

from mmflatten.checkpoints.loading import read_checkpoint

# Only the order of the samples is random, and no schedule or average counts iterations.
DETERMINISTIC = """
    custom_imports = dict(imports=['losses_recorder'])
    custom_hooks = [dict(type='LossesRecorder')]
    model['backbone']['drop_path_rate'] = 0.
    train_dataloader['dataset']['pipeline'] = test_pipeline
    train_cfg['max_epochs'] = 1
    param_scheduler = []
    optim_wrapper['clip_grad'] = dict(max_norm=0.5)
    auto_scale_lr = dict(base_batch_size=2)
"""
RECORDER = """
    import torch
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module(force=True)
    class LossesRecorder(Hook):
        def before_train(self, runner):
            self.losses = []

        def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
            self.losses.append(outputs['loss'].item())

        def after_val_epoch(self, runner, metrics=None):
            self.accuracy = metrics['accuracy/top1']

        def after_train(self, runner):
            torch.save((self.losses, self.accuracy), f'{runner.work_dir}/recorded_{runner.rank}.pt')
"""


def assert_equal(one: Path, other: Path, **tolerance: float) -> None:
    """Compare all training state in two checkpoints."""
    one, other = (read_checkpoint(str(path)) for path in (one, other))
    assert one.keys() == other.keys() and one['param_schedulers'] == other['param_schedulers']
    assert one['optimizer']['param_groups'] == other['optimizer']['param_groups']
    for entry in ('state_dict', 'ema_state_dict'):
        torch.testing.assert_close(
            dict(one.get(entry, {})), dict(other.get(entry, {})), **tolerance
        )
    torch.testing.assert_close(one['optimizer']['state'], other['optimizer']['state'], **tolerance)


def recorded(folder: Path, processes: int) -> tuple[torch.Tensor, set[float]]:
    """Return the losses, one row per process, and the accuracies that the processes computed."""
    losses, accuracies = zip(
        *(torch.load(folder / f'recorded_{rank}.pt') for rank in range(processes))
    )
    return torch.tensor(losses), set(accuracies)


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.full)])
def test_training_equals_one_process_with_the_same_total_batch(
    tiny, tools, train_on, monkeypatch, processes
):
    (tiny.folder / 'losses_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC)
    alone, steps = tiny.folder / 'alone', 4 // processes
    # The rehearsal of the other run must not change it.
    without = ['--cfg-options', 'default_hooks.data_checks.rehearse=False']
    words = [tiny.config, '--work-dir', alone, '--seed', 5, '--auto-scale-lr', *without]
    assert tools.train(words) == 0
    losses, accuracy = recorded(alone, 1)
    folder = tiny.folder / 'several'
    assert set(
        train_on(
            processes,
            tiny.config,
            '--work-dir',
            folder,
            '--seed',
            5,
            '--auto-scale-lr',
            '--cfg-options',
            'train_dataloader.batch_size=1',
            f'optim_wrapper.accumulative_counts={steps}',
        )
    ) == {0}
    # Gradients are summed in another order. The losses of a single process differ from the mean by
    # 5e-3.
    seen, accuracies = recorded(folder, processes)
    torch.testing.assert_close(
        seen.mean(0).view(-1, steps).mean(1), losses[0], rtol=1e-5, atol=1e-6
    )
    assert accuracies == accuracy
    assert_equal(alone / 'epoch_1.pth', folder / 'epoch_1.pth', rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.full)])
def test_training_resumes_from_and_on_another_number_of_processes(tiny, tools, train_on, processes):
    tiny.write_config(
        extra=DETERMINISTIC
        + """
    custom_imports = dict()
    custom_hooks = [dict(type='EMAHook', momentum=0.1)]
    train_cfg['max_epochs'] = 3
    optim_wrapper = dict(
        optimizer=dict(type='AdamW', lr=0.01, eps=1e-3, weight_decay=0.1),
        paramwise_cfg=dict(norm_decay_mult=0.))
    param_scheduler = [dict(type='CosineAnnealingLR', T_max=3, end=3)]
    """
    )
    alone = tiny.folder / 'alone'
    assert tools.train([tiny.config, '--work-dir', alone, '--seed', 3]) == 0
    statuses = train_on(
        processes,
        tiny.config,
        '--resume',
        alone / 'epoch_1.pth',
        '--cfg-options',
        'train_cfg.max_epochs=2',
        f'train_dataloader.batch_size={4 // processes}',
    )
    assert set(statuses) == {0}
    assert_equal(alone / 'epoch_2.pth', tiny.work_dir / 'epoch_2.pth', rtol=1e-5, atol=2e-6)
    assert tools.train([tiny.config, '--resume']) == 0
    assert_equal(alone / 'epoch_3.pth', tiny.work_dir / 'epoch_3.pth', rtol=1e-5, atol=2e-6)
