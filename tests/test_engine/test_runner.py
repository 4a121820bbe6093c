"""The Runner: hooks, loading and saving."""

import os
from pathlib import Path

import mmengine.runner
import pytest
import torch
from mmengine.hooks import CheckpointHook
from mmengine.registry import RUNNERS

from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.engine import hooks
from mmflatten.engine.runner import Runner
from mmflatten.engine.setup import build_runner, load_config


def built(tiny, extra: str = '') -> mmengine.runner.Runner:
    tiny.write_config(extra=extra)
    return build_runner(load_config(str(tiny.config)))


def kinds(runner: mmengine.runner.Runner) -> set[type]:
    return {type(hook) for hook in runner.hooks}


def test_default_hooks_can_be_changed_and_removed(tiny):
    ours = {hooks.CheckpointHook, hooks.LoggerHook, hooks.FiniteLossHook, hooks.CheckDataHook}
    runner = built(tiny, 'default_hooks = dict(_delete_=True, logger=dict(interval=7))')
    assert ours <= kinds(runner)
    assert next(hook for hook in runner.hooks if isinstance(hook, hooks.LoggerHook)).interval == 7
    chosen = built(
        tiny,
        """
        default_hooks = dict(
            finite_loss=None, checkpoint=dict(_delete_=True, type='CheckpointHook', interval=2))
        experiment_name = 'chosen'
    """,
    )
    assert CheckpointHook in kinds(chosen)
    assert not {
        hooks.CheckpointHook,
        hooks.FiniteLossHook,
    } & kinds(chosen)


def test_first_iteration_is_logged_before_the_first_interval(tiny, capsys):
    tiny.write_config(
        extra="default_hooks = dict(logger=dict(interval=3))\ntrain_cfg['max_epochs'] = 1"
    )
    build_runner(load_config(str(tiny.config))).train()
    printed = capsys.readouterr().out
    assert 0 <= printed.find('Iteration 1 of 4 ') < printed.find('Epoch(train) [1][3/4]')


def test_config_chooses_the_runner(tiny):
    assert type(built(tiny)) is Runner
    assert type(built(tiny, "runner_type, experiment_name = 'mmflatten.Runner', 'named'")) is Runner
    assert (
        type(built(tiny, "runner_type, experiment_name = 'mmengine.Runner', 'other'"))
        is mmengine.runner.Runner
    )
    assert RUNNERS.get('mmflatten.Runner') is Runner


def test_data_loader_without_workers_ignores_their_options():
    settings = dict(
        dataset=[1, 2],
        sampler=dict(type='DefaultSampler', shuffle=False),
        batch_size=1,
        prefetch_factor=4,
        persistent_workers=True,
    )
    for workers in (0, 1):
        loader = Runner.build_dataloader(dict(settings, num_workers=workers))
        assert loader.persistent_workers == bool(workers)
        assert (loader.prefetch_factor == 4) == bool(workers)


def test_only_fine_tuning_accepts_missing_weights(tiny, trained):
    runner = built(tiny, 'custom_hooks = []')
    weights = torch.load(trained, weights_only=False)['state_dict']
    weights.pop('head.fc.bias')
    path = tiny.folder / 'other_head.pth'
    torch.save(weights, path)
    with pytest.raises(RuntimeError, match=f'{path} .*missing: head.fc.bias'):
        runner.load_checkpoint(str(path))
    runner.load_checkpoint(str(path), strict=False)
    tuning = built(
        tiny, f"load_from, experiment_name = '{path}', 'tuning'\ntrain_cfg['max_epochs'] = 1"
    )
    tuning.train()
    assert tuning.iter == 4


def test_mmengines_checkpoint_hook_writes_atomically_too(tiny, monkeypatch):
    renamed = []
    replace = os.replace
    monkeypatch.setattr(
        os, 'replace', lambda *paths: (renamed.append(Path(paths[1]).name), replace(*paths))
    )
    built(
        tiny,
        """
        default_hooks = dict(checkpoint=dict(_delete_=True, type='CheckpointHook', interval=1))
        train_cfg['max_epochs'] = 1
    """,
    ).train()
    assert renamed == ['epoch_1.pth'] and not list(tiny.work_dir.glob('.*'))


def test_missing_weights_of_the_backbone_name_their_field_and_the_ways_on(tiny, tmp_path):
    gone = tmp_path / 'gone.pth'
    runner = built(
        tiny, f"model['backbone']['init_cfg'] = dict(type='Pretrained', checkpoint='{gone}')"
    )
    with pytest.raises(CheckpointError) as caught:
        runner.train()
    for word in (
        str(gone),
        'mmflatten convert',
        'model.backbone.init_cfg.checkpoint=',
        'model.backbone.init_cfg=None',
    ):
        assert word in str(caught.value)
