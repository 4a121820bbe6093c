"""Killed and resumed training equals an uninterrupted one bit for bit (CPU, no loader
processes).
"""

import multiprocessing
import signal
from textwrap import dedent

import pytest
import torch

# A hook that interrupts or kills its process at the iteration in an environment variable.
KILLER = """
    import os
    import signal
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module(force=True)
    class Killer(Hook):
        def before_train_iter(self, runner, batch_idx, data_batch=None):
            if runner.iter == int(os.environ.get('INTERRUPT_AT', -1)):
                # Background shells ignore SIGINT.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.kill(os.getpid(), signal.SIGINT)

        def before_save_checkpoint(self, runner, checkpoint):
            if runner.iter == int(os.environ.get('KILL_SAVING_AT', -1)):
                # Between writing and renaming.
                os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
"""
USE_KILLER = """
    custom_imports = dict(imports=['killer'])
    custom_hooks = [dict(type='EMAHook', momentum=0.1), dict(type='Killer')]
"""


@pytest.mark.parametrize(
    'by_epoch, last, environment',
    [
        (False, 'iter_8.pth', dict(KILL_SAVING_AT='5')),
        (
            True,
            'epoch_2.pth',
            dict(INTERRUPT_AT='6', MMFLATTEN_COMMAND='bash dist_train.sh a\\ b.py 2 '),
        ),
    ],
)
def test_resume_equals_uninterrupted_training(
    tiny, tools, monkeypatch, capsys, by_epoch, last, environment
):
    (tiny.folder / 'killer.py').write_text(dedent(KILLER))
    tiny.write_config(by_epoch, USE_KILLER)
    monkeypatch.syspath_prepend(str(tiny.folder))
    straight = tiny.folder / 'straight'
    length = ['--cfg-options', 'train_cfg.max_epochs=2' if by_epoch else 'train_cfg.max_iters=8']
    # The rehearsals of the other runs, at the start and on resuming, must not change them.
    without = [*length, 'default_hooks.data_checks.rehearse=False']
    assert tools.train([tiny.config, '--work-dir', straight, '--seed', 3, *without]) == 0

    argv = [tiny.config, '--seed', 3, *length]
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        if by_epoch:
            assert tools.train(argv) == 130
            line = capsys.readouterr().err.splitlines()[-1]
            assert 'epoch_1.pth' in line
            assert line.endswith(f'{environment["MMFLATTEN_COMMAND"]}--resume')
        else:
            process = multiprocessing.get_context('fork').Process(target=tools.train, args=(argv,))
            process.start()
            process.join()
            assert process.exitcode == -signal.SIGKILL
    assert len(list(tiny.work_dir.glob('.iter_6.pth.*.part'))) == (0 if by_epoch else 1)
    assert not (tiny.work_dir / last).exists()

    # The seed comes from the checkpoint.
    assert tools.train([tiny.config, '--resume', *length]) == 0

    assert not list(tiny.work_dir.glob('.*.part'))
    one, other = (
        torch.load(folder / last, weights_only=False) for folder in (straight, tiny.work_dir)
    )
    assert one['param_schedulers'] == other['param_schedulers']
    assert one['optimizer']['param_groups'] == other['optimizer']['param_groups']
    for state in (
        lambda found: found['state_dict'],
        lambda found: found['ema_state_dict'],
        lambda found: found['optimizer']['state'],
    ):
        torch.testing.assert_close(state(one), state(other), rtol=0, atol=0)


RECORDER = """
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module(force=True)
    class OrderRecorder(Hook):
        def before_train_iter(self, runner, batch_idx, data_batch=None):
            with open(runner.work_dir + '/order.txt', 'a') as order:
                print(*[sample.img_path for sample in data_batch['data_samples']], file=order)

        def after_train(self, runner):
            # Stop the loader processes; the garbage collector would wait 5 seconds for each.
            if hasattr(runner.train_loop, 'dataloader_iterator'):
                runner.train_loop.dataloader_iterator._iterator = None
"""


def test_resume_continues_the_order_of_samples_with_loader_processes(tiny, tools, monkeypatch):
    (tiny.folder / 'order_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(
        False,
        """
        custom_imports = dict(imports=['order_recorder'])
        custom_hooks = [dict(type='OrderRecorder')]
        train_dataloader['num_workers'] = 2
        train_cfg['max_iters'] = 8
    """,
    )
    assert (
        tools.train([tiny.config, '--no-validate', '--cfg-options', 'train_cfg.max_iters=4']) == 0
    )
    assert tools.train([tiny.config, '--no-validate', '--resume']) == 0
    seed = torch.load(tiny.work_dir / 'iter_8.pth', weights_only=False)['meta']['seed']

    again = tiny.folder / 'again'
    assert tools.train([tiny.config, '--no-validate', '--work-dir', again, '--seed', seed]) == 0
    order = (tiny.work_dir / 'order.txt').read_text().splitlines()
    assert len(order) == 8 and order == (again / 'order.txt').read_text().splitlines()
