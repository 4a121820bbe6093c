"""`mmflatten init` on bases of others: what depends on the data changes, and the rest stays."""

import json
from pathlib import Path

import base_sweep
import cv2
import numpy as np
import pytest
from mmengine.config import Config

from mmflatten.cli.init import main
from mmflatten.custom_data.base_changes import changes_for
from mmflatten.custom_data.base_rules import UnsuitedBase
from mmflatten.custom_data.config_source import Edit, PythonSource, assignment
from mmflatten.custom_data.reading import CustomData
from mmflatten.engine.setup import load_config
from tests.test_custom_data.small_data import coco, write_image
from tests.test_custom_data.test_init_command import train

DETECTOR = Path(__file__).parents[2] / 'configs/digits/retinanet_flatten-swin-nano_fpn_digits.py'
SEGMENTOR = DETECTOR.with_name('semantic-fpn_flatten-swin-nano_digits.py')
CLASSES = ('a', 'b', 'c')


def data_of(folder: Path, **fields) -> CustomData:
    part = dict(ann_file=folder / 'a.json', data_prefix=dict(img=folder))
    fields = dict(masks=True) | fields
    return CustomData('CocoDataset', part, part, (2, 2), CLASSES, **fields)


def changed(base: dict, folder: Path, **fields) -> Config:
    """Write the changes of a base as `init` does, and read the config."""
    loader = dict(batch_size=2, dataset=dict(type='CocoDataset', pipeline=[]))
    whole = dict(default_scope='mmdet', train_dataloader=loader, val_dataloader=loader) | base
    source = Config(whole)
    (folder / 'base.py').write_text(source.pretty_text)
    edits = changes_for(Config.fromfile(folder / 'base.py'), data_of(folder, **fields)).edits
    lines = ["_base_ = ['base.py']", f'classes = {CLASSES!r}', 'palette = [(1, 2, 3)] * 3']
    lines += [f'data_root = "{folder}/"', 'metainfo = dict(classes=classes, palette=palette)']
    lines += [assignment(name, edit, source) for name, edit in edits.items()]
    (folder / 'mine.py').write_text('\n'.join(lines))
    return Config.fromfile(folder / 'mine.py')


def head(**fields) -> dict:
    return dict(type='RetinaNet', bbox_head=dict(dict(type='RetinaHead', num_classes=80), **fields))


WEIGHTS = {
    'equal weights': ([2.0] * 80, [2.0] * 3),
    'equal weights and background': ([1.0] * 80 + [0.1], [1.0] * 3 + [0.1]),
    'weights of the classes of the base': ([0.5, *[1.0] * 79], None),
    'different weights and background': ([0.5, *[1.0] * 79, 0.1], [1.0] * 3 + [0.1]),
    'a file': ('weights.npy', None),
    'one weight': (1.5, 1.5),
    'none': (None, None),
}


@pytest.mark.parametrize('name', WEIGHTS)
def test_class_weights_get_the_number_of_classes(name, tmp_path):
    before, after = WEIGHTS[name]
    model = head(loss_cls=dict(type='CrossEntropyLoss', class_weight=before))
    assert changed(dict(model=model), tmp_path).model.bbox_head.loss_cls.class_weight == after


def test_number_of_classes_changes_in_heads_and_losses_alone(tmp_path):
    loss = dict(type='SeesawLoss', num_classes=80)
    boxes = [dict(type='Shared2FCBBoxHead', loss_cls=loss) for _ in range(2)]  # default: 80
    model = dict(
        type='CascadeRCNN',
        backbone=dict(type='SSDVGG', num_classes=-1),
        rpn_head=dict(type='StageCascadeRPNHead', num_classes=1),
        roi_head=dict(bbox_head=boxes, mask_head=dict(type='FCNMaskHead', num_classes=80)),
        test_cfg=dict(rcnn=dict(max_per_img=100)),
    )
    cfg = changed(dict(model=model), tmp_path)
    assert cfg.model.backbone.num_classes == -1 and cfg.model.rpn_head.num_classes == 1
    for box_head in cfg.model.roi_head.bbox_head:
        assert box_head.num_classes == box_head.loss_cls.num_classes == 3
        assert (box_head.type, box_head.loss_cls.type) == ('Shared2FCBBoxHead', 'SeesawLoss')
    assert cfg.model.roi_head.mask_head.num_classes == 3
    assert cfg.model.test_cfg == model['test_cfg']


def test_whole_models_of_timm_have_their_classes_themselves(tmp_path):
    model = dict(type='TimmClassifier', model_name='repvit_m2_3', num_classes=1000)
    assert changed(dict(model=model), tmp_path).model.num_classes == 3


def test_things_are_counted_and_stuff_is_refused(tmp_path):
    def base(stuff: int) -> dict:
        head = dict(type='Mask2FormerHead', num_things_classes=80, num_stuff_classes=stuff)
        head['loss_cls'] = dict(type='CrossEntropyLoss', class_weight=[1.0] * 80 + [0.1])
        return dict(model=dict(type='Mask2Former', panoptic_head=head))

    panoptic = changed(base(0), tmp_path).model.panoptic_head
    assert panoptic.num_things_classes == 3 and panoptic.num_stuff_classes == 0
    assert panoptic.loss_cls.class_weight == [1.0] * 3 + [0.1]
    with pytest.raises(UnsuitedBase, match=r'^model\.panoptic_head\.num_stuff_classes: .*53'):
        changed(base(53), tmp_path)


def test_wrappers_and_other_fields_of_the_data_set_stay(tmp_path):
    steps = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True)]
    inner = dict(
        type='VOCDataset',
        ann_file='old.txt',
        max_refetch=7,
        metainfo=dict(classes=('old',)),
        pipeline=steps,
    )
    several = dict(type='ConcatDataset', datasets=[inner, dict(inner, ann_file='older.txt')])
    balanced = dict(type='ClassBalancedDataset', oversample_thr=0.9, dataset=several)
    mixed = dict(type='MultiImageMixDataset', dataset=balanced, pipeline=[dict(type='Mosaic')])
    loader = dict(
        batch_size=2,
        num_workers=7,
        dataset=dict(type='RepeatDataset', times=5, dataset=mixed),
    )
    cfg = changed(dict(model=head(), train_dataloader=loader), tmp_path)
    repeated = cfg.train_dataloader.dataset
    assert cfg.train_dataloader.num_workers == 7
    assert (repeated.type, repeated.times) == ('RepeatDataset', 5)
    assert repeated.dataset.pipeline == [dict(type='Mosaic')]
    assert repeated.dataset.dataset.oversample_thr == 0.9
    own = repeated.dataset.dataset.dataset
    assert own.type == 'CocoDataset' and own.metainfo.classes == CLASSES
    assert own.pipeline == steps and own.max_refetch == 7


def test_concatenated_data_sets_with_different_pipelines_are_refused(tmp_path):
    parts = [dict(type='CocoDataset', pipeline=[dict(type=name)]) for name in 'ab']
    loader = dict(batch_size=2, dataset=dict(type='ConcatDataset', datasets=parts))
    with pytest.raises(UnsuitedBase, match=r'^train_dataloader\.dataset\.datasets: '):
        changed(dict(model=head(), train_dataloader=loader), tmp_path)


def test_pipelines_follow_labels_and_files_of_the_data_set(tmp_path):
    steps = [
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations', reduce_zero_label=True, backend_args=dict(backend='petrel')),
        dict(type='PackSegInputs'),
    ]
    loader = dict(batch_size=2, dataset=dict(type='ADE20KDataset', pipeline=steps))
    base = dict(
        default_scope='mmseg',
        model=dict(type='EncoderDecoder', decode_head=dict(type='FCNHead', num_classes=150)),
        train_dataloader=loader,
        tta_pipeline=[steps[0], dict(type='TestTimeAug', transforms=[[steps[1]], [steps[2]]])],
    )
    cfg = changed(base, tmp_path)
    own = dict(type='LoadAnnotations', reduce_zero_label=None, backend_args=None)
    expected = [steps[0], own, steps[2]]
    assert cfg.train_dataloader.dataset.pipeline == expected
    assert cfg.tta_pipeline[1].transforms == [[expected[1]], [steps[2]]]


@pytest.mark.parametrize(
    'step, name',
    [
        (dict(type='LoadAnnotations', with_mask=True), r'\[0\]\.with_mask: '),
        (dict(type='LoadAnnotations', with_seg=True), r'\[0\]\.with_seg: '),
        (dict(type='mmdet.LoadProposals'), r'\[0\]\.type: LoadProposals'),
    ],
)
def test_annotations_that_the_data_lack_are_refused(step, name, tmp_path):
    dataset = dict(type='CocoDataset', pipeline=[step])
    base = dict(model=head(), train_dataloader=dict(batch_size=2, dataset=dataset))
    with pytest.raises(UnsuitedBase, match=r'^train_dataloader\.dataset\.pipeline' + name):
        changed(base, tmp_path, masks=False)


def test_metrics_of_the_data_stay_and_others_are_replaced(tmp_path):
    fields = dict(metrics=('CocoMetric',), score='coco/bbox_mAP')
    fields['evaluator'] = dict(ann_file=tmp_path / 'val.json', metric='bbox')
    ours = dict(type='CocoMetric', ann_file='old.json', classwise=True, format_only=True)
    hooks = dict(checkpoint=dict(type='CheckpointHook', save_best='lvis/bbox_AP'))

    def evaluator(old: dict | list) -> Config:
        base = dict(model=head(), val_evaluator=old, default_hooks=hooks)
        return changed(base, tmp_path, **fields)

    cfg = evaluator(ours)
    path = str(tmp_path / 'val.json')
    assert cfg.val_evaluator == dict(ours, ann_file=path, format_only=False)
    assert cfg.default_hooks == hooks
    cfg = evaluator(dict(type='LVISMetric', ann_file='old.json'))
    assert cfg.val_evaluator == dict(type='CocoMetric', ann_file=path, metric='bbox')
    assert cfg.default_hooks.checkpoint.save_best == 'coco/bbox_mAP'
    cfg = evaluator([dict(type='CityScapesMetric'), dict(type='CocoMetric', classwise=True)])
    assert cfg.val_evaluator == [dict(type='CocoMetric', classwise=True, ann_file=path)]


def test_images_in_memory_are_read_from_files_in_the_same_order_of_colours(tmp_path):
    dataset = dict(type='CIFAR10', pipeline=[dict(type='PackInputs')])
    base = dict(
        default_scope='mmpretrain',
        model=dict(type='ImageClassifier', head=dict(type='LinearClsHead', num_classes=10)),
        data_preprocessor=dict(mean=[125.0, 123.0, 114.0], to_rgb=False, num_classes=10),
        train_dataloader=dict(batch_size=2, dataset=dataset),
    )
    cfg = changed(base, tmp_path)
    assert [step.type for step in cfg.train_dataloader.dataset.pipeline] == [
        'LoadImageFromFile',
        'PackInputs',
    ]
    assert cfg.data_preprocessor == dict(mean=[125.0, 123.0, 114.0], to_rgb=True, num_classes=3)


def test_edits_of_a_list_read_back():
    base = dict(a=[dict(x=1, items=dict(y=2)), 5, dict(x=1)])
    edits = Edit()
    edits.set(('a', 0, 'items', 'y'), PythonSource('1 + 2'))
    edits.set(('a', 2, 'x'), None)
    found = {'_base_': Config(base)}
    exec(assignment('a', edits['a'], base), found)
    assert found['a'] == [dict(x=1, items=dict(y=3)), 5, dict(x=None)]


# configs with data-dependent arguments of each kind
SAMPLE = {
    'mmdet/yolox/yolox_tiny_8xb8-300e_coco.py': 'written',
    'mmdet/seesaw_loss/cascade-mask-rcnn_r101_fpn_seesaw-loss_random-ms-2x_lvis-v1.py': 'written',
    'mmdet/mask2former/mask2former_r50_8xb2-lsj-50e_coco.py': 'written',
    'mmdet/mask2former/mask2former_r50_8xb2-lsj-50e_coco-panoptic.py': 'written',
    'mmdet/pascal_voc/retinanet_r50_fpn_1x_voc0712.py': 'written',
    'mmseg/segformer/segformer_mit-b0_8xb2-160k_ade20k-512x512.py': 'written',
    'mmseg/pidnet/pidnet-s_2xb6-120k_1024x1024-cityscapes.py': 'written',
    'mmpretrain/swin_transformer/swin-tiny_16xb64_in1k.py': 'written',
    'mmpretrain/vgg/vgg11_8xb32_in1k.py': 'written',
    'mmpretrain/mae/mae_vit-base-p16_8xb512-amp-coslr-300e_in1k.py': 'refused',
}


@pytest.fixture(scope='module')
def tiny_data(tmp_path_factory):
    return base_sweep.TinyData(tmp_path_factory.mktemp('tiny'))


@pytest.mark.parametrize('name', SAMPLE)
def test_shipped_config_is_written_or_refused_with_its_field(name, tiny_data):
    found = base_sweep.try_base(name, tiny_data)
    assert found.outcome == SAMPLE[name], found.message
    assert bool(found.field) == (found.outcome == 'refused')


@pytest.mark.full
def test_every_shipped_config_is_written_or_refused_with_its_field(tiny_data):
    names = list(base_sweep.shipped_configs())
    failed = []
    for name in names:
        found = base_sweep.try_base(name, tiny_data)
        if found.outcome == 'failed' or (found.outcome == 'refused' and not found.field):
            failed.append(found)
    assert len(names) > 2000 and not failed


def init(base: Path, *words: object) -> int:
    arguments = ['--images', 'images', '--base', base, '--out', 'mine.py', *words]
    return main([str(word) for word in arguments])


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """Working folder with images, objects with masks, and label maps."""
    monkeypatch.chdir(tmp_path)
    content = coco()
    for entry in content['annotations']:
        x, y, width, height = entry['bbox']
        entry['segmentation'] = [[x, y, x + width, y, x + width, y + height, x, y + height]]
    (tmp_path / 'ann.json').write_text(json.dumps(content))
    (tmp_path / 'maps').mkdir()
    for number in range(6):
        write_image(tmp_path / 'images' / f'{number}.png', number)
        labels = np.zeros((48, 64), np.uint8)
        labels[:20, :20], labels[20:, 20:] = 1, 2
        cv2.imwrite(str(tmp_path / 'maps' / f'{number}.png'), labels)
    return tmp_path


def test_base_whose_pipeline_fails_writes_nothing(own, capsys):
    (own / 'base.py').write_text(
        f'_base_ = [{str(DETECTOR)!r}]\n'
        "train_pipeline = [*_base_.train_dataloader.dataset.pipeline[:2], dict(type='Mosaic')]\n"
        'train_dataloader = dict(dataset=dict(pipeline=train_pipeline))\n'
    )
    before = sorted(own.rglob('*'))
    assert init(own / 'base.py', '--task', 'det', '--ann', 'ann.json') == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert 'train_dataloader: ' in error and 'Mosaic' in error
    assert sorted(own.rglob('*')) == before


def test_base_decides_which_images_are_left_out(own, capsys):
    (own / 'base.py').write_text(
        f'_base_ = [{str(DETECTOR)!r}]\n'
        'filter_cfg = dict(filter_empty_gt=False, min_size=40)\n'
        'train_dataloader = dict(dataset=dict(filter_cfg=filter_cfg))\n'
    )
    content = json.loads((own / 'ann.json').read_text())
    write_image(own / 'images' / '6.png', 6, (30, 60))
    write_image(own / 'images' / '7.png', 7)
    for number, height in ((6, 30), (7, 48)):
        width = 60 if number == 6 else 64
        entry = dict(id=number, file_name=f'{number}.png', height=height, width=width)
        content['images'].append(entry)
    (own / 'train.json').write_text(json.dumps(content))
    words = ('--task', 'det', '--ann', 'train.json', 'train.json', '--val-share', 0.5)
    init(own / 'base.py', *words)
    assert '1 of 8 training images are smaller than min_size=40' in capsys.readouterr().out


def test_base_with_weights_of_its_classes_is_written_and_named(own, capsys):
    (own / 'base.py').write_text(
        f'_base_ = [{str(SEGMENTOR)!r}]\n'
        'model = dict(decode_head=dict(loss_decode=dict(class_weight=[.5] + [1.] * 10)))\n'
    )
    words = ('--task', 'seg', '--ann', 'maps', '--classes', *CLASSES)
    assert init(own / 'base.py', *words) == 0
    assert 'model.decode_head.loss_decode.class_weight' in capsys.readouterr().out
    cfg = load_config('mine.py')
    assert cfg.model.decode_head.num_classes == 3
    assert cfg.model.decode_head.loss_decode.class_weight is None


def test_metrics_and_data_sets_of_the_test_are_mentioned(own, capsys):
    (own / 'base.py').write_text(
        f'_base_ = [{str(DETECTOR)!r}]\n'
        'part = _base_.val_dataloader.dataset\n'
        "both = dict(_delete_=True, type='ConcatDataset', datasets=[part, part])\n"
        'test_dataloader = dict(dataset=both)\n'
        "val_evaluator = [_base_.val_evaluator, dict(type='CityScapesMetric')]\n"
        "test_evaluator = dict(_delete_=True, type='LVISMetric', ann_file='a.json')\n"
    )
    assert init(own / 'base.py', '--task', 'det', '--ann', 'ann.json') == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'val_evaluator: CityScapesMetric of the base is left out' in lines
    assert 'test_evaluator: CocoMetric replaces LVISMetric of the base' in lines
    assert 'test_dataloader.dataset: your data replace 2 data sets' in lines


def test_rate_is_for_the_accumulated_batch(own):
    (own / 'base.py').write_text(
        f'_base_ = [{str(DETECTOR)!r}]\n'
        'optim_wrapper = dict(accumulative_counts=4)\n'
        'auto_scale_lr = dict(base_batch_size=64)\n'
    )
    assert init(own / 'base.py', '--task', 'det', '--ann', 'ann.json', '--batch', 2) == 0
    cfg, base = load_config('mine.py'), load_config('base.py')
    expected = base.optim_wrapper.optimizer.lr * (8 / 64) ** 0.5
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(expected, rel=0.01)
    assert cfg.auto_scale_lr.base_batch_size == 8 and cfg.optim_wrapper.accumulative_counts == 4


def test_rate_of_a_schedule_stays(own):
    (own / 'base.py').write_text(
        f'_base_ = [{str(DETECTOR)!r}]\n'
        "param_scheduler = [dict(type='OneCycleLR', eta_max=0.01, total_steps=9, by_epoch=False)]\n"
    )
    assert init(own / 'base.py', '--task', 'det', '--ann', 'ann.json') == 0
    cfg, base = load_config('mine.py'), load_config('base.py')
    assert cfg.optim_wrapper == base.optim_wrapper and cfg.auto_scale_lr == base.auto_scale_lr


def test_watched_score_is_one_of_the_classes(tmp_path):
    hooks = dict(checkpoint=dict(type='CheckpointHook', save_best='accuracy/top5'))
    metric = dict(type='Accuracy', topk=(1, 5))
    base = dict(model=head(), val_evaluator=metric, default_hooks=hooks)
    cfg = changed(base, tmp_path, metrics=('Accuracy',), score='accuracy/top1')
    assert cfg.default_hooks.checkpoint.save_best == 'accuracy/top1'
    assert tuple(cfg.val_evaluator.topk) == (1,)


def test_rates_of_several_optimizers_stay(own):
    (own / 'base.py').write_text(
        f'_base_ = [{str(DETECTOR)!r}]\n'
        "rate = dict(optimizer=dict(type='AdamW', lr=0.002))\n"
        "optim_wrapper = dict(_delete_=True, constructor='mine.Two', backbone=rate, head=rate)\n"
        'auto_scale_lr = dict(base_batch_size=64)\n'
    )
    assert init(own / 'base.py', '--task', 'det', '--ann', 'ann.json') == 0
    cfg = load_config('mine.py')
    assert cfg.optim_wrapper.head.optimizer.lr == 0.002
    assert cfg.auto_scale_lr.base_batch_size == 64


WITH_CLASSES = """
from mmcv.transforms import CenterCrop, LoadImageFromFile
from mmengine.dataset import DefaultSampler
from mmpretrain.datasets import ImageNet, PackInputs, ResizeEdge
from mmpretrain.evaluation import Accuracy
from mmpretrain.models import ClsDataPreprocessor, CrossEntropyLoss, GlobalAveragePooling
from mmpretrain.models import ImageClassifier, LinearClsHead, ResNet_CIFAR
from torch.optim import SGD

model = dict(
    type=ImageClassifier,
    backbone=dict(type=ResNet_CIFAR, depth=18, stem_channels=8, base_channels=8),
    neck=dict(type=GlobalAveragePooling),
    head=dict(
        type=LinearClsHead, num_classes=1000, in_channels=64, topk=(1, 5),
        loss=dict(type=CrossEntropyLoss)),
    data_preprocessor=dict(type=ClsDataPreprocessor, mean=[0, 0, 0], std=[255, 255, 255]),
)
pipeline = [
    dict(type=LoadImageFromFile),
    dict(type=ResizeEdge, scale=32),
    dict(type=CenterCrop, crop_size=32),
    dict(type=PackInputs),
]
train_dataloader = dict(
    batch_size=4, num_workers=0, sampler=dict(type=DefaultSampler, shuffle=True),
    dataset=dict(type=ImageNet, data_root='imagenet', split='train', pipeline=pipeline))
val_dataloader = dict(
    batch_size=4, num_workers=0, sampler=dict(type=DefaultSampler, shuffle=False),
    dataset=dict(type=ImageNet, data_root='imagenet', split='val', pipeline=pipeline))
val_evaluator = dict(type=Accuracy, topk=(1, 5))
optim_wrapper = dict(optimizer=dict(type=SGD, lr=0.1))
train_cfg = dict(by_epoch=True, max_epochs=1)
val_cfg = dict()
"""
READS_BASE = """
from mmengine.config import read_base

with read_base():
    from .part import *

train_dataloader.update(batch_size=2)
"""


@pytest.fixture
def with_classes(tmp_path, monkeypatch) -> Path:
    """Base that reads another one with `read_base`, and class folders in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'part.py').write_text(WITH_CLASSES)
    (tmp_path / 'base.py').write_text(READS_BASE)
    for number in range(8):
        write_image(tmp_path / 'images' / f'class {number % 2}' / f'{number}.png', number)
    return tmp_path / 'base.py'


def test_base_of_classes_in_place_of_names_trains(with_classes, capsys):
    assert init(with_classes, '--task', 'cls') == 0
    assert 'mine_base.py' in capsys.readouterr().out
    cfg = load_config('mine.py')
    assert cfg.default_scope == 'mmpretrain'
    assert cfg.model.head.num_classes == 2 and cfg.train_dataloader.batch_size == 2
    train(with_classes.with_name('mine.py'))


def test_error_brings_back_the_configs_that_force_replaces(with_classes, capsys):
    before = "custom = 'mine'\n"
    with_classes.with_name('mine_base.py').write_text(before)
    fails = f'{READS_BASE}\nval_dataloader.dataset.pipeline = []\n'
    with_classes.write_text(fails)
    assert init(with_classes, '--task', 'cls', '--force') == 1
    assert 'KeyError: inputs' in capsys.readouterr().err
    assert with_classes.with_name('mine_base.py').read_text() == before
    assert not with_classes.with_name('mine.py').exists()
