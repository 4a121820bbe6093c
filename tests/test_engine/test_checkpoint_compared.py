"""A checkpoint is compared with config and data wherever it is used: resuming, fine-tuning and
testing.
"""

import json
import re

import pytest
import torch


def resume(tools, tiny, folder, *options):
    """Resume in a folder and return the last checkpoint."""
    last = sorted(folder.glob('*.pth'), key=lambda path: int(path.stem.split('_')[1]))[-1]
    assert (
        tools.train(
            [
                tiny.config,
                '--work-dir',
                folder,
                '--no-validate',
                '--resume',
                last,
                '--cfg-options',
                *options,
            ]
        )
        == 0
    )
    return torch.load(folder / (folder / 'last_checkpoint').read_text(), weights_only=False)


def rates(output):
    """Learning rate of each iteration on the terminal, by its number in the training."""
    lines = re.findall(r'Epoch\(train\) +\[(\d+)\]\[ *(\d+)/(\d+)\] +lr: (\S+)', output)
    return {
        (int(epoch) - 1) * int(length) + int(step): float(rate)
        for epoch, step, length, rate in lines
    }


EVERY = ['default_hooks.logger.interval=1', 'default_hooks.checkpoint.interval=1']


@pytest.fixture
def two_epochs(tiny, tools, tmp_path):
    """A training of 2 of 4 epochs, stopped."""
    folder = tmp_path / 'stopped'
    assert (
        tools.train([tiny.config, '--work-dir', folder, '--no-validate', '--cfg-options', *EVERY])
        == 0
    )
    for name in ('epoch_3.pth', 'epoch_4.pth', 'last_checkpoint'):
        (folder / name).unlink()
    return folder


LONGER = ['train_cfg.max_epochs=8', 'param_scheduler.1.T_max=8', *EVERY]
CHANGES = {  # options of the resumed training: those it must continue like, and words of the line
    'longer': (
        LONGER,
        LONGER,
        ('max_epochs: 4 in the checkpoint, 8 now', 'T_max: 16 in the checkpoint, 32 now'),
    ),
    'rate': (
        ['optim_wrapper.optimizer.lr=0.01', *EVERY],
        ['optim_wrapper.optimizer.lr=0.01', *EVERY],
        ('lr: 0.05 in the checkpoint, 0.01 now',),
    ),
    'batch': (
        ['train_dataloader.batch_size=8', *EVERY],
        ['train_dataloader.batch_size=8', *EVERY],
        (
            'batch_size: 4 in the checkpoint, 8 now',
            'iterations per epoch: 4 in the checkpoint, 2 now',
        ),
    ),
    'warm-up': (
        ['param_scheduler.0.end=14', *EVERY],
        ['param_scheduler.0.end=14', *EVERY],
        ('end: 6 in the checkpoint, 14 now',),
    ),
    'images': (
        ['train_dataloader.dataset.indices=12', *EVERY],
        ['train_dataloader.dataset.indices=12', *EVERY],
        ('number of training images: 16 in the checkpoint, 12 now',),
    ),
}


@pytest.mark.parametrize('name', CHANGES)
def test_changed_settings_are_listed_and_take_effect(
    name, two_epochs, tiny, tools, tmp_path, capsys
):
    options, same, words = CHANGES[name]
    capsys.readouterr()
    resume(tools, tiny, two_epochs, *options)
    output = ''.join(capsys.readouterr())
    assert all(word in output for word in words), output
    resumed = rates(output)
    assert (
        tools.train(
            [tiny.config, '--work-dir', tmp_path / 'full', '--no-validate', '--cfg-options', *same]
        )
        == 0
    )
    full = rates(''.join(capsys.readouterr()))
    epoch = len(full) // (8 if name == 'longer' else 4)
    assert sorted(resumed) == list(range(2 * epoch + 1, len(full) + 1))
    assert all(resumed[step] == pytest.approx(full[step], rel=1e-6) for step in resumed)


def test_weight_decay_momentum_and_accumulation(two_epochs, tiny, tools, capsys):
    content = resume(
        tools,
        tiny,
        two_epochs,
        'optim_wrapper.optimizer.weight_decay=0.3',
        *EVERY,
        'optim_wrapper.optimizer.momentum=0.5',
        'optim_wrapper.accumulative_counts=2',
    )
    group = content['optimizer']['param_groups'][0]
    assert (group['weight_decay'], group['momentum']) == (0.3, 0.5)
    text = capsys.readouterr()
    for word in (
        'weight_decay: 0 in the checkpoint, 0.3 now',
        'momentum: 0.9',
        'accumulative_counts: 1',
    ):
        assert word in text.out + text.err


def test_resume_without_changes_says_nothing(two_epochs, tiny, tools, capsys):
    resume(tools, tiny, two_epochs, *EVERY)
    text = capsys.readouterr()
    assert 'differs from the checkpoint' not in text.out + text.err


def test_other_optimizer_is_refused(two_epochs, tiny, fails):
    line = fails(
        'train',
        tiny.config,
        '--resume',
        two_epochs / 'epoch_2.pth',
        '--cfg-options',
        "optim_wrapper.optimizer={'type':'AdamW','lr':0.001,'_delete_':True}",
    )
    assert 'optim_wrapper.optimizer.type: expected SGD' in line and 'load_from=' in line


def test_rate_in_a_checkpoint_of_mmengine(two_epochs, tiny, tools, capsys):
    """Without the project's settings, optimizer and schedulers are still compared."""
    path = two_epochs / 'epoch_2.pth'
    content = torch.load(path, weights_only=False)
    del content['meta']['settings']
    torch.save(content, path)
    capsys.readouterr()
    resume(tools, tiny, two_epochs, 'optim_wrapper.optimizer.lr=0.02', *EVERY)
    output = ''.join(capsys.readouterr())
    assert 'lr: 0.05 in the checkpoint, 0.02 now' in output and max(rates(output).values()) < 0.02


WRAPPED = {
    'DataParallel': lambda key: f'module.{key}',
    'compiled': lambda key: f'_orig_mod.{key}',
    'Lightning': lambda key: f'model.{key}',
    'compiled in DataParallel': lambda key: f'module._orig_mod.{key}',
    'Lightning, compiled': lambda key: f'model._orig_mod.{key}',
    'compiled DataParallel in Lightning': lambda key: f'model._orig_mod.module.{key}',
    'compiled backbone': lambda key: key.replace('backbone.', 'backbone._orig_mod.'),
    'compiled stage': lambda key: key.replace('stages.0.', 'stages.0._orig_mod.'),
}


@pytest.mark.parametrize('name', WRAPPED)
def test_wrappers_are_removed_and_said(name, trained, tiny, tools, tmp_path, capsys):
    weights = torch.load(trained, weights_only=False)['state_dict']
    torch.save(
        dict(state_dict={WRAPPED[name](key): value for key, value in weights.items()}),
        tmp_path / 'w.pth',
    )
    assert tools.test([tiny.config, tmp_path / 'w.pth']) == 0
    assert 'from the names of weights' in ''.join(capsys.readouterr())


def test_weights_that_are_not_finite_are_named(trained, tiny, fails, tmp_path):
    weights = torch.load(trained, weights_only=False)['state_dict']
    name = next(key for key in weights if key.endswith('qkv.weight'))
    weights[name][0, 0] = float('nan')
    torch.save(dict(state_dict=weights), tmp_path / 'w.pth')
    line = fails('test', tiny.config, tmp_path / 'w.pth')
    assert f'{name} has NaN or infinite values' in line and 'w.pth' in line


def test_lightning_file_with_other_entries_is_fine_tuned(trained, tiny, tools, tmp_path):
    weights = torch.load(trained, weights_only=False)['state_dict']
    torch.save(
        dict(
            state_dict={
                **{f'model.{key}': value for key, value in weights.items()},
                'criterion.weight': torch.ones(2),
            }
        ),
        tmp_path / 'w.pth',
    )
    assert (
        tools.train(
            [
                tiny.config,
                '--no-validate',
                '--cfg-options',
                f'load_from={tmp_path}/w.pth',
                'optim_wrapper.optimizer.lr=0',
                'train_cfg.max_epochs=1',
            ]
        )
        == 0
    )
    after = torch.load(tiny.work_dir / 'epoch_1.pth', weights_only=False)['state_dict']
    name = 'backbone.stages.0.blocks.0.mlp.fc1.weight'
    name = (
        name
        if name in weights
        else next(key for key in weights if key.endswith('weight') and 'backbone' in key)
    )
    assert after[name].equal(weights[name])


def test_fine_tuning_from_another_architecture_is_refused(trained, tiny, fails, tmp_path):
    """The head has the same classes, so that its bias would load, and nothing else."""
    line = fails(
        'train',
        tiny.config,
        '--cfg-options',
        f'load_from={trained}',
        'model.backbone.arch.embed_dims=12',
        'model.head.in_channels=24',
    )
    assert 'backbone' in line and 'of another shape' in line and str(trained) in line


def test_init_cfg_of_a_compiled_backbone(trained, tiny, tools, tmp_path):
    weights = torch.load(trained, weights_only=False)['state_dict']
    for start in ('backbone._orig_mod.', '_orig_mod.backbone.', 'module._orig_mod.backbone.'):
        renamed = {
            key.replace('backbone.', start): value
            for key, value in weights.items()
            if key.startswith('backbone.')
        }
        torch.save(dict(state_dict=renamed), tmp_path / 'w.pth')
        given = f"{{'type':'Pretrained','checkpoint':'{tmp_path}/w.pth','prefix':'backbone.'}}"
        status = tools.train(
            [
                tiny.config,
                '--no-validate',
                '--cfg-options',
                'train_cfg.max_epochs=1',
                f'model.backbone.init_cfg={given}',
            ]
        )
        assert status == 0


def test_classifier_with_other_classes(trained, tiny, fails, tmp_path):
    line = fails(
        'test',
        tiny.config,
        trained,
        '--cfg-options',
        "test_dataloader.dataset.metainfo.classes=['light','dark']",
    )
    assert 'test_dataloader.dataset' in line and 'dark, light' in line and 'metainfo' in line


def test_resumed_classes_must_be_those_of_the_checkpoint(trained, tiny, fails):
    line = fails(
        'train',
        tiny.config,
        '--resume',
        trained,
        '--no-validate',
        '--cfg-options',
        "train_dataloader.dataset.metainfo.classes=['light','dark']",
    )
    assert 'train_dataloader.dataset' in line and str(trained) in line


@pytest.mark.parametrize('classes', [('b', 'a', 'c'), ('a', 'b', 'd')])
def test_segmentor_with_other_classes(classes, segmentation, tools, fails):
    assert (
        tools.train([segmentation.config, '--cfg-options', 'default_hooks.checkpoint.interval=1'])
        == 0
    )
    checkpoint = segmentation.folder / 'run' / 'iter_1.pth'
    assert tools.test([segmentation.config, checkpoint]) == 0
    line = fails(
        'test',
        segmentation.config,
        checkpoint,
        '--cfg-options',
        f'test_dataloader.dataset.metainfo.classes={[*classes]!r}'.replace(' ', ''),
    )
    assert 'test_dataloader.dataset' in line and ', '.join(classes) in line


TESTING = """
test_dataloader = dict(train_dataloader, dataset=dict(train_dataloader['dataset'], test_mode=True))
test_dataloader['dataset']['pipeline'] = [
    pipeline[0], dict(type='Resize', scale=(64, 64)), *pipeline[1:]]
test_dataloader['sampler'] = dict(type='DefaultSampler', shuffle=False)
test_evaluator = dict(type='CocoMetric', ann_file='{data}/instances.json', metric='bbox')
test_cfg = dict(type='TestLoop')
"""


def test_detector_with_another_order(detection, tools, fails):
    """The advice of the message about the order of a file is followed, and refused all the same."""
    detection.config.write_text(
        detection.config.read_text() + TESTING.replace('{data}', str(detection.data))
    )
    assert tools.train([detection.config]) == 0
    checkpoint = detection.folder / 'run' / 'epoch_1.pth'
    assert tools.test([detection.config, checkpoint]) == 0
    content = json.loads(detection.annotations.read_text())
    content['categories'].reverse()
    detection.annotations.write_text(json.dumps(content))
    line = fails('test', detection.config, checkpoint)
    assert 'reorder its categories' in line
    line = fails(
        'test',
        detection.config,
        checkpoint,
        '--cfg-options',
        "test_dataloader.dataset.metainfo.classes=['dog','cat']",
    )
    assert 'test_dataloader.dataset' in line and 'cat, dog' in line
