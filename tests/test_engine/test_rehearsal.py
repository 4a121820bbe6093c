"""One training step and one validation batch before the first epoch, and in `check`."""

import random
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.hooks import Hook

from mmflatten.cli.check import main as check
from mmflatten.engine.rehearsal import rehearse
from mmflatten.engine.setup import build_runner, load_config

MOSAIC = """
inner = train_dataloader['dataset']
inner['pipeline'] = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True)]
train_dataloader['dataset'] = dict(
    type='MultiImageMixDataset', dataset=inner,
    pipeline=[{steps}, dict(type='PackDetInputs')])
"""
VALIDATION = """
val_dataloader = dict(
    batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(train_dataloader['dataset'], test_mode=True))
val_evaluator = dict(type='IoUMetric')
val_cfg = dict(type='ValLoop')
train_cfg = dict(type='IterBasedTrainLoop', max_iters=1, val_interval=1)
"""


def append(scenes, text: str) -> str:
    scenes.config.write_text(scenes.config.read_text() + text)
    return str(scenes.config)


def both(config: str, fails, capsys) -> list[str]:
    """The message of `check` and that of `train`."""
    capsys.readouterr()
    assert check([config]) == 1
    reported = capsys.readouterr().out
    return [reported, fails('train', config)]


def test_transform_of_a_wrapper_is_named_with_its_samples(detection, fails, capsys):
    broken = "dict(type='Mosaic', img_scale=(64, 64)), dict(type='CopyPaste')"
    config = append(detection, MOSAIC.format(steps=broken))
    for message in both(config, fails, capsys):
        assert 'train_dataloader.dataset.pipeline.1, CopyPaste' in message
        assert f'{detection.data}/images/1.png' in message


def test_wrapper_without_packing_is_named(detection, fails, capsys):
    config = append(detection, MOSAIC.format(steps="dict(type='RandomFlip', prob=0.5)"))
    text = detection.config.read_text().replace(", dict(type='PackDetInputs')])\n", '])\n')
    detection.config.write_text(text)
    for message in both(config, fails, capsys):
        assert 'train_dataloader.dataset.pipeline' in message and 'PackDetInputs' in message


def test_loss_that_fails_is_named(segmentation, fails, capsys):
    config = append(
        segmentation,
        "\nmodel['decode_head']['loss_decode'] = dict(\n"
        "    type='CrossEntropyLoss', class_weight=[1.0, 2.0])\n",
    )
    for message in both(config, fails, capsys):
        assert 'model.decode_head.loss_decode (CrossEntropyLoss)' in message


def sizes(scenes, *shapes):
    for number, shape in enumerate(shapes, 1):
        cv2.imwrite(str(scenes.data / 'images' / f'{number}.png'), np.zeros((*shape, 3), np.uint8))
        cv2.imwrite(str(scenes.data / 'maps' / f'{number}.png'), np.ones(shape, np.uint8))


def test_validation_in_batches_of_several_sizes_is_named(segmentation, fails, capsys):
    sizes(segmentation, (64, 64), (64, 48))
    for message in both(append(segmentation, VALIDATION), fails, capsys):
        assert 'val_dataloader.batch_size' in message
        assert '64 x 64' in message and '48 x 64' in message


def test_validation_in_batches_of_one_size_passes(segmentation, tools):
    assert tools.train([append(segmentation, VALIDATION)]) == 0


def test_padding_of_most_pixels_is_a_warning(segmentation, tools, capsys):
    config = append(segmentation, "\nmodel['data_preprocessor']['size'] = (160, 160)\n")
    assert check([config]) == 1
    assert 'data_preprocessor.size (160, 160): 84%' in capsys.readouterr().out
    assert tools.train([config]) == 0
    captured = capsys.readouterr()
    assert 'data_preprocessor.size (160, 160): 84%' in captured.out + captured.err


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}


class Kept(Hook):
    """Compare weights, random numbers and files before the first step with those before the
    rehearsal.
    """

    priority = 'LOWEST'

    def before_train(self, runner) -> None:
        weights = {name: value.clone() for name, value in runner.model.state_dict().items()}
        torch.manual_seed(3)
        np.random.seed(4)
        random.seed(5)
        before = torch.rand(1), np.random.rand(), random.random()
        files = contents(Path(runner.work_dir))
        torch.manual_seed(3)
        np.random.seed(4)
        random.seed(5)
        assert rehearse(runner) == []
        assert contents(Path(runner.work_dir)) == files
        assert (torch.rand(1), np.random.rand(), random.random()) == before
        for name, value in runner.model.state_dict().items():
            assert torch.equal(value, weights[name])
        assert all(parameter.grad is None for parameter in runner.model.parameters())
        self.called = True


def test_rehearsal_changes_neither_the_run_nor_its_random_numbers(segmentation):
    runner, kept = build_runner(load_config(append(segmentation, VALIDATION))), Kept()
    runner.register_hook(kept)
    runner.train()
    assert kept.called


def test_check_writes_no_files(segmentation, tmp_path, monkeypatch):
    config = append(segmentation, VALIDATION)
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    check([config])
    assert contents(tmp_path) == before


def test_rehearsal_can_be_switched_off(segmentation, fails):
    config = append(
        segmentation,
        "\nmodel['decode_head']['loss_decode'] = dict(\n"
        "    type='CrossEntropyLoss', class_weight=[1.0, 2.0])\n"
        'default_hooks = dict(data_checks=dict(rehearse=False))\n',
    )
    assert 'model.decode_head' not in fails('train', config)
