"""Training on several processes equals training on one, with every strategy, and resumes exactly."""
import signal
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from torch import nn

from mmflatten.engine.checkpoints.reading import load_from_local
from mmflatten.engine.strategies import set_strategy, shard

# Only the order of the samples is random, and no schedule or average counts iterations.
DETERMINISTIC = '''
    custom_imports = dict(imports=['losses_recorder'])
    custom_hooks = [dict(type='LossesRecorder')]
    model['backbone']['drop_path_rate'] = 0.
    train_dataloader['dataset']['pipeline'] = test_pipeline
    train_cfg['max_epochs'] = 1
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

        def after_val_epoch(self, runner, metrics=None):
            self.accuracy = metrics['accuracy/top1']

        def after_train(self, runner):
            torch.save((self.losses, self.accuracy), f'{runner.work_dir}/recorded_{runner.rank}.pt')
'''
PART_RECORDER = '''
    import torch
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module(force=True)
    class PartRecorder(Hook):
        def after_train(self, runner):
            weight = runner.model.head.fc.weight
            part = weight.to_local() if hasattr(weight, 'to_local') else weight
            torch.save(part.detach().clone(), f'{runner.work_dir}/part_{runner.rank}.pt')
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
    train_cfg['max_epochs'] = 2
    custom_imports = dict(imports=['rank_killer'])
    custom_hooks = [dict(type='EMAHook', momentum=0.1), dict(type='RankKiller')]
'''


def assert_equal(one: Path, other: Path, **tolerance: float) -> None:
    """Compare all training state in two checkpoints."""
    one, other = (load_from_local(str(path)) for path in (one, other))
    assert one.keys() == other.keys() and one['param_schedulers'] == other['param_schedulers']
    assert one['optimizer']['param_groups'] == other['optimizer']['param_groups']
    for entry in ('state_dict', 'ema_state_dict'):
        torch.testing.assert_close(dict(one.get(entry, {})), dict(other.get(entry, {})), **tolerance)
    torch.testing.assert_close(one['optimizer']['state'], other['optimizer']['state'], **tolerance)


def recorded(folder: Path, processes: int) -> tuple[torch.Tensor, set[float]]:
    """Return the losses, one row per process, and the accuracies that the processes computed."""
    losses, accuracies = zip(*(torch.load(folder / f'recorded_{rank}.pt') for rank in range(processes)))
    return torch.tensor(losses), set(accuracies)


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.full)])
def test_strategies_equal_one_process_with_the_same_total_batch(tiny, tools, train_on, monkeypatch, processes):
    (tiny.folder / 'losses_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC)
    alone, steps = tiny.folder / 'alone', 4 // processes
    assert tools.train([tiny.config, '--work-dir', alone, '--seed', 5, '--auto-scale-lr']) == 0
    losses, accuracy = recorded(alone, 1)
    for strategy in ('ddp', 'fsdp'):
        folder = tiny.folder / strategy
        assert set(train_on(processes, tiny.config, '--work-dir', folder, '--seed', 5, '--auto-scale-lr', '--strategy',
                            strategy, '--cfg-options', 'train_dataloader.batch_size=1',
                            f'optim_wrapper.accumulative_counts={steps}')) == {0}
        # Gradients are summed in another order. The losses of a single process differ from the mean by 5e-3.
        seen, accuracies = recorded(folder, processes)
        torch.testing.assert_close(seen.mean(0).view(-1, steps).mean(1), losses[0], rtol=1e-5, atol=1e-6)
        assert accuracies == accuracy
        assert_equal(alone / 'epoch_1.pth', folder / 'epoch_1.pth', rtol=1e-5, atol=2e-6)


def test_hybrid_sharding_equals_one_process(tiny, tools, train_on, monkeypatch):
    (tiny.folder / 'losses_recorder.py').write_text(dedent(RECORDER))
    (tiny.folder / 'part_recorder.py').write_text(dedent(PART_RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC + """
    custom_imports['imports'].append('part_recorder')
    custom_hooks += [dict(type='EMAHook', momentum=0.1), dict(type='PartRecorder')]
    """)
    alone, hybrid = tiny.folder / 'alone', tiny.folder / 'hybrid'
    argv = [tiny.config, '--seed', 5, '--auto-scale-lr', '--work-dir']
    assert tools.train([*argv, alone]) == 0
    assert train_on(4, *argv, hybrid, '--strategy', 'fsdp', '--cfg-options', 'train_dataloader.batch_size=1',
                    'fsdp.shard_size=2', 'default_hooks.checkpoint.sharded=True') == [0] * 4
    torch.testing.assert_close(recorded(hybrid, 4)[0].mean(0), recorded(alone, 1)[0][0], rtol=1e-5, atol=1e-6)
    assert_equal(alone / 'epoch_1.pth', hybrid / 'epoch_1.sharded', rtol=1e-5, atol=2e-6)
    parts, whole = [torch.load(hybrid / f'part_{rank}.pt') for rank in range(4)], torch.load(alone / 'part_0.pt')
    assert len(whole) == 2 and all(len(part) == 1 for part in parts)
    for copy in (parts[:2], parts[2:]):
        torch.testing.assert_close(torch.cat(copy), whole, rtol=1e-5, atol=2e-6)


def test_fsdp_with_amp_equals_one_process_with_amp(tiny, tools, train_on, monkeypatch):
    (tiny.folder / 'losses_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC)
    alone, sharded = tiny.folder / 'alone', tiny.folder / 'sharded'
    argv = [tiny.config, '--amp', '--seed', 5, '--work-dir']
    assert tools.train([*argv, alone]) == 0
    assert train_on(2, *argv, sharded, '--strategy', 'fsdp', '--cfg-options', 'train_dataloader.batch_size=2') == [0, 0]
    one, two = recorded(alone, 1)[0][0], recorded(sharded, 2)[0].mean(0)
    # The first loss is computed with equal weights (measured 6e-8); without --amp it differs by 5.5e-5. Later losses
    # differ because gradients are rounded in another order (measured 2e-5).
    torch.testing.assert_close(two[0], one[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(two, one, rtol=0, atol=2e-4)
    weights = load_from_local(str(sharded / 'epoch_1.pth'))['state_dict']
    assert not any(weight.dtype is torch.bfloat16 for weight in weights.values())


def test_mp_policy_computes_in_half_precision_and_keeps_whole_weights(tiny, tools, train_on, monkeypatch, capfd):
    (tiny.folder / 'losses_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC)
    alone, sharded = tiny.folder / 'alone', tiny.folder / 'sharded'
    argv = [tiny.config, '--seed', 5, '--work-dir']
    assert tools.train([*argv, alone]) == 0
    policy = ['--strategy', 'fsdp', '--cfg-options', 'train_dataloader.batch_size=2',
              'fsdp.mp_policy.param_dtype=bfloat16', 'fsdp.mp_policy.reduce_dtype=float32']
    assert train_on(2, *argv, sharded, *policy) == [0, 0]
    one, two = recorded(alone, 1)[0][0], recorded(sharded, 2)[0]
    assert torch.equal(two, two.bfloat16().float())  # the losses are computed in bfloat16, with 8 bits
    torch.testing.assert_close(two.mean(0), one, rtol=2**-7, atol=0)
    weights = load_from_local(str(sharded / 'epoch_1.pth'))['state_dict']
    assert not any(torch.equal(weight, weight.bfloat16().float()) for name, weight in weights.items()
                   if name.endswith('fc.weight'))
    assert train_on(2, *argv, sharded, '--amp', *policy) == [1, 1] and 'fsdp.mp_policy' in capfd.readouterr().err


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.full)])
def test_fsdp_killed_while_saving_shards_resumes_bit_for_bit(tiny, tools, train_on, monkeypatch, processes):
    (tiny.folder / 'rank_killer.py').write_text(dedent(KILLER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=USE_KILLER)
    straight = tiny.folder / 'straight'
    argv = [tiny.config, '--strategy', 'fsdp', '--cfg-options', f'train_dataloader.batch_size={8 // processes}']
    assert set(train_on(processes, *argv, '--work-dir', straight, '--seed', 3)) == {0}

    argv.append('default_hooks.checkpoint.sharded=True')
    monkeypatch.setenv('KILL_SAVING_AT', '4')
    assert train_on(processes, *argv, '--seed', 3) == [-signal.SIGKILL, *[1] * (processes - 1)]
    assert (tiny.work_dir / '.epoch_2.sharded.part').exists() and not (tiny.work_dir / 'epoch_2.sharded').exists()
    monkeypatch.delenv('KILL_SAVING_AT')
    assert set(train_on(processes, *argv, '--resume')) == {0}  # the seed comes from the checkpoint
    assert not list(tiny.work_dir.glob('.*'))

    last = tiny.work_dir / 'epoch_2.sharded'
    assert len(list(last.glob('*.distcp'))) == processes
    assert_equal(straight / 'epoch_2.pth', last, rtol=0, atol=0)
    assert tools.test([tiny.config, last]) == 0


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.full)])
def test_fsdp_resumes_from_and_on_another_number_of_processes(tiny, tools, train_on, processes):
    tiny.write_config(extra=DETERMINISTIC + """
    custom_imports = dict()
    custom_hooks = [dict(type='EMAHook', momentum=0.1)]
    strategy = 'fsdp'  # ignored by the runs without a launcher
    train_cfg['max_epochs'] = 3
    optim_wrapper = dict(
        optimizer=dict(type='AdamW', lr=0.01, eps=1e-3, weight_decay=0.1), paramwise_cfg=dict(norm_decay_mult=0.))
    param_scheduler = [dict(type='CosineAnnealingLR', T_max=3, end=3)]
    """)
    alone, sharded = tiny.folder / 'alone', ['--cfg-options', 'default_hooks.checkpoint.sharded=True']
    assert tools.train([tiny.config, '--work-dir', alone, '--seed', 3]) == 0

    # From one process to several, with a file, and back to one, with a sharded checkpoint.
    assert set(train_on(processes, tiny.config, '--resume', alone / 'epoch_1.pth', *sharded, 'train_cfg.max_epochs=2',
                        f'train_dataloader.batch_size={4 // processes}')) == {0}
    assert_equal(alone / 'epoch_2.pth', tiny.work_dir / 'epoch_2.sharded', rtol=1e-5, atol=2e-6)
    assert tools.train([tiny.config, '--resume']) == 0
    assert_equal(alone / 'epoch_3.pth', tiny.work_dir / 'epoch_3.pth', rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize('fields, words', [
    (dict(launcher='none'), '--strategy fsdp.*dist_train.sh'),
    (dict(launcher='pytorch', find_unused_parameters=True), 'find_unused_parameters'),
    (dict(launcher='pytorch', model_wrapper_cfg=dict(find_unused_parameters=True)), 'find_unused_parameters'),
    (dict(launcher='pytorch', runner_type='mmengine.Runner'), 'runner_type.*mmengine.Runner')])
def test_fsdp_rejects_a_config_that_it_cannot_train(fields, words):
    with pytest.raises(ValueError, match=words):
        set_strategy(Config(fields), 'fsdp')
    if fields['launcher'] != 'none':
        with pytest.raises(ValueError, match=words):
            set_strategy(Config({**fields, 'strategy': 'fsdp'}), None)


@pytest.mark.parametrize('fields, words', [
    (dict(size=2), 'fsdp: expected shard_size and mp_policy, got size'),
    (dict(mp_policy=dict(param_dtype='bf16')), 'fsdp.mp_policy: .*got param_dtype=bf16'),
    (dict(mp_policy=dict(dtype='bfloat16')), 'fsdp.mp_policy: .*got dtype=bfloat16')])
def test_invalid_fields_of_fsdp_are_named(fields, words):
    with pytest.raises(ValueError, match=words):
        set_strategy(Config(dict(launcher='pytorch', fsdp=fields)), 'fsdp')


@pytest.mark.parametrize('strategy, words', [
    ('FSDP', 'ddp or fsdp, got FSDP'), ('deepspeed', 'use fsdp'), ('zero', 'use fsdp'),
    (dict(type='DeepSpeedStrategy'), 'DeepSpeedStrategy')])
def test_unknown_strategy_is_rejected(strategy, words):
    for fields, option in ((dict(launcher='pytorch'), strategy), (dict(launcher='none', strategy=strategy), None)):
        with pytest.raises(ValueError, match=f'strategy: .*{words}'):
            set_strategy(Config(fields), option)
    set_strategy(Config(dict(launcher='none', strategy=strategy, runner_type='FlexibleRunner')), None)


def test_fsdp_rejects_scalar_parameters():
    model = nn.ModuleDict(dict(layer=nn.Linear(2, 2)))
    model.register_parameter('factor', nn.Parameter(torch.tensor(1.)))
    with pytest.raises(ValueError, match='factor'):
        shard(SimpleNamespace(model=model, hooks=[], world_size=1))


def test_shard_size_divides_the_number_of_processes():
    runner = SimpleNamespace(model=nn.Linear(2, 2), cfg=Config(dict(fsdp=dict(shard_size=3))), world_size=8)
    with pytest.raises(ValueError, match='fsdp.shard_size: expected a divisor of 8.*got 3'):
        shard(runner)
