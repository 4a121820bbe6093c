"""Invalid configs, data and checkpoints end with status 1 and a last line that names field, file
and value.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from mmflatten.checkpoints.run_files import what_is_wrong
from mmflatten.engine.models import require_matching_channels
from mmflatten.models import backbones


@dataclass
class Case:
    """A run made invalid by `spoil` or `options`, and `words` of the last line. {run} is the folder
    of the run.
    """

    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    spoil: Callable[[Any], object] = lambda run: None


CLASSIFIER = {
    'unknown argument': Case(('atn_types',), ('model.backbone.atn_types=LS',)),
    'unknown type': Case(
        ('mmflatten.FlattenSwin', 'model registry'), ('model.backbone.type=mmflatten.FlattenSwin',)
    ),
    'too many letters': Case(('attn_types', 'LLS', '2'), ('model.backbone.attn_types=LLS',)),
    'unknown letter': Case(('attn_types', 'LX', 'X'), ('model.backbone.attn_types=LX',)),
    'width and heads': Case(
        ('embed_dims', '9', 'num_heads'),
        ('model.backbone.arch.embed_dims=9', 'model.backbone.arch.num_heads=(2,2)'),
    ),
    'unknown scope': Case(
        ('default_scope', 'mmpretrian', 'mmpretrain'), ('default_scope=mmpretrian',)
    ),
    'channels of the head': Case(
        ('model.head.in_channels (20)', '16'), ('model.head.in_channels=20',)
    ),
    'fewer classes than data': Case(
        ('model.head.num_classes', 'expected 2', 'got 1'),
        ('model.head.num_classes=1', 'data_preprocessor.num_classes=1'),
    ),
    'epochs of another loop': Case(
        ('by_epoch=False',), ('default_hooks.checkpoint.by_epoch=False',)
    ),
    'unknown metric': Case(
        ('save_best (mAP)', 'accuracy/top1'), ('default_hooks.checkpoint.save_best=mAP',)
    ),
    'no data': Case(
        ('{run}/digits', 'mmflatten data digits --out {run}/digits'),
        ('train_dataloader.dataset.data_root={run}/digits',),
    ),
    'no images': Case(
        ('CustomDataset', 'data_root={run}/data'),
        (),
        lambda run: [image.unlink() for image in run.images],
    ),
    'a class folder missing': Case(
        ('CustomDataset', 'data_root={run}/data'),
        ("train_dataloader.dataset.metainfo.classes=('a','b')",),
        lambda run: shutil.rmtree(run.data / 'dark'),
    ),
    'NaN loss': Case(
        ('at iteration 1', 'loss=nan', 'none yet'),
        ('optim_wrapper.optimizer.lr=0.1',),
        lambda run: run.write_config(extra="model['head']['loss']['loss_weight'] = float('nan')"),
    ),
}
DETECTOR = {
    'channels of the neck': Case(
        ('model.neck.in_channels ([8, 16, 30, 64])', '[8, 16, 32, 64]'),
        ('model.neck.in_channels=[8,16,30,64]',),
    ),
    'other number of classes': Case(
        ('model.bbox_head.num_classes', 'expected 2', 'got 3'), ('model.bbox_head.num_classes=3',)
    ),
    'no images': Case(
        ('CocoDataset', 'ann_file=instances.json'), (), lambda run: run.annotate(images=0)
    ),
    'all images filtered out': Case(
        ('CocoDataset', 'filter_cfg'), ('train_dataloader.dataset.filter_cfg.min_size=100',)
    ),
    'no annotations': Case(
        ('CocoDataset', '{run}/data/instances.json'), (), lambda run: run.annotations.unlink()
    ),
    'annotations are not JSON': Case(
        ('ann_file=instances.json', 'line 1 column 1'),
        (),
        lambda run: run.annotations.write_text('images: []'),
    ),
    'annotations are a list': Case(
        ('ann_file=instances.json', 'list'), (), lambda run: run.annotations.write_text('[]')
    ),
    'annotations without a part': Case(
        ('ann_file=instances.json', 'categories'), (), lambda run: run.annotations.write_text('{}')
    ),
    'box outside its image': Case(
        ('annotation 1', '{run}/data/instances.json', '[70, 4, 20, 20]', '64 x 64'),
        (),
        lambda run: run.annotate(bbox=[70, 4, 20, 20]),
    ),
    'unknown category': Case(
        ('annotation 1', '{run}/data/instances.json', 'category_id 7', '(1, 2)'),
        (),
        lambda run: run.annotate(category_id=7),
    ),
    'unknown image': Case(('annotation 1', 'image_id 9'), (), lambda run: run.annotate(image_id=9)),
    'class without a category': Case(
        ('no category dog', 'bird, cat'), (), lambda run: run.annotate(categories=('cat', 'bird'))
    ),
    'wrapped data set': Case(
        ('annotation 1', 'image_id 9'),
        (),
        lambda run: (
            run.annotate(image_id=9),
            run.config.write_text(
                run.config.read_text()
                + "\ntrain_dataloader['dataset'] = dict(type='RepeatDataset', times=2, "
                "dataset=train_dataloader['dataset'])\n"
            ),
        ),
    ),
    'metric without annotations': Case(
        ('{run}/data/gone.json', 'does not exist'),
        (
            'val_cfg.type=ValLoop',
            'val_evaluator.type=CocoMetric',
            'val_evaluator.ann_file={run}/data/gone.json',
        ),
        lambda run: run.config.write_text(
            run.config.read_text() + '\nval_dataloader = train_dataloader\n'
        ),
    ),
}


def check(case: Case, run: Any, fails: Callable) -> None:
    case.spoil(run)
    options = [option.replace('{run}', str(run.folder)) for option in case.options]
    line = fails('train', run.config, *(['--cfg-options', *options] if options else []))
    assert all(word.replace('{run}', str(run.folder)) in line for word in case.words), line


@pytest.mark.parametrize('name', CLASSIFIER)
def test_invalid_classifier_run_names_the_cause(name, tiny, fails):
    check(CLASSIFIER[name], tiny, fails)


@pytest.mark.parametrize('name', DETECTOR)
def test_invalid_detector_run_names_the_cause(name, detection, fails):
    check(DETECTOR[name], detection, fails)


def test_segmentor_without_images_is_rejected(segmentation, fails):
    for path in (segmentation.data / 'images').iterdir():
        path.unlink()
    line = fails('train', segmentation.config)
    assert 'BaseSegDataset' in line and f'data_root={segmentation.data}' in line


def test_label_map_with_unknown_class_is_named_and_ignored_labels_pass(segmentation, tools, fails):
    path = segmentation.data / 'maps' / '2.png'
    labels = np.full((64, 64), 1, np.uint8)
    labels[:9] = 255
    cv2.imwrite(str(path), labels)
    assert tools.train([segmentation.config]) == 0
    labels[20, 20] = 4
    cv2.imwrite(str(path), labels)
    line = fails('train', segmentation.config)
    assert f'{path} has the label 4' in line and '3 classes' in line


@pytest.mark.parametrize('workers', [0, 1])
@pytest.mark.parametrize('fault', ['no image', 'nothing', 'label'])
def test_broken_sample_is_named_with_and_without_workers(tiny, fails, workers, fault):
    image = tiny.data / 'gone.png' if fault == 'nothing' else tiny.images[5]
    label = 5 if fault == 'label' else 1
    if fault == 'no image':
        image.write_bytes(b'no image')
    others = ''.join(f'{path} 0\n' for path in tiny.images if path != image)
    (tiny.folder / 'list.txt').write_text(f'{others}{image} {label}\n')
    line = fails(
        'train',
        tiny.config,
        '--cfg-options',
        f'train_dataloader.num_workers={workers}',
        f'train_dataloader.dataset.ann_file={tiny.folder}/list.txt',
    )
    assert str(image) in line and ('label 5' in line) == (fault == 'label'), line


def test_unused_category_and_box_across_the_border_are_accepted(detection, tools):
    detection.annotate(categories=('cat', 'bird', 'dog'), bbox=[50, 4, 20, 20])
    assert tools.train([detection.config]) == 0


def test_checkpoint_error_names_file_and_reason(tiny, fails, trained):
    other = ['--cfg-options', 'model.backbone.attn_types=SS']
    for tool, arguments in (('test', [trained]), ('train', ['--resume', trained])):
        line = fails(tool, tiny.config, *arguments, *other)
        assert str(trained) in line
        assert 'missing: backbone.stages.0.' in line
        assert 'not in the model: backbone' in line
    wider = ['--cfg-options', 'model.head.num_classes=3', 'data_preprocessor.num_classes=3']
    assert 'head.fc.weight (2, 16) instead of (3, 16)' in fails(
        'test', tiny.config, trained, *wider
    )

    paths = {
        name: tiny.folder / f'{name}.pth'
        for name in ('strange', 'cut', 'list', 'nowhere', 'weights', 'wide')
    }
    weights = torch.load(trained, weights_only=False)['state_dict']
    torch.save(dict(weight=torch.zeros(3)), paths['strange'])
    torch.save([1, 2], paths['list'])
    torch.save(dict(state_dict=weights), paths['weights'])
    torch.save(
        {
            name.removeprefix('backbone.'): value.repeat(2) if value.dim() == 1 else value
            for name, value in weights.items()
            if name.startswith('backbone.')
        },
        paths['wide'],
    )
    paths['cut'].write_bytes(trained.read_bytes()[:-2000])
    assert f'{paths["weights"]} cannot be resumed' in fails(
        'train', tiny.config, '--resume', paths['weights']
    )
    for name, word in (('cut', 'truncated'), ('list', 'list'), ('nowhere', 'does not exist')):
        line = fails('test', tiny.config, paths[name])
        assert f'checkpoint {paths[name]}' in line and word in line
    init = ['model.backbone.init_cfg.type=Pretrained', 'model.backbone.init_cfg.checkpoint']
    for options, name, word in (
        (['load_from'], 'strange', 'keys are weight'),
        (init, 'strange', 'missing stages.0.'),
        (init, 'cut', 'truncated'),
        (init, 'wide', '[16]'),
    ):
        line = fails(
            'train', tiny.config, '--cfg-options', *options[:-1], f'{options[-1]}={paths[name]}'
        )
        assert f'checkpoint {paths[name]}' in line and word in line, line


def test_nan_loss_keeps_the_last_good_checkpoint(tiny, fails):
    exploding = (
        "param_scheduler = [dict(type='MultiStepLR', by_epoch=True, milestones=[1], gamma=1e30)]\n"
    )
    for hooks, words in (
        ('', 'at iteration 6 (epoch 2): loss=nan'),
        ('default_hooks = dict(finite_loss=None)', 'NaN or infinite at iteration 8'),
    ):
        tiny.write_config(extra=exploding + hooks)
        line = fails('train', tiny.config)
        good = tiny.work_dir / 'epoch_1.pth'
        assert words in line and str(good) in line
        assert list(tiny.work_dir.glob('*.pth')) == [good] and what_is_wrong(good) is None
        assert all(
            weight.isfinite().all()
            for weight in torch.load(good, weights_only=False)['state_dict'].values()
        )


ADVICE = {  # options that the message and docs/faq.md advise
    'a lower rate': ['optim_wrapper.optimizer.lr=1e-32'],
    'no such schedule': ['param_scheduler.0.gamma=0.1'],
    'clipped gradients': ['optim_wrapper.clip_grad.max_norm=1', 'optim_wrapper.optimizer.lr=1e-32'],
}


@pytest.mark.parametrize('name', ADVICE)
def test_advice_after_a_nan_loss_works_as_written(name, tiny, tools, fails, capsys):
    tiny.write_config(
        extra=(
            "param_scheduler = [dict(type='MultiStepLR', by_epoch=True, milestones=[1],"
            ' gamma=1e30)]'
        )
    )
    line = fails('train', tiny.config)
    assert 'Lower the learning rate, clip gradients' in line
    assert '--resume' in line
    assert 'epoch_1.pth' in line
    assert tools.train([tiny.config, '--resume', '--cfg-options', *ADVICE[name]]) == 0
    output = ''.join(capsys.readouterr())
    assert 'take effect from iteration 5' in output
    assert ADVICE[name][0].split('=')[0].split('.')[-1] in output
    last = torch.load(tiny.work_dir / 'epoch_4.pth', weights_only=False)
    assert last['meta']['iter'] == 16
    assert all(weight.isfinite().all() for weight in last['state_dict'].values())


def test_invalid_option_is_rejected(tiny, fails, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    monkeypatch.delenv('RANK', raising=False)
    (tiny.folder / 'folder.pkl').mkdir()
    for tool, option, word in (
        ('train', ['--amp', 'float16'], 'float16'),
        ('train', ['--auto-scale-lr'], 'auto_scale_lr.base_batch_size'),
        ('train', ['--launcher', 'pytorch'], 'tools/dist_train.sh'),
        ('test', ['x.pth', '--out', 'out.txt'], 'got out.txt'),
        ('test', ['x.pth', '--out', tiny.folder / 'folder.pkl'], f'{tiny.folder}/folder.pkl'),
    ):
        assert word in fails(tool, tiny.config, *option)


@pytest.mark.parametrize(
    'arguments',
    [
        ['--epochs', '3'],
        ['--cfg-options', 'a.b=1', 'train_cfg.max_epochs'],
        ['--cfg-options', '=3'],
        ['--seed', '-1'],
        ['--seed', '4294967296'],
        ['--seed', 'x'],
    ],
)
def test_command_line_errors_exit_with_status_2(tiny, tools, capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        tools.train([tiny.config, *arguments])
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err.rstrip().splitlines()[-1]


def test_missing_or_partial_config_is_named(tiny, fails):
    line = fails('train', tiny.folder / 'nothing.py')
    assert f'config {tiny.folder}/nothing.py' in line and 'tiny.py' in line

    part = tiny.folder / 'part.py'
    part.write_text(
        "model = dict(type='ImageClassifier')\ntrain_cfg = dict(by_epoch=True, max_epochs=1)\n"
    )
    line = fails('train', part, '--work-dir', tiny.folder)
    assert f'config {part}' in line and 'train_dataloader, optim_wrapper' in line
    (tiny.folder / 'a.pth').write_bytes(b'\x80')
    assert 'test_dataloader, test_cfg' in fails(
        'test', part, tiny.folder / 'a.pth', '--work-dir', tiny.folder
    )


@pytest.mark.parametrize(
    'channels, index, fits',
    [
        ([8, 16], [0, 1], True),
        ([8, 17], [0, 1], False),
        (16, 1, True),
        (8, 1, False),
        (16, -1, True),
        ([16], [5], True),
    ],
)
def test_segmentation_head_channels_match_its_maps(channels, index, fits):
    model = torch.nn.Module()
    model.backbone = backbones.FLattenSwin(
        arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 1)),
        attn_types='LS',
        out_indices=(0, 1),
    )
    model.decode_head = torch.nn.Module()
    model.decode_head.in_channels, model.decode_head.in_index = channels, index
    if fits:
        require_matching_channels(model)
    else:
        with pytest.raises(ValueError, match='model.decode_head.in_channels'):
            require_matching_channels(model)
