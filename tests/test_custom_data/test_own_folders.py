"""Checks of images, label maps, class folders and stereo pairs: errors and warnings."""

import os
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from PIL import Image

from mmflatten.custom_data import images
from mmflatten.custom_data.classification import read as read_classification
from mmflatten.custom_data.images import find_images, picture_problems, read_pictures
from mmflatten.custom_data.reading import DataError, Request
from mmflatten.custom_data.segmentation import read as read_segmentation
from mmflatten.custom_data.stereo import read as read_stereo
from mmflatten.datasets.stereo import write_pfm

SIZE = (48, 64)  # height, width
BASE = Config(dict(model=dict(max_disp=48)))
NOT_UTF8 = os.fsdecode(b'a\xe9')


def write_image(path: Path, seed: int, size: tuple[int, int] = SIZE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8))
    return path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -len(path.read_bytes()) // 2])


def request(folder: Path, *images: Path, **options) -> Request:
    return Request('', images, '', folder / 'mine.py', val_share=0.25, **options)


def found(data) -> dict[str, bool]:
    return {problem.name: problem.stops for problem in data.problems}


def test_folder_without_images_is_an_error(tmp_path):
    (tmp_path / 'notes.txt').write_text('no image')
    with pytest.raises(DataError, match=f'{tmp_path} has no image'):
        find_images(tmp_path)
    with pytest.raises(FileNotFoundError, match='gone'):
        find_images(tmp_path / 'gone')


def test_image_above_pixel_limit_is_broken(tmp_path, monkeypatch):
    path = write_image(tmp_path / '0.png', 0)
    monkeypatch.setattr('PIL.Image.MAX_IMAGE_PIXELS', 100)
    (problem,) = picture_problems(read_pictures([path]), [path], [])
    assert problem.stops and str(path) in str(problem)


def test_progress_bar_appears_above_threshold(tmp_path, capsys, monkeypatch):
    paths = [write_image(tmp_path / f'{i}.png', i) for i in range(6)]
    few = read_pictures(paths)
    assert capsys.readouterr().err == ''
    monkeypatch.setattr(images, 'PROGRESS_THRESHOLD', 6)
    assert read_pictures(paths) == few and '6/6' in capsys.readouterr().err


@pytest.mark.parametrize('suffix', ['png', 'jpg'])
def test_broken_and_truncated_images_are_named(suffix, tmp_path):
    paths = [
        write_image(tmp_path / f'{name}.{suffix}', seed)
        for seed, name in enumerate(('good', 'cut', 'text'))
    ]
    truncate(paths[1])
    paths[2].write_text('no image')
    (problem,) = picture_problems(read_pictures(paths), paths, [])
    assert problem.stops
    assert problem.name == 'broken image'
    assert problem.where == [str(path) for path in paths[1:]]


def test_pipes_and_foreign_formats_are_broken_images_and_not_waited_for(tmp_path, capfd):
    good = write_image(tmp_path / 'good.png', 0)
    os.mkfifo(tmp_path / 'pipe.png')
    (tmp_path / 'zero.png').symlink_to('/dev/zero')
    (tmp_path / 'self.png').symlink_to('self.png')
    Image.new('RGB', (9, 9)).save(tmp_path / 'script.png', 'EPS')  # Pillow would start Ghostscript
    damaged = bytearray(good.read_bytes())
    damaged[-30:-20] = bytes(10)
    (tmp_path / 'damaged.png').write_bytes(damaged)
    paths = find_images(tmp_path)
    (problem,) = picture_problems(read_pictures(paths), paths, [])
    assert sorted(problem.where) == sorted(str(path) for path in paths if path != good)
    assert len(paths) == 6
    assert capfd.readouterr().err == ''


@pytest.fixture
def maps(tmp_path) -> Path:
    for i in range(6):
        write_image(tmp_path / 'images' / f'{i}.png', i)
        labels = np.zeros(SIZE, np.uint8)
        labels[:20], labels[20:24] = 1, 255
        (tmp_path / 'maps').mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / 'maps' / f'{i}.png'), labels)
    return tmp_path


def segmentation(folder: Path, classes=('sky', 'ground')):
    return read_segmentation(
        request(folder, folder / 'images', ann=[folder / 'maps'], classes=classes), BASE
    )


def test_valid_label_maps_are_split(maps):
    (maps / 'classes.txt').write_text('sky\nground\n')
    data = segmentation(maps, None)
    assert not data.problems and data.classes == ('sky', 'ground') and data.counts == (4, 2)
    assert sorted(''.join(data.lists.values()).split()) == list('012345')
    (maps / 'classes.txt').unlink()
    with pytest.raises(DataError, match='(?s)--classes.*classes.txt'):
        segmentation(maps, None)


MAPS = {
    'image without a label map': lambda path: path.unlink(),
    'label map without an image': lambda path: path.with_name('more.png').write_bytes(
        path.read_bytes()
    ),
    'unreadable label map': lambda path: path.write_text('no image'),
    'label map with colours': lambda path: cv2.imwrite(str(path), np.zeros((*SIZE, 3), np.uint8)),
    'label map size differs from its image': lambda path: cv2.imwrite(
        str(path), np.zeros((8, 8), np.uint8)
    ),
    'label value without a class': lambda path: cv2.imwrite(str(path), np.full(SIZE, 7, np.uint8)),
}


@pytest.mark.parametrize('name', MAPS)
def test_label_map_problem_is_named(name, maps):
    MAPS[name](maps / 'maps' / '3.png')
    assert found(segmentation(maps)) == {name: name != 'label map without an image'}


@pytest.mark.parametrize('mode', ['1', 'P', 'I;16'])
def test_label_maps_of_every_depth_are_read_like_mmseg(mode, maps):
    dtype = {'1': bool, 'P': np.uint8, 'I;16': np.uint16}[mode]
    for path in (maps / 'maps').iterdir():
        labels = np.zeros(SIZE, dtype)
        labels[:12] = 1
        label_map = Image.fromarray(labels)
        if mode == 'P':
            label_map.putpalette([90, 0, 0, 0, 90, 0])
        label_map.save(path)
        assert Image.open(path).mode == mode
    data = segmentation(maps)
    assert not data.problems and 'class ground (value 1): 25.0% of the pixels' in data.facts


@pytest.mark.parametrize('name', ['a\nb', ' a ', NOT_UTF8])
def test_file_names_unfit_for_a_list_are_an_error(name, maps, classes, stereo):
    for path in [*maps.glob('*/0.*'), classes / 'data' / 'cat']:
        path.rename(path.with_name(name + path.suffix))
    for read in (segmentation, classification, disparities):
        with pytest.raises(DataError, match=re.escape(repr(name)[:-1])):
            read(maps)


@pytest.fixture
def classes(tmp_path) -> Path:
    for name, first in (('cat', 0), ('dog', 10)):
        for i in range(5):
            write_image(tmp_path / 'data' / name / f'{i}.png', first + i)
    return tmp_path


def classification(folder: Path, name: str = 'data'):
    return read_classification(request(folder, folder / name), BASE)


def test_class_folders_are_split_per_class(classes):
    data = classification(classes)
    assert not data.problems and data.classes == ('cat', 'dog') and data.counts == (8, 2)
    assert [line.split()[1] for line in [*data.lists.values()][1].splitlines()] == ['0', '1']


def test_class_folder_problems_are_named(classes):
    (classes / 'data' / 'empty').mkdir()
    assert found(classification(classes)) == {'class folder without images': True}
    (classes / 'data' / 'empty').rmdir()
    for name in ('cat', 'cow'):
        write_image(classes / 'val' / name / '0.png', 30 + len(name + name[-1]) + ord(name[1]))
    data = read_classification(request(classes, classes / 'data', classes / 'val'), BASE)
    assert found(data) == {'class folder in only one part': True}


def test_class_too_small_to_split_is_named(classes):
    path = write_image(classes / 'data' / 'cow' / '0.png', 20)
    for name in ('0.png', 'copy.png'):
        path.with_name(name).write_bytes(path.read_bytes())
        with pytest.raises(DataError, match=f'cow/{name}'):
            classification(classes)


@pytest.mark.parametrize(
    'name',
    [
        '.ipynb_checkpoints/0.txt',
        '.ipynb_checkpoints/0.png',
        'cat/.ipynb_checkpoints/0.png',
        'cat/._0.png',
        'cat/folder.png/0.txt',
    ],
)
def test_hidden_files_and_folders_are_skipped(name, classes):
    root = (classes / 'data').rename(classes / '.data')
    before = classification(classes, root.name)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text('no image')
    assert classification(classes, root.name) == before and before.counts == (8, 2)


@pytest.fixture
def stereo(tmp_path) -> Path:
    for i in range(4):
        for side, seed in (('left', i), ('right', 10 + i)):
            write_image(tmp_path / side / f'{i}.png', seed)
        (tmp_path / 'disparity').mkdir(exist_ok=True)
        write_pfm(tmp_path / 'disparity' / f'{i}.pfm', np.full(SIZE, 5, np.float32))
    return tmp_path


def disparities(folder: Path):
    return read_stereo(request(folder, folder), BASE)


@pytest.mark.parametrize(
    'name, read',
    [
        ('images', segmentation),
        ('data/cat', classification),
        ('left', disparities),
        ('right', disparities),
    ],
)
def test_dangling_link_is_a_broken_image(name, read, maps, classes, stereo):
    (maps / name / '1.png').unlink()
    (maps / name / '1.png').symlink_to('gone')
    (problem,) = read(maps).problems
    assert problem.stops
    assert problem.name == 'broken image'
    assert problem.where == [str(maps / name / '1.png')]


PAIRS = {
    'left image without a right image': lambda root: (root / 'right' / '1.png').unlink(),
    'image sizes of a pair differ': lambda root: write_image(root / 'right' / '1.png', 99, (8, 8)),
    'pair without a disparity': lambda root: (root / 'disparity' / '1.pfm').unlink(),
    'unreadable disparity': lambda root: truncate(root / 'disparity' / '1.pfm'),
    'disparity size differs from its image': lambda root: write_pfm(
        root / 'disparity' / '1.pfm', np.zeros((8, 8))
    ),
    'negative disparity': lambda root: write_pfm(root / 'disparity' / '1.pfm', np.full(SIZE, -5)),
    'disparity beyond max_disp': lambda root: write_pfm(
        root / 'disparity' / '1.pfm', np.full(SIZE, 90)
    ),
    'disparity of 0': lambda root: write_pfm(root / 'disparity' / '1.pfm', 5 * np.eye(*SIZE)),
    'broken image': lambda root: truncate(root / 'left' / '1.png'),
}


@pytest.mark.parametrize('name', PAIRS)
def test_stereo_pair_problem_is_named(name, stereo):
    assert not disparities(stereo).problems
    PAIRS[name](stereo)
    assert found(disparities(stereo)) == {
        name: name not in ('disparity beyond max_disp', 'disparity of 0')
    }


def test_few_zeros_and_unknown_pixels_are_no_problem(stereo):
    values = np.full(SIZE, 5, np.float32)
    values[:2], values[2:40] = 0, np.inf
    write_pfm(stereo / 'disparity' / '1.pfm', values)
    assert not disparities(stereo).problems


@pytest.mark.parametrize('swap', [(), ('images',), ('images', 'disparity')])
def test_swapped_sides_are_an_error(swap, tmp_path):
    """A near square before a far background: the right image shows both further to the left, by 9
    and 3 pixels.
    """
    for number in range(3):
        rng = np.random.default_rng(number)
        pixels = np.kron(rng.integers(0, 256, (16, 24, 3)), np.ones((3, 3, 1))).astype(np.uint8)
        square = np.kron(rng.integers(0, 256, (5, 5, 3)), np.ones((4, 4, 1)))
        views = {'left': pixels[:, :64].copy(), 'right': pixels[:, 3:67].copy()}
        disparity = {side: np.full(SIZE, 3, np.float32) for side in views}
        for side, start in (('left', 30), ('right', 21)):
            views[side][10:30, start : start + 20], disparity[side][10:30, start : start + 20] = (
                square,
                9,
            )
        for side, other in (('left', 'right'), ('right', 'left')):
            (tmp_path / side).mkdir(exist_ok=True)
            cv2.imwrite(
                str(tmp_path / side / f'{number}.png'), views[other if 'images' in swap else side]
            )
        (tmp_path / 'disparity').mkdir(exist_ok=True)
        write_pfm(
            tmp_path / 'disparity' / f'{number}.pfm',
            disparity['right' if 'disparity' in swap else 'left'],
        )
    assert found(disparities(tmp_path)) == ({'left and right swapped': True} if swap else {})
