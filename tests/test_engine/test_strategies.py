"""What several processes train together, each with all of it (ddp) or a part (fsdp, deepspeed), is what one trains."""
import importlib.util
import signal
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from torch import nn

from mmflatten.cli.convert import main as convert
from mmflatten.engine.checkpoints.reading import load_from_local
from mmflatten.engine.strategies import fully_shard_out, set_strategy
from mmflatten.engine.zero import ZeroOptimWrapper

# Nothing random but the order of the samples, and no schedule or average that counts iterations.
DETERMINISTIC = '''
    custom_imports = dict(imports=['losses_recorder'])
    custom_hooks = [dict(type='LossesRecorder')]
    model['backbone']['drop_path_rate'] = 0.
    train_dataloader['dataset']['pipeline'] = test_pipeline
    train_cfg['max_epochs'] = 2
    param_scheduler = []
    optim_wrapper['clip_grad'] = dict(max_norm=0.5)
    auto_scale_lr = dict(base_batch_size=2)
'''
RECORDER = '''
    import torch
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module(force=True)
    class LossesRecorder(Hook):
        def before_train(self, runner):
            self.losses = []

        def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
            self.losses.append(outputs['loss'].item())

        def after_train(self, runner):
            torch.save(self.losses, f'{runner.work_dir}/losses_{runner.rank}.pt')
'''

KILLER = '''
    import os
    import signal
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module(force=True)
    class RankKiller(Hook):
        def before_save_checkpoint(self, runner, checkpoint):
            if runner.rank == 0 and runner.iter == int(os.environ.get('KILL_SAVING_AT', -1)):
                # Between writing aside and renaming.
                os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
'''
USE_KILLER = '''
    train_cfg['max_epochs'] = 3
    custom_imports = dict(imports=['rank_killer'])
    custom_hooks = [dict(type='EMAHook', momentum=0.1), dict(type='RankKiller')]
'''


def assert_equal(one: Path, other: Path, **tolerance: float) -> None:
    """Compare all that two checkpoints hold of a training."""
    one, other = (load_from_local(str(path)) for path in (one, other))
    assert one.keys() == other.keys() and one['param_schedulers'] == other['param_schedulers']
    assert one['optimizer']['param_groups'] == other['optimizer']['param_groups']
    for entry in ('state_dict', 'ema_state_dict'):
        torch.testing.assert_close(dict(one.get(entry, {})), dict(other.get(entry, {})), **tolerance)
    torch.testing.assert_close(one['optimizer']['state'], other['optimizer']['state'], **tolerance)


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.full)])
def test_processes_equal_one_with_the_same_total_batch(tiny, tools, train_on, monkeypatch, processes):
    (tiny.folder / 'losses_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC)
    alone = tiny.folder / 'alone'
    assert tools.train([tiny.config, '--work-dir', alone, '--seed', 5, '--auto-scale-lr']) == 0
    losses, steps = torch.load(alone / 'losses_0.pt'), 4 // processes
    for strategy in ('ddp', 'fsdp', 'deepspeed'):
        folder = tiny.folder / strategy
        assert set(train_on(processes, tiny.config, '--work-dir', folder, '--seed', 5, '--auto-scale-lr', '--strategy',
                            strategy, '--cfg-options', 'train_dataloader.batch_size=1',
                            f'optim_wrapper.accumulative_counts={steps}')) == {0}
        # Two processes saw one image each, twice, for every step that one process took with four; four see one, once.
        seen = torch.tensor([torch.load(folder / f'losses_{rank}.pt') for rank in range(processes)])
        mean = seen.mean(0).view(-1, steps).mean(1)
        torch.testing.assert_close(mean, torch.tensor(losses), rtol=1e-5, atol=1e-6)
        assert_equal(alone / 'epoch_2.pth', folder / 'epoch_2.pth', rtol=1e-5, atol=2e-6)


def test_mixed_precision_that_is_shared_out_equals_that_of_one_process(tiny, tools, train_on, monkeypatch):
    (tiny.folder / 'losses_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC + "    train_cfg['max_epochs'] = 1\n")
    losses = {}
    for name, options in dict(float32=[], alone=['--amp'], fsdp=['--amp', '--strategy', 'fsdp'],
                              deepspeed=['--amp', '--strategy', 'deepspeed']).items():
        processes = 2 if '--strategy' in options else 1
        argv = [tiny.config, *options, '--work-dir', tiny.folder / name, '--seed', 5,
                '--cfg-options', f'train_dataloader.batch_size={4 // processes}']
        assert set(train_on(2, *argv) if processes == 2 else [tools.train(argv)]) == {0}
        seen = [torch.load(tiny.folder / name / f'losses_{rank}.pt') for rank in range(processes)]
        losses[name] = torch.tensor(seen).mean(0)
    assert abs(losses['alone'][0] - losses['float32'][0]) > 2e-5  # measured 5.5e-5
    for strategy in ('fsdp', 'deepspeed'):
        # The first loss is of the same weights; gradients are rounded in other sums. Measured 6e-8 and 2e-5.
        torch.testing.assert_close(losses[strategy][0], losses['alone'][0], rtol=0, atol=1e-6)
        torch.testing.assert_close(losses[strategy], losses['alone'], rtol=0, atol=2e-4)
        weights = load_from_local(str(tiny.folder / strategy / 'epoch_1.pth'))['state_dict']
        assert not any(weight.dtype is torch.bfloat16 for weight in weights.values())


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.full)])
@pytest.mark.parametrize('strategy', ['fsdp', 'deepspeed'])
def test_training_that_is_killed_while_it_saves_resumes_exactly(tiny, tools, train_on, monkeypatch, strategy,
                                                                processes):
    (tiny.folder / 'rank_killer.py').write_text(dedent(KILLER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=USE_KILLER)
    straight = tiny.folder / 'straight'
    shared_out = [tiny.config, '--strategy', strategy, '--cfg-options', f'train_dataloader.batch_size={8 // processes}']
    assert set(train_on(processes, *shared_out, '--work-dir', straight, '--seed', 3)) == {0}

    in_pieces, name = strategy == 'fsdp', 'epoch_2.sharded' if strategy == 'fsdp' else 'epoch_2.pth'
    if in_pieces:
        shared_out.append('default_hooks.checkpoint.sharded=True')
    monkeypatch.setenv('KILL_SAVING_AT', '4')
    assert train_on(processes, *shared_out, '--seed', 3) == [-signal.SIGKILL, *[1] * (processes - 1)]
    assert (tiny.work_dir / f'.{name}.part').exists() and not (tiny.work_dir / name).exists()
    monkeypatch.delenv('KILL_SAVING_AT')
    assert set(train_on(processes, *shared_out, '--resume')) == {0}  # the seed comes from the checkpoint
    assert not list(tiny.work_dir.glob('.*'))

    last = tiny.work_dir / name.replace('2', '3')
    if in_pieces:
        pieces, last = last, tiny.folder / 'one.pth'
        assert len(list(pieces.glob('*.distcp'))) == processes
        assert convert([str(pieces), str(last)]) == 0
        assert tools.test([tiny.config, pieces]) == 0
    assert_equal(straight / 'epoch_3.pth', last, rtol=0, atol=0)
    assert tools.test([tiny.config, last]) == 0


@pytest.mark.parametrize('strategy, processes, later', [
    ('fsdp', 2, 1), ('deepspeed', 2, 1), pytest.param('deepspeed', 2, 4, marks=pytest.mark.full),
    pytest.param('fsdp', 4, 2, marks=pytest.mark.full), pytest.param('fsdp', 2, 4, marks=pytest.mark.full)])
def test_training_goes_on_with_another_number_of_processes(tiny, tools, train_on, strategy, processes, later):
    tiny.write_config(extra=DETERMINISTIC + """
    custom_imports = dict()
    custom_hooks = [dict(type='EMAHook', momentum=0.1)]
    train_cfg['max_epochs'] = 2
    optim_wrapper = dict(
        optimizer=dict(type='AdamW', lr=0.01, eps=1e-3, weight_decay=0.1), paramwise_cfg=dict(norm_decay_mult=0.))
    param_scheduler = [dict(type='CosineAnnealingLR', T_max=2, end=2)]
    """)
    alone = tiny.folder / 'alone'
    assert tools.train([tiny.config, '--work-dir', alone, '--seed', 3]) == 0
    in_pieces = strategy == 'fsdp'

    def train(number: int, *argv: object) -> list[int]:
        batch = f'train_dataloader.batch_size={4 // number}'
        if number == 1:
            return [tools.train([tiny.config, *argv, batch])]
        return train_on(number, tiny.config, '--strategy', strategy, *argv, batch,
                        f'default_hooks.checkpoint.sharded={in_pieces}')

    assert set(train(processes, '--seed', 3, '--cfg-options', 'train_cfg.max_epochs=1')) == {0}
    assert set(train(later, '--resume', '--cfg-options')) == {0}
    last = 'epoch_2.sharded' if in_pieces and later > 1 else 'epoch_2.pth'
    assert_equal(alone / 'epoch_2.pth', tiny.work_dir / last, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize('strategy', ['fsdp', 'deepspeed'])
@pytest.mark.parametrize('fields, words', [
    (dict(launcher='none'), 'dist_train.sh'),
    (dict(launcher='pytorch', find_unused_parameters=True), 'find_unused_parameters'),
    (dict(launcher='pytorch', model_wrapper_cfg=dict(find_unused_parameters=True)), 'find_unused_parameters'),
    (dict(launcher='pytorch', runner_type='mmengine.Runner'), 'mmengine.Runner')])
def test_what_cannot_be_shared_out_is_refused(fields, words, strategy):
    with pytest.raises(ValueError, match=f'{strategy}.*{words}'):
        set_strategy(Config(fields), strategy)
    if fields['launcher'] != 'none':
        with pytest.raises(ValueError, match=f'{strategy}.*{words}'):
            set_strategy(Config({**fields, 'strategy': strategy}), None)


@pytest.mark.parametrize('strategy', ['FSDP', 'zero', dict(type='DeepSpeedStrategy')])
def test_a_strategy_of_the_config_that_is_not_known_is_refused(tiny, fails, strategy):
    tiny.write_config(extra=f'strategy = {strategy!r}')
    last = fails('train', tiny.config)
    assert str(strategy) in last and 'ddp, fsdp, deepspeed' in last
    set_strategy(Config(dict(launcher='none', strategy=strategy, runner_type='FlexibleRunner')), None)


def test_a_config_shared_out_by_several_processes_trains_on_one(tiny, tools):
    tiny.write_config(extra="strategy = 'fsdp'\ntrain_cfg['max_epochs'] = 1")
    assert tools.train([tiny.config, '--no-validate']) == 0


def test_deepspeed_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(ValueError, match='pip install .*deepspeed'):
        set_strategy(Config(dict(launcher='pytorch')), 'deepspeed')


@pytest.mark.parametrize('options, words', [
    (dict(optimizer=dict(type='RMSprop')), 'RMSprop'),
    (dict(clip_grad=dict(type='value', clip_value=1.)), 'clip_value'),
    (dict(clip_grad=dict(max_norm=1., norm_type=1)), 'norm_type'),
    (dict(frozen=['weight']), 'weight')])
def test_what_deepspeed_would_train_otherwise_is_refused(options, words):
    model, options = nn.Linear(2, 2), dict(options)
    for name in options.pop('frozen', ()):
        model.get_parameter(name).requires_grad_(False)
    wrapper = build_optim_wrapper(model, {'optimizer': dict(type='SGD', lr=.1), **options})
    with pytest.raises(ValueError, match=f'deepspeed.*{words}'):
        ZeroOptimWrapper(model, wrapper)


def test_parameters_without_an_axis_are_named():
    model = nn.ModuleDict(dict(layer=nn.Linear(2, 2)))
    model.register_parameter('factor', nn.Parameter(torch.tensor(1.)))
    with pytest.raises(ValueError, match='factor'):
        fully_shard_out(SimpleNamespace(model=model, hooks=[], world_size=1))
