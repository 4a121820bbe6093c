"""Folders and files as other tools and systems write them are read as meant, or named."""

import codecs
import json
import os
import unicodedata
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.custom_data import classification, detection, segmentation
from mmflatten.custom_data.images import find_images, picture_problems, read_pictures, split_folders
from mmflatten.custom_data.label_formats import read_labels
from mmflatten.custom_data.reading import DataError, Request
from mmflatten.datasets.storage import read_rgb
from tests.test_custom_data.small_data import SIZE, coco, found, request, write_image


@pytest.mark.parametrize(
    'names',
    [
        ('train', 'valid', 'test'),
        ('train', 'validation', 'test'),
        ('Train', 'Val', 'Test'),
        ('training', 'dev'),
        ('TRAIN', 'TEST'),
        ('train', 'val'),
    ],
)
def test_split_folders_are_no_classes(names, tmp_path, capsys):
    for number, name in enumerate(names):
        for i in range(3):
            write_image(tmp_path / name / 'cat' / f'{i}.png', seed=10 * number + i)
            write_image(tmp_path / name / 'dog' / f'{i}.png', seed=10 * number + i + 100)
    data = classification.read(Request('cls', [tmp_path], '', tmp_path / 'mine.py'), None)
    assert data.classes == ('cat', 'dog') and data.counts == (6, 6)
    assert [part['data_prefix'].name for part in (data.train, data.val)] == list(names[:2])
    assert (f'not used: {tmp_path / names[-1]}' in capsys.readouterr().err) == (len(names) == 3)


def test_splits_that_cannot_be_told_apart(tmp_path):
    for name in ('train', 'training', 'val'):
        (tmp_path / name).mkdir()
    with pytest.raises(DataError, match='--images TRAIN VALIDATION'):
        split_folders([tmp_path])


def test_classes_may_have_names_of_splits(tmp_path):
    for name in ('train', 'bus', 'test'):
        (tmp_path / name).mkdir()
    assert split_folders([tmp_path]) == [tmp_path]


@pytest.mark.parametrize('suffix', ['.jfif', '.GIF', '.jpe', '.avif', '.heic', '.jp2', '.pgm'])
def test_images_of_other_types_are_named(suffix, tmp_path):
    write_image(tmp_path / 'a' / '0.png', 0)
    (tmp_path / 'a' / f'x{suffix}').write_bytes(b'x')
    with pytest.raises(DataError, match=f'x{suffix}'):
        find_images(tmp_path)


def test_linked_folders_are_followed_once(tmp_path):
    write_image(tmp_path / 'disk' / 'deep' / '0.png', 0)
    (tmp_path / 'data').mkdir()
    (tmp_path / 'data' / 'train2017').symlink_to(tmp_path / 'disk')
    (tmp_path / 'disk' / 'circle').symlink_to(tmp_path / 'data')
    assert find_images(tmp_path / 'data') == [tmp_path / 'data' / 'train2017' / 'deep' / '0.png']


NAMES = {
    'backslashes': ('sub/{}.png', 'sub\\{}.png'),
    'folder in the name': ('{}.png', 'images\\{}.png'),
    'Unicode forms': (
        unicodedata.normalize('NFD', 'é{}.png'),
        unicodedata.normalize('NFC', 'é{}.png'),
    ),
    'other Unicode form': (
        unicodedata.normalize('NFC', 'ắ{}.png'),
        unicodedata.normalize('NFD', 'ắ{}.png'),
    ),
}


@pytest.mark.parametrize('name', NAMES)
def test_file_names_of_other_systems(name, tmp_path):
    on_disk, written = NAMES[name]
    content = coco()
    for i, image in enumerate(content['images']):
        write_image(tmp_path / 'images' / on_disk.format(i), i)
        image['file_name'] = written.format(i)
    (tmp_path / '0.json').write_text(json.dumps(content))
    data = detection.read(request(tmp_path, tmp_path / '0.json'), None)
    assert not data.problems and sum(data.counts) == 6
    images = []
    for text in data.lists.values():
        images += json.loads(text)['images']
    assert len(images) == 6
    for image in images:
        assert Path(data.train['data_prefix']['img'], image['file_name']).is_file()
    lines = ['image\tlabel']
    for i, image in enumerate(content['images']):
        lines.append(f'{image["file_name"]}\t{"ab"[i % 2]}')
    (tmp_path / 'list.csv').write_text('\n'.join(lines) + '\n')
    parts, problems = classification.read_table(tmp_path / 'list.csv', tmp_path / 'images')
    assert {label: len(paths) for label, paths in parts.items()} == dict(a=3, b=3) and not problems


def test_byte_order_marks(folder):
    (folder / '0.json').write_bytes(codecs.BOM_UTF8 + json.dumps(coco()).encode())
    data = detection.read(request(folder, folder / '0.json', folder / '0.json'), None)
    assert all(not text.startswith('\ufeff') for text in data.lists.values())
    assert len(data.lists) == 2
    for name, text in (
        ('classes.txt', 'red\ngreen\n'),
        *((f'{i}.txt', '0 .5 .5 .5 .5\n') for i in range(6)),
    ):
        (folder / 'images' / name).write_bytes(codecs.BOM_UTF8 + text.encode())
    (part,) = read_labels(
        Request('det', [folder / 'images'], '', folder / 'm.py', [folder / 'images'])
    )
    assert part.names == ['red', 'green']
    assert len(part.content['annotations']) == 6
    assert not any(part.faults.values())


def test_names_of_two_images(folder):
    write_image(folder / 'images' / '0.jpg', 9)
    (folder / 'list.csv').write_text('image,label\n0,a\n1,b\n2.png,a\n')
    _, problems = classification.read_table(folder / 'list.csv', folder / 'images')
    (problem,) = problems
    assert problem.name == 'name of two images' and problem.stops and '(0)' in problem.where[0]


@pytest.mark.parametrize(
    'line',
    ['0 .5 .5 .4 .4 .5 .5 2', '0 .5 .5 .4 .4 .5 .5 2 0 0 0', '0 .5 .5 .4 .4 .5 .5 1 .6 .6 2'],
)
def test_keypoints_of_yolo_are_no_polygons(line, folder):
    (folder / 'images' / 'classes.txt').write_text('person\n')
    for i in range(6):
        (folder / 'images' / f'{i}.txt').write_text(line)
    (part,) = read_labels(
        Request('det', [folder / 'images'], '', folder / 'm.py', [folder / 'images'])
    )
    assert len(part.faults['keypoints']) == 6 and not part.content['annotations']


SHAPES = {
    'without shape_type': {},
    'mask': dict(shape_type='mask'),
    'rotation': dict(shape_type='rotation'),
}


@pytest.mark.parametrize('name', SHAPES)
def test_shapes_and_reserved_names_of_labelme(name, folder):
    points = [[4, 6], [23, 25]] if name == 'mask' else [[4, 6], [23, 6], [23, 25], [4, 25]]
    for i in range(6):
        shapes = [
            dict(label=label, points=points, **SHAPES[name])
            for label in ('__ignore__', 'red', '_background_')
        ]
        (folder / 'images' / f'{i}.json').write_text(
            json.dumps(dict(imagePath=f'{i}.png', shapes=shapes))
        )
    (part,) = read_labels(
        Request('det', [folder / 'images'], '', folder / 'm.py', [folder / 'images'])
    )
    assert part.names == ['red']
    assert [entry['bbox'] for entry in part.content['annotations']] == [[4, 6, 19, 19]] * 6


def masks(root, values, dtype=np.uint8):
    for i in range(6):
        write_image(root / 'images' / f'{i}.png', i)
        label_map = np.zeros(SIZE, dtype)
        label_map[:24] = values[i % len(values)]
        (root / 'masks').mkdir(exist_ok=True)
        cv2.imwrite(str(root / 'masks' / f'{i}.png'), label_map)


@pytest.mark.parametrize(
    'values, dtype, problem',
    [
        ([255], np.uint8, 'class without pixels'),
        ([1, 1, 0], np.uint8, None),
        ([257], np.uint16, 'label value above 255'),
        ([65535], np.uint16, 'label value above 255'),
        ([7], np.uint8, 'label value without a class'),
    ],
)
def test_label_maps_that_cannot_be_learned(values, dtype, problem, tmp_path):
    masks(tmp_path, values, dtype)
    data = segmentation.read(
        Request(
            'seg',
            [tmp_path / 'images'],
            '',
            tmp_path / 'mine.py',
            [tmp_path / 'masks'],
            ['background', 'object'],
        ),
        None,
    )
    assert found(data).get(problem) is (True if problem else None)


@pytest.mark.parametrize('number', [1, 256, 300])
def test_number_of_classes_of_label_maps(number, tmp_path):
    masks(tmp_path, [1])
    with pytest.raises(DataError, match=f'got {number}'):
        segmentation.read(
            Request(
                'seg',
                [tmp_path / 'images'],
                '',
                tmp_path / 'mine.py',
                [tmp_path / 'masks'],
                [f'c{i}' for i in range(number)],
            ),
            None,
        )


@pytest.mark.parametrize('names', [('train', 'valid'), ('Train', 'Test')])
def test_split_of_a_segmentation_set(names, tmp_path):
    for number, name in enumerate(names):
        for i in range(3):
            write_image(tmp_path / 'images' / name / f'{i}.png', 10 * number + i)
            (tmp_path / 'masks' / name).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(
                os.fspath(tmp_path / 'masks' / name / f'{i}.png'), np.eye(*SIZE, dtype=np.uint8)
            )
    data = segmentation.read(
        Request(
            'seg',
            [tmp_path / 'images'],
            '',
            tmp_path / 'mine.py',
            [tmp_path / 'masks'],
            ['background', 'object'],
        ),
        None,
    )
    assert data.counts == (3, 3) and data.train['data_prefix']['img_path'].name == names[0]


PIXELS = np.random.default_rng(0).integers(0, 255, SIZE, np.uint8)
TIFFS = {  # name: pages, and what is said (an error for True)
    'grey': ([PIXELS], None),
    'colours': ([np.dstack([PIXELS] * 3)], None),
    'float': ([PIXELS.astype(np.float32) / 255], (' (mode F of Pillow, 1 pages)', True)),
    'double': ([PIXELS.astype(np.float64)], ('', True)),
    'float colours': ([np.dstack([PIXELS] * 3).astype(np.float32)], ('', True)),
    'whole numbers': ([PIXELS.astype(np.int32)], (' (mode I of Pillow, 1 pages)', True)),
    'four bands': ([np.dstack([PIXELS] * 4)], (' (mode RGBA of Pillow, 1 pages)', False)),
    'four deep bands': (
        [np.dstack([PIXELS] * 4).astype(np.uint16)],
        (' (mode RGBA of Pillow, 1 pages)', False),
    ),
    'pages': ([PIXELS, PIXELS], (' (mode L of Pillow, 2 pages)', False)),
}


@pytest.mark.parametrize('name', TIFFS)
def test_tiffs_of_which_training_reads_a_part_or_nothing(name, tmp_path):
    pages, expected = TIFFS[name]
    file = tmp_path / 'a.tif'
    file.write_bytes(cv2.imencodemulti('.tif', pages)[1].tobytes())
    picture = read_pictures([file])[file]
    assert (picture.size is None) == (expected is not None and expected[1])
    found = picture_problems({file: picture}, [file], [])
    assert [(problem.where, problem.stops) for problem in found] == (
        [([f'{file}{expected[0]}'], expected[1])] if expected else []
    )
    if picture.size is None:
        assert 'TIFF' in (found[0].fix if not expected[0] else found[0].name)
        with pytest.raises(ValueError, match='a.tif cannot be decoded.*floats or 32 bits'):
            read_rgb(str(file))


LABEL_MAP_NAMES = {  # names of an image and of its label map
    'capitals': ('images/{}.JPG', 'masks/{}.PNG'),
    'TIFF': ('images/{}.tif', 'masks/{}.tif'),
    'ending': ('images/{}.jpg', 'masks/{}_mask.png'),
    'cityscapes': (
        'images/{}_leftImg8bit.png',
        'masks/{}_gtFine_labelTrainIds.png',
        'masks/{}_gtFine_color.png',
        'masks/{}_gtFine_labelIds.png',
    ),
}


@pytest.mark.parametrize('kind', LABEL_MAP_NAMES)
def test_label_maps_of_other_names_are_found(kind, tmp_path):
    image, label_map, *others = LABEL_MAP_NAMES[kind]
    names = ['town/town_1', 'town/town_10', 'town/town_2', 'city/city_1']
    for number, name in enumerate(names):
        write_image(tmp_path / image.format(name), number)
        for file in (label_map, *others):
            (tmp_path / file.format(name)).parent.mkdir(parents=True, exist_ok=True)
            values = np.full(SIZE, 9, np.uint8) if file in others else np.eye(*SIZE, dtype=np.uint8)
            cv2.imwrite(str(tmp_path / file.format(name)), values)
    data = segmentation.read(
        Request(
            'seg',
            [tmp_path / 'images'],
            '',
            tmp_path / 'mine.py',
            [tmp_path / 'masks'],
            ['background', 'object'],
        ),
        None,
    )
    assert not data.problems
    found = set()
    for line in ''.join(data.lists.values()).splitlines():
        fields = data.train
        found.add(fields['data_prefix']['img_path'] / (line + fields['img_suffix']))
        assert (fields['data_prefix']['seg_map_path'] / (line + fields['seg_map_suffix'])).is_file()
    assert found == {tmp_path / image.format(name) for name in names}


def test_several_kinds_of_label_maps_are_named(tmp_path):
    for i in range(3):
        write_image(tmp_path / 'images' / f'{i}.png', i)
        for kind in ('fine', 'coarse'):
            write_image(tmp_path / 'masks' / f'{i}_{kind}.png', i)
    request = Request(
        'seg', [tmp_path / 'images'], '', tmp_path / 'm.py', [tmp_path / 'masks'], ['a', 'b']
    )
    with pytest.raises(DataError, match='_coarse.png'):
        segmentation.read(request, None)
