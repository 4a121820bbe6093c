"""`mmflatten data digits`: files, errors and interruptions."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO
from sklearn.datasets import load_digits

from mmflatten.cli.data import main
from mmflatten.datasets.build import MANIFEST, content_hash, is_finished
from mmflatten.datasets.scenes.build import SceneOptions, build_scenes

REPOSITORY = Path(__file__).parents[2]
SCRIPT = REPOSITORY / 'tools' / 'dataset' / 'prepare_digits.py'
FOLDERS = {'train': 'training', 'val': 'validation'}
KIND = 'digit scenes'
TINY = SceneOptions(train=3, val=2, size=64)


def start(*arguments) -> subprocess.Popen:
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get('PYTHONPATH')]))
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=path),
    )


def call(*arguments) -> int:
    """Run the command in this process and return its exit status."""
    # shells ignore it for background processes
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return main(['digits', *map(str, arguments)])
    except SystemExit as error:  # from argparse
        return error.code
    finally:
        signal.signal(signal.SIGINT, handler)


def files(root: Path) -> dict:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob('*')
        if path.is_file()
    }


def wait_for(condition, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_command_writes_the_same_bytes_as_library(tmp_path, capsys):
    assert call('--out', tmp_path / 'a', '--train', 3, '--val', 2, '--size', 64) == 0
    assert '3 training and 2 validation' in capsys.readouterr().out
    build_scenes(tmp_path / 'b', TINY)
    assert files(tmp_path / 'a') == files(tmp_path / 'b')
    assert len(files(tmp_path / 'a')) > 15


def test_seed_changes_scenes(tmp_path):
    build_scenes(tmp_path / 'a', TINY)
    build_scenes(tmp_path / 'b', SceneOptions(train=3, val=2, size=64, seed=1))
    name = 'images/training/000000.png'
    assert files(tmp_path / 'a')[name] != files(tmp_path / 'b')[name]


def test_scene_does_not_depend_on_number_of_scenes(tmp_path):
    build_scenes(tmp_path / 'a', TINY)
    build_scenes(tmp_path / 'b', SceneOptions(train=5, val=1, size=64))
    few, many = files(tmp_path / 'a'), files(tmp_path / 'b')
    for name in (
        'images/training/000002.png',
        'images/validation/000000.png',
        'annotations/training/000002.png',
    ):
        assert few[name] == many[name]


@pytest.mark.parametrize('split', ['train', 'val'])
def test_boxes_masks_and_index_maps_agree(digit_root, split):
    coco = COCO(digit_root / 'annotations' / f'instances_{split}.json')
    assert [category['name'] for category in coco.loadCats(coco.getCatIds())] == list('0123456789')
    for image in coco.loadImgs(coco.getImgIds()):
        index_map = np.asarray(
            Image.open(digit_root / 'annotations' / FOLDERS[split] / image['file_name'])
        )
        picture = np.asarray(
            Image.open(digit_root / 'images' / FOLDERS[split] / image['file_name'])
        )
        assert index_map.shape == picture.shape[:2] == (image['height'], image['width'])
        expected = np.zeros_like(index_map)
        for item in coco.loadAnns(coco.getAnnIds(imgIds=image['id'])):
            mask = coco.annToMask(item).astype(bool)
            x, y, width, height = item['bbox']
            inside = mask[y : y + height, x : x + width]
            assert inside.sum() == mask.sum() == item['area'] > 0 and item['iscrowd'] == 0
            assert inside[0].any()
            assert inside[-1].any()
            assert inside[:, 0].any()
            assert inside[:, -1].any()
            assert (expected[mask] == 0).all(), 'visible masks are disjoint'
            expected[mask] = item['category_id'] + 1
        np.testing.assert_array_equal(np.where(index_map >= 2, index_map, 0), expected)
        assert (index_map == 1).any() and 0 < (index_map == 0).mean() < 0.2


def test_splits_share_no_digit_and_no_background(digit_root):
    glyphs, columns, target = {}, {}, load_digits().target
    for split in FOLDERS:
        content = json.loads((digit_root / 'annotations' / f'instances_{split}.json').read_text())
        glyphs[split] = {item['glyph'] for item in content['annotations']}
        columns[split] = [image['background']['box'] for image in content['images']]
        assert all(
            target[item['glyph']] == item['category_id'] - 1 for item in content['annotations']
        )
    assert not glyphs['train'] & glyphs['val']
    assert max(x + width for x, _, width, _ in columns['train']) <= min(
        x for x, _, _, _ in columns['val']
    )


@pytest.mark.parametrize('split', ['train', 'val'])
def test_crops_are_in_class_folders(digit_root, split):
    coco = json.loads((digit_root / 'annotations' / f'instances_{split}.json').read_text())
    wanted = Counter(str(item['category_id'] - 1) for item in coco['annotations'])
    folder = digit_root / 'crops' / split
    assert sorted(path.name for path in folder.iterdir()) == list('0123456789')
    assert {path.name: len(list(path.iterdir())) for path in folder.iterdir()} == {
        digit: wanted[digit] for digit in '0123456789'
    }
    for path in folder.rglob('*.png'):
        with Image.open(path) as crop:
            assert crop.mode == 'RGB' and crop.width == crop.height >= 12


def test_manifest_has_options_counts_and_hash(digit_root, digit_options):
    manifest = json.loads((digit_root / MANIFEST).read_text())
    assert manifest['name'] == KIND
    assert manifest['options'] == dict(train=12, val=6, size=96, seed=0)
    assert manifest['scenes'] == dict(train=12, val=6)
    assert manifest['instances']['train'] == len(
        list((digit_root / 'crops' / 'train').rglob('*.png'))
    )
    assert manifest['sha256'] == content_hash(digit_root)
    assert is_finished(digit_root, KIND, digit_options)


def test_finished_data_set_is_not_rebuilt(tmp_path, capsys):
    build_scenes(tmp_path / 'digits', TINY)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*')}
    assert call('--out', tmp_path / 'digits', '--train', 3, '--val', 2, '--size', 64) == 0
    assert 'nothing to do' in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*')}


def test_other_options_and_damage_require_force(tmp_path):
    root = tmp_path / 'digits'
    build_scenes(root, TINY)
    with pytest.raises(FileExistsError, match='train=3 .*--force'):
        build_scenes(root, SceneOptions(train=4, val=2, size=64))
    (root / 'images' / 'training' / '000001.png').unlink()
    with pytest.raises(FileExistsError, match='changed or damaged.*--force'):
        build_scenes(root, TINY)
    build_scenes(root, TINY, force=True)
    assert is_finished(root, KIND, TINY)
    assert [path.name for path in tmp_path.iterdir()] == ['digits']


def test_full_disk_error_leaves_nothing(tmp_path, capsys, monkeypatch):
    def fail(*args):
        raise OSError(errno.EFBIG, 'File too large')

    monkeypatch.setattr('mmflatten.datasets.build.content_hash', fail)  # before the last file
    assert call('--out', tmp_path / 'digits', '--train', 3, '--val', 2, '--size', 64) == 1
    error = capsys.readouterr().err
    assert f'{tmp_path}/digits' in error and 'ulimit' in error.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_foreign_folder_is_not_replaced(tmp_path):
    (tmp_path / 'thesis.txt').write_text('years of work')
    with pytest.raises(FileExistsError, match='other files than digit scenes'):
        build_scenes(tmp_path, TINY, force=True)
    assert (tmp_path / 'thesis.txt').read_text() == 'years of work'


def test_error_during_build_leaves_nothing(tmp_path):
    calls = []

    def fail_on_the_second_scene():
        calls.append(None)
        if len(calls) == 2:
            raise OSError('No space left on device')

    with pytest.raises(OSError, match='No space left'):
        build_scenes(tmp_path / 'digits', TINY, on_image=fail_on_the_second_scene)
    assert list(tmp_path.iterdir()) == []


def test_error_during_replacement_keeps_the_old_data_set(tmp_path):
    build_scenes(tmp_path / 'digits', TINY)

    def fail():
        raise OSError('No space left on device')

    with pytest.raises(OSError, match='No space left'):
        build_scenes(tmp_path / 'digits', SceneOptions(4, 1, 64), force=True, on_image=fail)
    assert is_finished(tmp_path / 'digits', KIND, TINY)
    assert [path.name for path in tmp_path.iterdir()] == ['digits']


def test_interrupted_command_leaves_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        'mmflatten.datasets.build.content_hash', lambda _: signal.raise_signal(signal.SIGINT)
    )
    assert call('--out', tmp_path / 'digits', '--train', 3, '--val', 2, '--size', 64) == 130
    assert 'interrupted' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_next_build_removes_files_of_a_killed_process(tmp_path):
    process = start('--out', tmp_path / 'digits', '--train', 100000)
    wait_for(lambda: list(tmp_path.glob('.digits.*.part/digits/images/training/*.png')))
    process.kill()
    process.communicate(timeout=60)
    assert not (tmp_path / 'digits').exists()
    build_scenes(tmp_path / 'digits', TINY)
    assert [path.name for path in tmp_path.iterdir()] == ['digits']


@pytest.mark.parametrize(
    'name, value', [('train', 0), ('val', -1), ('size', 31), ('size', 1025), ('seed', -1)]
)
def test_option_out_of_range_is_an_error(name, value):
    with pytest.raises(ValueError, match=f'{name} must be between .* got {value}'):
        SceneOptions(**{name: value})


@pytest.mark.parametrize(
    'arguments, message',
    [
        (('--size', '16'), 'size must be between 32 and 1024, got 16'),
        (('--train', '0'), 'train must be between 1 and'),
        (('--val', 'many'), "invalid int value: 'many'"),
        (('--out', 'FILE'), 'is a file. Choose a folder.'),
        (('--out', 'FILE/below'), 'is a file. Choose a folder.'),
    ],
)
def test_invalid_arguments_end_with_one_message(tmp_path, capsys, arguments, message):
    (tmp_path / 'FILE').write_text('')
    arguments = [str(tmp_path / part) if part.startswith('FILE') else part for part in arguments]
    assert call('--out', tmp_path / 'digits', *arguments) == (2 if 'many' in arguments else 1)
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ['FILE']
