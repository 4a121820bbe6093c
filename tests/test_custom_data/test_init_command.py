"""`mmflatten init`: configs that train for every task, and errors that write nothing."""

import json
import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmflatten.cli.init import main
from mmflatten.custom_data.base_changes import changes_for
from mmflatten.custom_data.config_text import custom_config_text, palette
from mmflatten.custom_data.reading import CustomData
from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.engine.class_checks import HEADS
from mmflatten.engine.setup import build_runner, load_config

CONFIGS = Path(__file__).parents[2] / 'configs'
DETECTOR = CONFIGS / 'digits' / 'retinanet_flatten-swin-nano_fpn_digits.py'
MASKS = CONFIGS / 'digits' / 'mask-rcnn_flatten-swin-nano_fpn_digits.py'
ONE_STEP = {
    'train_dataloader.num_workers': 0,
    'train_dataloader.persistent_workers': False,
    'val_dataloader.num_workers': 0,
    'val_dataloader.persistent_workers': False,
}


def run(*words: object) -> int:
    return main([str(word) for word in words])


def sparse(file: Path, out: Path) -> Path:
    """Write the annotations with two classes, even and odd digits, with the ids 7 and 90."""
    content = json.loads(file.read_text())
    names = {category['id']: int(category['name']) for category in content['categories']}
    for annotation in content['annotations']:
        annotation['category_id'] = 90 if names[annotation['category_id']] % 2 else 7
    content['categories'] = [dict(id=7, name='even'), dict(id=90, name='odd number')]
    out.write_text(json.dumps(content))
    return out


@pytest.fixture
def own(tmp_path, scenes, monkeypatch) -> Path:
    """Working folder with images and annotations of digit scenes."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(scenes / 'images' / 'training', tmp_path / 'photos')
    sparse(scenes / 'annotations' / 'instances_train.json', tmp_path / 'all.json')
    return tmp_path


def train(config: Path, **options) -> None:
    cfg = load_config(str(config), {**ONE_STEP, **options}, str(config.parent / 'run'))
    length = 'max_epochs' if 'max_epochs' in cfg.train_cfg else 'max_iters'
    cfg.train_cfg.update({length: 1, 'val_interval': 1})
    runner = build_runner(cfg)
    runner.train()
    assert runner.iter == 1 if length == 'max_iters' else runner.epoch == 1


def test_init_detector_from_one_annotation_file_trains(own, monkeypatch, capsys):
    assert (
        run(
            '--task',
            'det',
            '--images',
            'photos',
            '--ann',
            'all.json',
            '--base',
            os.path.relpath(MASKS),
            '--out',
            'configs/mine.py',
            '--val-share',
            0.25,
            '--batch',
            2,
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert 'even' in shown and '3 images for training, 1 for validation' in shown
    monkeypatch.chdir('/')
    cfg, base = load_config(str(own / 'configs' / 'mine.py')), Config.fromfile(MASKS)
    assert cfg.train_dataloader.batch_size == 2
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(
        base.optim_wrapper.optimizer.lr * (2 / base.auto_scale_lr.base_batch_size) ** 0.5, rel=0.01
    )
    assert cfg.test_dataloader == cfg.val_dataloader and cfg.test_evaluator == cfg.val_evaluator
    assert cfg.val_evaluator.metric == ['bbox', 'segm']
    train(own / 'configs' / 'mine.py')


def test_init_segmentor_trains(own, scenes, tmp_path):
    maps = tmp_path / 'maps'
    maps.mkdir()
    # in few scenes some digits have no pixels
    for file in (scenes / 'annotations' / 'training').glob('*.png'):
        cv2.imwrite(
            str(maps / file.name), np.minimum(cv2.imread(str(file), cv2.IMREAD_UNCHANGED), 2)
        )
    assert (
        run(
            '--task',
            'seg',
            '--images',
            'photos',
            '--ann',
            maps,
            '--classes',
            'unlabelled',
            'ground',
            'digit',
            '--base',
            CONFIGS / 'digits' / 'semantic-fpn_flatten-swin-nano_digits.py',
            '--out',
            'mine.py',
            '--batch',
            2,
        )
        == 0
    )
    train(tmp_path / 'mine.py')


def test_init_classifier_trains(scenes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(('even', 'odd')):
        folder = tmp_path / 'mine' / name
        folder.mkdir(parents=True)
        for digit in range(number, 10, 2):
            for file in (scenes / 'crops' / 'train' / str(digit)).glob('*'):
                shutil.copy(file, folder)
    assert (
        run(
            '--task',
            'cls',
            '--images',
            'mine',
            '--base',
            CONFIGS / 'digits' / 'flatten-swin-nano_digits.py',
            '--out',
            'mine.py',
        )
        == 0
    )
    train(tmp_path / 'mine.py')


def test_init_stereo_model_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build_stereo_scenes(tmp_path / 'made', StereoSceneOptions(train=3, val=1, size=96, seed=0))
    for kind in ('left', 'right', 'disparity'):
        (tmp_path / 'mine' / kind).mkdir(parents=True)
    for left in (tmp_path / 'made').glob('frames_cleanpass/*/A/*/left/*.png'):
        name = '_'.join([*left.parts[-5:-2], left.stem])
        disparity = str(left.with_suffix('.pfm')).replace('frames_cleanpass', 'disparity')
        shutil.copy(left, f'mine/left/{name}.png')
        shutil.copy(str(left).replace('/left/', '/right/'), f'mine/right/{name}.png')
        shutil.copy(disparity, f'mine/disparity/{name}.pfm')
    base = CONFIGS / 'digits' / 'psmnet-tiny_digits-stereo.py'
    assert (
        run(
            '--task',
            'stereo',
            '--images',
            'mine',
            '--base',
            base,
            '--out',
            'mine.py',
            '--val-share',
            0.5,
        )
        == 0
    )
    train(tmp_path / 'mine.py', **{'train_dataloader.batch_size': 2})


FAULTS = {
    'a base of another task': (
        dict(base=CONFIGS / 'digits' / 'flatten-swin-nano_digits.py'),
        ('--task cls', 'det'),
    ),
    'no annotations': (dict(ann=None), ('--ann', 'missing')),
    'unknown classes': (dict(classes='cow'), ('--classes', 'cow', 'even')),
    'more folders than annotations': (
        dict(images='photos photos'),
        ('--ann', '2 folders', 'got 1'),
    ),
    'missing folder': (dict(images='gone'), ('--images', 'gone')),
    'missing base': (dict(base='gone.py'), ('gone.py', 'does not exist')),
    'missing weights': (dict(checkpoint='gone.pth'), ('gone.pth', 'does not exist')),
    'out is not a config': (dict(out='mine.txt'), ('--out', 'mine.txt', '.py')),
    'repeated class': (dict(classes='even odd even'), ('--classes', 'even')),
    'val-share of 1': ({'val-share': 1}, ('--val-share', '1')),
    'a broken image': ({}, ('broken image', '000001.png')),
}


@pytest.mark.parametrize('name', FAULTS)
def test_init_error_names_the_option_and_writes_nothing(name, own, capsys):
    changes, words = FAULTS[name]
    if name == 'a broken image':
        (own / 'photos' / '000001.png').write_bytes(b'no image')
    before = sorted(own.rglob('*'))
    options = dict(task='det', images='photos', ann='all.json', base=DETECTOR, out='mine.py')
    arguments = []
    for key, value in (options | changes).items():
        if value is not None:
            arguments += [f'--{key}', *str(value).split()]
    assert run(*arguments) == 1
    shown = capsys.readouterr()
    assert all(word in shown.out + shown.err for word in words)
    assert words[0] in shown.err.splitlines()[-1]
    assert sorted(own.rglob('*')) == before


def test_init_mask_base_without_masks_is_an_error(own, capsys):
    content = json.loads((own / 'all.json').read_text())
    del content['annotations'][0]['segmentation']
    (own / 'all.json').write_text(json.dumps(content))
    arguments = [
        '--task',
        'det',
        '--images',
        'photos',
        '--ann',
        'all.json',
        '--out',
        'mine.py',
        '--base',
    ]
    assert run(*arguments, MASKS) == 1 and 'with_mask' in capsys.readouterr().err
    assert run(*arguments, DETECTOR) == 0
    assert Config.fromfile('mine.py').val_evaluator.metric == 'bbox'


def test_init_replaces_config_only_with_force(own, capsys):
    arguments = [
        '--task',
        'det',
        '--images',
        'photos',
        '--ann',
        'all.json',
        '--base',
        DETECTOR,
        '--out',
        'mine.py',
    ]
    (own / 'mine.py').write_text('kept')
    assert run(*arguments) == 1 and '--force' in capsys.readouterr().err
    assert (own / 'mine.py').read_text() == 'kept'
    assert run(*arguments, '--force') == 0 and 'classes' in (own / 'mine.py').read_text()


def test_init_replaces_splits_with_force_but_never_its_inputs(own, capsys):
    arguments = ['--task', 'det', '--images', 'photos', '--base', DETECTOR]
    (own / 'mine_val.json').write_text('kept')
    assert run(*arguments, '--ann', 'all.json', '--out', 'mine.py') == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert 'mine_val.json' in line and '--force' in line
    assert (own / 'mine_val.json').read_text() == 'kept' and not (own / 'mine_train.json').exists()
    assert run(*arguments, '--ann', 'all.json', '--out', 'mine.py', '--force') == 0
    before = (own / 'all.json').rename(own / 'own_train.json').read_bytes()
    assert run(*arguments, '--ann', 'own_train.json', '--out', 'own.py', '--force') == 1
    assert 'own_train.json' in capsys.readouterr().err.splitlines()[-1]
    base = own / 'base.py'
    base.write_text(f'_base_ = [{str(DETECTOR)!r}]\n')
    assert run(*arguments[:-1], base, '--ann', 'own_train.json', '--out', 'base.py', '--force') == 1
    assert 'base.py' in capsys.readouterr().err and len(base.read_text().splitlines()) == 1
    assert (own / 'own_train.json').read_bytes() == before and not (own / 'own.py').exists()


def backslash(content: dict) -> None:
    for image in content['images']:
        image['file_name'] = f'photos\\{image["file_name"]}'


def group(content: dict) -> None:
    content['categories'].insert(0, dict(id=0, name='digits', supercategory='none'))
    for category in content['categories'][1:]:
        category['supercategory'] = 'digits'


def crowd(content: dict) -> None:
    content['annotations'][0]['iscrowd'] = 1


def byte_order_mark(content: dict) -> None:
    content['info'] = 'mark'


@pytest.mark.parametrize(
    'wrong, spoil',
    [
        ('train', backslash),
        ('val', backslash),
        ('val', group),
        ('val', crowd),
        ('val', byte_order_mark),
    ],
)
def test_one_of_two_annotation_files_is_corrected(wrong, spoil, own):
    whole = json.loads((own / 'all.json').read_text())
    for split, images in (('train', whole['images'][::2]), ('val', whole['images'][1::2])):
        ids = [image['id'] for image in images]
        annotations = [entry for entry in whole['annotations'] if entry['image_id'] in ids]
        content = dict(
            images=images,
            annotations=annotations,
            categories=[dict(category) for category in whole['categories']],
        )
        if split == wrong:
            spoil(content)
        mark = '\ufeff' if 'info' in content else ''
        (own / f'{split}.json').write_text(mark + json.dumps(content), encoding='utf-8')
    before = {file: file.read_bytes() for file in own.glob('*.json')}

    words = ['--task', 'det', '--images', 'photos', '--ann', 'train.json', 'val.json']
    assert run(*words, '--base', DETECTOR, '--out', 'mine.py', '--crowds-as-objects') == 0

    assert all(file.read_bytes() == content for file, content in before.items())
    cfg = Config.fromfile('mine.py')
    files = {
        'train': cfg.train_dataloader.dataset.ann_file,
        'val': cfg.val_dataloader.dataset.ann_file,
    }
    other = 'val' if wrong == 'train' else 'train'
    assert files == {wrong: f'mine_{wrong}.json', other: f'{other}.json'}
    assert Path(cfg.val_evaluator.ann_file).name == files['val']
    train(own / 'mine.py')


def test_init_encoding_error_writes_nothing(own, monkeypatch):
    monkeypatch.setattr(
        'mmflatten.custom_data.init.custom_config_text', lambda *_, **__: os.fsdecode(b'\xe9')
    )
    before = sorted(own.rglob('*'))
    assert (
        run(
            '--task',
            'det',
            '--images',
            'photos',
            '--ann',
            'all.json',
            '--base',
            DETECTOR,
            '--out',
            'mine.py',
        )
        == 1
    )
    assert sorted(own.rglob('*')) == before


def test_init_config_name_may_contain_any_characters(own):
    name = 'a\\Nb"""c\nd\'e"phở'
    assert (
        run(
            '--task',
            'det',
            '--images',
            'photos',
            '--ann',
            'all.json',
            '--base',
            DETECTOR,
            '--out',
            f'{name}.py',
        )
        == 0
    )
    (own / f'{name}.py').rename('plain.py')
    cfg = Config.fromfile('plain.py')
    assert cfg.classes == ('even', 'odd number')
    assert cfg.val_evaluator.metric == 'bbox'  # the data has masks, the base predicts none


def test_init_checkpoint_replaces_pretrained_weights(own):
    torch.save(dict(state_dict={}), own / 'start.pth')
    base = CONFIGS / 'flatten_swin' / 'retinanet_flatten-swin-t_fpn_1x_coco.py'
    arguments = [
        '--task',
        'det',
        '--images',
        'photos',
        '--ann',
        'all.json',
        '--base',
        base,
        '--out',
        'mine.py',
    ]
    assert run(*arguments, '--checkpoint', 'start.pth') == 0
    cfg = Config.fromfile('mine.py')
    assert cfg.load_from == str(own / 'start.pth') and cfg.model.backbone.init_cfg is None


BASES = [
    'cascade-mask-rcnn_flatten-swin-t_fpn_ms-3x_coco',
    'mask-rcnn_flatten-swin-t_fpn_1x_coco',
    'upernet_flatten-swin-t_8xb2-160k_ade20k-512x512',
    'flatten-swin-t_8xb128_in1k',
    'atss_flatten-swin-t_fpn_ms-3x_coco',
]


def numbers(model: dict, place: str = '') -> dict[str, int]:
    """`num_classes` of every head in a config's model."""
    found = {}
    for name, child in enumerate(model) if isinstance(model, list) else model.items():
        here = f'{place}.{name}' if place else str(name)
        if isinstance(child, (dict, list)):
            found.update(numbers(child, here))
        elif name == 'num_classes' and HEADS.fullmatch(place):
            found[place] = child
    return found


@pytest.mark.parametrize('name', BASES)
def test_config_sets_num_classes_of_every_head(name, tmp_path):
    base = Config.fromfile(CONFIGS / 'flatten_swin' / f'{name}.py')
    part = dict(ann_file=tmp_path / 'a.txt', data_prefix=dict(img=tmp_path))
    names = ('a', 'traffic light', "driver's")
    data = CustomData('BaseSegDataset', part, part, (2, 2), names, masks=True)
    text = custom_config_text(
        changes_for(base, data), data, base, out=tmp_path / 'mine.py', batch=2, checkpoint=None
    )
    (tmp_path / 'mine.py').write_text(text)
    cfg = Config.fromfile(tmp_path / 'mine.py')
    assert numbers(base.model) and set(numbers(cfg.model).values()) == {3}
    assert numbers(cfg.model).keys() == numbers(base.model).keys()
    assert cfg.train_dataloader.dataset.metainfo.classes == ('a', 'traffic light', "driver's")
    assert len((tmp_path / 'mine.py').read_text().splitlines()) < 60


def test_palette_colours_are_distinct():
    colours = np.array(palette(150))
    apart = np.abs(colours[:, None] - colours[None]).sum(-1) + 999 * np.eye(150, dtype=int)
    assert apart.min() > 10 and colours.min() >= 0 and colours.max() <= 255
    few = np.array(palette(10))
    assert (np.abs(few[:, None] - few[None]).sum(-1) + 999 * np.eye(10, dtype=int)).min() > 60
