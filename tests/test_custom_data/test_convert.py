"""`mmflatten data convert`, folds, near-duplicates and images with 16 bits."""
import json
import shutil
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.cli.main import main
from mmflatten.custom_data.folds import stratified_folds
from mmflatten.engine.setup import build_runner, load_config

CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
DETECTOR = CONFIGS / 'retinanet_flatten-swin-nano_fpn_digits.py'
CLASSIFIER = CONFIGS / 'flatten-swin-nano_digits.py'
HEIGHT, WIDTH = 60, 80


def mmflatten(words: str, *more: object) -> int:
    return main([*words.split(), *map(str, more)])


def smooth(seed: int, dtype: type = np.uint8, high: int = 255) -> np.ndarray:
    """An image without noise, as photographs."""
    small = np.random.default_rng(seed).integers(0, high, (6, 8, 3)).astype(np.float32)
    return cv2.resize(small, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR).astype(dtype)


def write_image(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels)


def objects(file: Path) -> list[tuple]:
    """Image, class, box, polygons and crowd of each object."""
    content = json.loads(file.read_text())
    names = {item['id']: item['name'] for item in content['categories']}
    images = {item['id']: item['file_name'] for item in content['images']}
    return sorted((images[item['image_id']], names[item['category_id']], item['bbox'], item['segmentation'])
                  for item in content['annotations'])


@pytest.fixture
def coco(tmp_path, monkeypatch) -> Path:
    """Two COCO files with sparse ids, polygons at fractions of pixels, and an image without objects."""
    monkeypatch.chdir(tmp_path)
    number = 0
    for part in ('train', 'val'):
        images, annotations = [], []
        for i in range(4):
            write_image(tmp_path / part / 'a' / f'{i}.png', smooth(number := number + 1))
            images.append(dict(id=10 * number, file_name=f'a/{i}.png', width=WIDTH, height=HEIGHT))
            for k in range(2 * (i < 3)):
                polygon = [10.25 + k, 5, 40.125 + k, 7.5, 30 + k, 50.75]
                annotations.append(dict(id=len(annotations) + 1, image_id=10 * number, category_id=(7, 90)[k], area=600,
                                        iscrowd=0, bbox=[10.25 + k, 5, 29.875, 45.75], segmentation=[polygon]))
        content = dict(images=images, annotations=annotations,
                       categories=[dict(id=7, name='round'), dict(id=90, name='a: "b"')])
        (tmp_path / f'{part}.json').write_text(json.dumps(content))
    return tmp_path


@pytest.mark.parametrize('boxes', ['', '--boxes'])
def test_coco_to_yolo_to_coco_is_equal_within_rounding(boxes, coco, capsys):
    assert mmflatten(f'data convert train.json val.json --images train val --to yolo --out yolo {boxes}') == 0
    assert 'train: 4 images, 6 objects as ' + ('boxes' if boxes else 'polygons') in capsys.readouterr().out
    assert (coco / 'yolo/labels/val/a/3.txt').read_text() == ''
    assert mmflatten('data convert yolo/data.yaml --to coco --out back') == 0
    for part in ('train', 'val'):
        before, after = objects(coco / f'{part}.json'), objects(coco / f'back/{part}.json')
        assert len(before) == len(after) == 6
        for old, new in zip(before, after):
            assert 'a/' + Path(new[0]).name == old[0] and new[1] == old[1]
            assert new[2] == pytest.approx(old[2], abs=1e-4)
            assert new[3] == ([] if boxes else [pytest.approx(old[3][0], abs=1e-4)])
    assert len(json.loads((coco / 'back/val.json').read_text())['images']) == 4


def test_yolo_to_coco_to_yolo_gives_the_same_files(coco):
    assert mmflatten('data convert train.json val.json --images train val --to yolo --out first') == 0
    assert mmflatten('data convert first/data.yaml --to coco --out coco') == 0
    assert mmflatten('data convert coco/train.json coco/val.json --images first/images/train/a first/images/val/a '
                     '--to yolo --out second') == 0
    for file in (coco / 'first/labels').rglob('*.txt'):
        assert (coco / 'second/labels' / file.parts[-3] / file.name).read_text() == file.read_text()


def test_several_polygons_become_one_of_the_same_area(coco):
    content = json.loads((coco / 'train.json').read_text())
    squares = [[x, y, x + 8, y, x + 8, y + 8, x, y + 8] for x, y in ((0, 0), (40, 0), (20, 40))]
    content['annotations'] = [dict(content['annotations'][0], segmentation=squares, bbox=[0, 0, 48, 48])]
    (coco / 'train.json').write_text(json.dumps(content))
    assert mmflatten('data convert train.json --images train --to yolo --out yolo') == 0
    assert mmflatten('data convert yolo --to coco --out back') == 0
    annotation, = json.loads((coco / 'back/train.json').read_text())['annotations']
    assert annotation['area'] == pytest.approx(3 * 64, abs=.01) and len(annotation['segmentation']) == 1


def test_run_lengths_become_outlines_and_crowds_are_left_out(scenes, tmp_path, monkeypatch, capsys):
    from pycocotools import mask
    monkeypatch.chdir(tmp_path)
    content = json.loads((scenes / 'annotations/instances_train.json').read_text())
    content['annotations'][0]['iscrowd'] = 1
    Path('scenes.json').write_text(json.dumps(content))
    assert mmflatten('data convert scenes.json --to yolo --out yolo --images', scenes / 'images/training') == 0
    assert '1 crowds are left out' in capsys.readouterr().out
    assert mmflatten('data convert yolo --to coco --out back') == 0
    back = json.loads(Path('back/train.json').read_text())
    before = content['annotations'][1:]
    assert len(back['annotations']) == len(before)
    for old, new in zip(before, back['annotations']):
        size = old['segmentation']['size']
        drawn = mask.merge(mask.frPyObjects(new['segmentation'], *size))
        assert mask.iou([drawn], [old['segmentation']], [0])[0, 0] > .5
    ious = [mask.iou([mask.merge(mask.frPyObjects(new['segmentation'], *old['segmentation']['size']))],
                     [old['segmentation']], [0])[0, 0] for old, new in zip(before, back['annotations'])]
    assert np.mean(ious) > .75


CONVERT_FAULTS = {
    'outside': (lambda c: c['annotations'][0].update(bbox=[500, 4, 2, 2]), 'annotation 1 in'),
    'same stem': (lambda c: c['images'][1].update(file_name='a/0.bmp'), 'file_name'),
    'escapes': (lambda c: c['images'][1].update(file_name='../train/a/1.png'), 'file_name'),
}


@pytest.mark.parametrize('name', CONVERT_FAULTS)
def test_convert_error_writes_nothing(name, coco, capsys):
    change, word = CONVERT_FAULTS[name]
    write_image(coco / 'train/a/0.bmp', smooth(77))
    content = json.loads((coco / 'train.json').read_text())
    change(content)
    (coco / 'train.json').write_text(json.dumps(content))
    before = sorted(coco.rglob('*'))
    assert mmflatten('data convert train.json --images train --to yolo --out yolo') == 2
    assert word in capsys.readouterr().err.splitlines()[-1] and sorted(coco.rglob('*')) == before


@pytest.mark.parametrize('words, number', [('train.json val.json train.json --to yolo', 3),
                                           ('train val --to 8bit --range 0 4000', 2)])
def test_convert_refuses_sources_that_it_would_not_write(words, number, coco, capsys):
    assert mmflatten(f'data convert {words} --out new') == 2
    assert f'got {number} paths' in capsys.readouterr().err.splitlines()[-1] and not (coco / 'new').exists()


def test_convert_splits_one_part_and_keeps_existing_folders(coco, capsys):
    assert mmflatten('data convert train.json --images train --to yolo --out yolo --val-share 0.25') == 0
    assert len(list((coco / 'yolo/images/val').rglob('*.png'))) == 1
    assert mmflatten('data convert train.json --images train --to coco --out yolo') == 2
    assert '--out yolo' in capsys.readouterr().err and (coco / 'yolo/data.yaml').exists()


def test_folds_keep_the_fraction_of_every_class():
    classes = {str(i): {'common'} | ({'rare'} if i % 8 == 0 else set()) | ({'pair'} if i % 20 < 2 else set())
               for i in range(80)}
    folds = stratified_folds(classes, 5, 0)
    for name in ('common', 'rare', 'pair'):
        counts = Counter(folds[key] for key, names in classes.items() if name in names)
        total = sum(counts.values())
        assert all(abs(counts[fold] - total / 5) <= 1 for fold in range(5)), (name, counts)
    assert set(Counter(folds.values()).values()) <= {15, 16, 17}
    assert stratified_folds(dict(reversed(classes.items())), 5, 0) == folds != stratified_folds(classes, 5, 1)


def test_folds_of_a_classifier_cover_all_images_and_train(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for i in range(12):
        write_image(Path('photos', 'rare' if i < 3 else 'common', f'{i}.png'), smooth(i))
    shutil.copy('photos/rare/0.png', 'photos/rare/copy.png')
    words = f'init --task cls --images photos --base {CLASSIFIER} --out mine.py --folds 3'
    assert mmflatten(words) == 0
    assert 'fold 3: ' in capsys.readouterr().out
    parts = [[set(Path(f'mine_fold{fold}_{part}.txt').read_text().splitlines()) for part in ('train', 'val')]
             for fold in (1, 2, 3)]
    assert all(len(train | val) == 13 and not train & val for train, val in parts)
    assert set.union(*(val for _, val in parts)) == parts[0][0] | parts[0][1]
    assert all({line.split()[1] for line in val} == {'0', '1'} for _, val in parts)
    assert all({'rare/0.png 1', 'rare/copy.png 1'} & val in (set(), {'rare/0.png 1', 'rare/copy.png 1'})
               for _, val in parts)
    cfg = load_config('mine_fold2.py', {
        'train_dataloader.num_workers': 0, 'train_dataloader.persistent_workers': False, 'train_cfg.max_epochs': 1,
        'val_dataloader.num_workers': 0, 'val_dataloader.persistent_workers': False}, 'run')
    runner = build_runner(cfg)
    runner.train()
    assert runner.epoch == 1
    assert mmflatten(words) == 1 and 'mine_fold1.py' in capsys.readouterr().err.splitlines()[-1]


def test_folds_of_a_detector_are_written_at_once_and_need_one_part(coco, capsys):
    words = f'init --task det --base {DETECTOR} --out mine.py --folds 2'
    assert mmflatten(f'{words} --images train --ann train.json --seed 3') == 0
    images = [{item['file_name'] for item in json.loads(Path(f'mine_fold{fold}_val.json').read_text())['images']}
              for fold in (1, 2)]
    assert images[0] | images[1] == {f'a/{i}.png' for i in range(4)} and not images[0] & images[1]
    assert load_config('mine_fold2.py').val_evaluator.ann_file.endswith('mine_fold2_val.json')
    assert mmflatten(f'{words} --force --images train val --ann train.json val.json') == 1
    assert '--folds 2' in capsys.readouterr().err.splitlines()[-1]
    assert mmflatten(f'{words} --force --images train --ann train.json --folds 9') == 1
    assert '--folds' in (line := capsys.readouterr().err.splitlines()[-1]) and 'got 9' in line


def test_near_duplicates_across_the_parts_are_named(coco, capsys):
    photo = cv2.imread('train/a/2.png')
    half = cv2.resize(photo, (WIDTH // 2, HEIGHT // 2), interpolation=cv2.INTER_AREA)
    write_image(coco / 'val/a/1.png', cv2.resize(half, (WIDTH, HEIGHT)))
    assert mmflatten('data convert train.json val.json --images train val --to coco --out out') == 0
    shown = capsys.readouterr().out
    assert f'near-duplicate in training and validation (1): {coco}/train/a/2.png ~ {coco}/val/a/1.png' in shown


def test_images_with_16_bits_are_named_and_converted_with_a_range(coco, capsys):
    deep = smooth(5, np.uint16, 4095)
    write_image(coco / 'train/a/1.png', deep)
    assert mmflatten('data convert train.json --images train --to coco --out out') == 0
    shown = capsys.readouterr().out
    assert f'image with 16 bits (1): {coco}/train/a/1.png' in shown and f'--range 0 {deep.max()}' in shown
    assert mmflatten('data convert train --to 8bit --range 95 4095 --out eight') == 0
    pixels = cv2.imread('eight/a/1.png', cv2.IMREAD_UNCHANGED)
    assert pixels.dtype == np.uint8 and np.abs(pixels - (deep - 95.).clip(0) * 255 / 4000).max() <= .5
    assert (coco / 'eight/a/0.png').read_bytes() == (coco / 'train/a/0.png').read_bytes()
    assert mmflatten('data convert train --to 8bit --range 9 3 --out other') == 2
    assert '--range' in capsys.readouterr().err and not (coco / 'other').exists()


def test_predict_warns_of_16_bits_and_takes_a_range(train_on, tmp_path, capsys):
    run = train_on('retinanet_flatten-swin-nano_fpn_digits')
    write_image(tmp_path / 'deep.png', smooth(5, np.uint16, 4095))
    words = ['predict', run.config, run.checkpoint, tmp_path / 'deep.png', '--score', 1, '--out']
    assert main([*map(str, words), str(tmp_path / 'dark')]) == 0
    assert '--range 0 ' in capsys.readouterr().err
    assert main([*map(str, words), str(tmp_path / 'bright'), '--range', '0', '4095']) == 0
    assert 'warning' not in capsys.readouterr().err
    dark, bright = (cv2.imread(str(tmp_path / name / 'drawings/deep.png')).mean() for name in ('dark', 'bright'))
    assert dark < 16 < 100 < bright
