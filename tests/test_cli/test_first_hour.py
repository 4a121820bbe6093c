"""What stopped new users in their first hour, as command lines. Other stops are tested beside what
mends them.
"""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from mmflatten.cli.main import main

CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
DETECTOR = CONFIGS / 'retinanet_flatten-swin-nano_fpn_digits.py'


def mmflatten(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def photos(tmp_path, scenes, monkeypatch) -> Path:
    """Working folder with images and a COCO file."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(scenes / 'images' / 'training', 'photos')
    shutil.copy(scenes / 'annotations' / 'instances_train.json', 'all.json')
    return tmp_path


def test_normalised_boxes_stop_init(photos, capsys):
    content = json.loads(Path('all.json').read_text())
    sizes = {image['id']: (image['width'], image['height']) for image in content['images']}
    for annotation in content['annotations']:
        annotation['bbox'] = [
            value / sizes[annotation['image_id']][axis % 2]
            for axis, value in enumerate(annotation['bbox'])
        ]
    Path('all.json').write_text(json.dumps(content))
    assert (
        mmflatten(
            'init',
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
    line = capsys.readouterr().err.splitlines()[-1]
    assert 'boxes look normalised' in line and 'all.json' in line and not Path('mine.py').exists()


def test_check_counts_the_images_of_class_folders(scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for digit in range(10):
        shutil.copytree(
            scenes / 'crops' / 'train' / str(digit),
            tmp_path / 'mine' / ('even', 'odd')[digit % 2],
            dirs_exist_ok=True,
        )
    images = len(list(Path('mine').rglob('*.*')))
    assert (
        mmflatten(
            'init',
            '--task',
            'cls',
            '--images',
            'mine',
            '--base',
            CONFIGS / 'flatten-swin-nano_digits.py',
            '--out',
            'cls.py',
        )
        == 0
    )
    listed = len(Path('cls_train.txt').read_text().splitlines())
    assert 0 < listed < images
    capsys.readouterr()
    # the warm-up of the base is too long for so few images
    assert mmflatten('check', 'cls.py') == 1
    shown = capsys.readouterr().out
    assert 'not known' not in shown and f'{listed} images' in shown and 'warm-up ends' in shown


def test_bad_lines_of_standard_input_do_not_stop_the_others(
    train_on, scenes, tmp_path, monkeypatch, capsys
):
    run = train_on('retinanet_flatten-swin-nano_fpn_digits')
    images = sorted((scenes / 'images' / 'training').iterdir())[:2]
    (tmp_path / 'broken.png').write_bytes(b'no image')
    lines = (images[0], 'gone.png', tmp_path / 'broken.png', images[1])
    monkeypatch.setattr(sys, 'stdin', io.StringIO(''.join(f'{line}\n' for line in lines)))
    capsys.readouterr()
    status = mmflatten(
        'predict', run.config, run.checkpoint, '-', '--json', '--out', tmp_path / 'out'
    )
    shown = capsys.readouterr()
    assert status == 1
    assert 'gone.png' in shown.err
    assert 'broken.png' in shown.err.splitlines()[-1]
    assert [json.loads(line)['file'] for line in shown.out.splitlines()] == list(map(str, images))
    assert len(json.loads((tmp_path / 'out/predictions.json').read_text())['images']) == 2
