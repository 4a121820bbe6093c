"""Files of data that would crash, hang or fill the memory are refused in a line that names them."""

import json
import os
import struct
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask

from mmflatten.cli.init import main as init
from mmflatten.custom_data import images
from mmflatten.custom_data.label_formats import read_labels
from mmflatten.custom_data.reading import MAX_CLASSES, CustomData, DataError, Request
from mmflatten.datasets.image_index import Entry, ImageIndex, ImageIndexError, write_index
from mmflatten.datasets.indexed_images import IndexedImages
from mmflatten.datasets.masks import can_be_drawn, run_lengths
from mmflatten.datasets.shards import list_folder, list_shards
from mmflatten.datasets.stereo.files import write_pfm
from mmflatten.datasets.storage import ShardBackend, read_rgb
from mmflatten.datasets.used import used_by_mmdet
from mmflatten.untrusted.files import UnusableFile, read_bytes, read_text, walk_links
from mmflatten.untrusted.images import MAX_JPEG_SCANS, problem_of_image
from mmflatten.untrusted.json_files import parse_json
from mmflatten.untrusted.yaml_files import read_yaml

CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
DETECTOR = CONFIGS / 'retinanet_flatten-swin-nano_fpn_digits.py'
IMAGE = dict(width=48, height=40)
HUGE = '1' + '0' * 400


def coco(change: dict | None = None) -> str:
    """COCO file of six objects, the last of which is changed."""
    objects = [
        dict(
            id=number + 1,
            image_id=number,
            category_id=1 + number % 2,
            bbox=[2, 2, 20, 20],
            area=400,
            iscrowd=0,
            segmentation=[[2, 2, 22, 2, 22, 22]],
        )
        for number in range(6)
    ]
    objects[-1] |= change or {}
    return json.dumps(
        dict(
            images=[dict(id=n, file_name=f'{n}.png', **IMAGE) for n in range(6)],
            annotations=objects,
            categories=[dict(id=1, name='a'), dict(id=2, name='b')],
        )
    )


def labelme(
    text: str = '"points": [[2, 2], [20, 2], [20, 20]]', size: str = '"imageWidth": 48'
) -> str:
    return (
        f'{{"shapes": [{{"label": "a", "shape_type": "polygon", {text}}}], {size}, "imagePath":'
        ' "0.png"}'
    )


YOLO = 'train: photos\nval: photos\nnames: [a, b]\n'
ALIASES = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n' + ''.join(
    f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]\n' for n in range(1, 10)
)
VOC = '<?xml version="1.0" encoding="%s"?><annotation><filename>0.png</filename></annotation>'
HOSTILE = {  # name of the file: its contents; a folder is read if the file is in one
    'all.json': [
        coco(dict(bbox=[1, 1, 1, float('inf')])),
        coco().replace('400', HUGE),
        coco().replace('[2, 2, 20, 20]', f'[2, 2, 20, {HUGE}]'),
        coco().replace('400', '9' * 5000),
        '[' * 100_000,
        '',
        'null',
        '\xff',
        coco(dict(category_id=[[1]] * 1000)),
    ],
    'data.yaml': [
        ALIASES + YOLO.replace('[a, b]', '*a9'),
        ALIASES + YOLO.replace('photos\nv', '*a9\nv'),
        'a: &a [*a]',
        '[' * 20_000,
        YOLO + 'nc: ' + '9' * 5000,
        YOLO + 'nc: ' + '1:00' * 1000,
        YOLO + 'when: 2024-99-99',
        *(
            YOLO.replace('train: photos', f'train: {place}')
            for place in ('/dev/zero', '/etc/passwd', 'pipe', 'pipe.txt', '[5]', '{a: b}')
        ),
        'x: ' + 'y' * 2**21,
    ],
    'labels/0.xml': [
        VOC % 'zlib',
        VOC % 'uu',
        VOC % 'base64',
        '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        '\xff',
        VOC.replace(
            '</a',
            '<object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>1e999</xmax>'
            '<ymax>9</ymax></bndbox></object></a',
        )
        % 'utf-8',
    ],
    'labels/0.json': [
        labelme(f'"points": [[2, 2], [20, 2], [{HUGE}, 20]]'),
        '{"shapes": 5, "shapes": [5]}',
        '{"flags": {"shapes": [{}]}, "shapes": {}}',
        '[' * 100_000,
        '[]',
        '\xff',
        '{"shapes": [' + '9' * 5000 + ']}',
    ],
    'labels/0.txt': ['0 0.5 0.5 0.1 1e999\n', '0 -1e300 0 0 0 0 0\n', '\xff', '9' * 5000],
}


def give(data: Path, name: str, content: str) -> Path:
    """Write a file, and what its format needs beside it."""
    (data / 'labels').mkdir()
    os.mkfifo('pipe')
    os.mkfifo('pipe.txt')
    Path('labels/classes.txt').write_text('a\n')
    Path(name).write_text(content, encoding='latin-1')
    return Path(name).parent if '/' in name else Path(name)


def numbered(contents: dict[str, list]) -> Iterator[tuple[str, int]]:
    for name, variants in contents.items():
        for number in range(len(variants)):
            yield name, number


@pytest.mark.parametrize('name, number', list(numbered(HOSTILE)))
def test_hostile_labels_are_refused_in_a_line_that_names_the_file(data, capfd, name, number):
    ann = give(data, name, HOSTILE[name][number])
    start = time.monotonic()
    words = [
        '--task',
        'det',
        '--images',
        'photos',
        '--ann',
        str(ann),
        '--base',
        str(DETECTOR),
        '--out',
        'mine.py',
    ]
    assert init(words) == 1
    assert time.monotonic() - start < 20
    shown = capfd.readouterr().err
    assert any(file in shown.splitlines()[-1] for file in (Path(name).name, 'pipe.txt'))
    assert 'Traceback' not in shown and 'root:' not in shown
    assert len(shown) < 5000 and not Path('mine.py').exists()


@pytest.mark.parametrize('name', ['labels.csv', *HOSTILE])
@pytest.mark.parametrize('kind', ['pipe', 'device', 'loop', 'sparse'])
def test_only_regular_files_of_a_bounded_size_are_read(data, capfd, name, kind):
    ann = give(data, name, '')
    os.remove(name)
    if kind == 'pipe':
        os.mkfifo(name)
    elif kind == 'sparse':
        with open(name, 'wb') as file:
            file.truncate(2**31 + 1)
    else:
        Path(name).symlink_to('/dev/zero' if kind == 'device' else Path(name).name)
    task, base = (
        ('cls', CONFIGS / 'flatten-swin-nano_digits.py')
        if name.endswith('csv')
        else ('det', DETECTOR)
    )
    assert (
        init(
            [
                '--task',
                task,
                '--images',
                'photos',
                '--ann',
                str(ann),
                '--base',
                str(base),
                '--out',
                'mine.py',
            ]
        )
        == 1
    )
    shown = capfd.readouterr()
    assert Path(name).name in shown.err + shown.out and not Path('mine.py').exists()


def test_text_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / 'a.json').write_bytes('\ufeff{"a": "é"}'.encode())
    assert parse_json('a.json', read_text(tmp_path / 'a.json')) == {'a': 'é'}
    assert read_yaml(tmp_path / 'a.json') == {'a': 'é'}
    (tmp_path / 'b.txt').write_bytes(b'1\n2\n\xff')
    with pytest.raises(UnusableFile, match=r'b\.txt:3: .*0xff'):
        read_text(tmp_path / 'b.txt')


def test_integers_of_json_that_no_number_can_hold_become_infinity():
    assert parse_json('a', f'[1{"0" * 20}, {"9" * 5000}, -{"9" * 5000}]') == [
        10**20,
        float('inf'),
        -float('inf'),
    ]


def test_file_that_grows_while_it_is_read_is_bounded(tmp_path):
    with pytest.raises(UnusableFile, match='more than'):
        (tmp_path / 'a').write_bytes(bytes(11))
        read_bytes(tmp_path / 'a', 10)


POLYGON = [2, 2, 22, 2, 22, 22]
RUNS = dict(size=[40, 48], counts=[900, 1020])


@pytest.mark.parametrize(
    'segmentation',
    [
        [POLYGON],
        [[value - 100 for value in POLYGON]],
        [],
        RUNS,
        RUNS | dict(counts=coco_mask.frPyObjects(RUNS, 40, 48)['counts'].decode()),
    ],
)
def test_usable_segmentations_can_be_drawn(segmentation):
    assert can_be_drawn(segmentation, IMAGE)


@pytest.mark.parametrize(
    'segmentation',
    [
        [[*POLYGON, 1e9, 1]],
        [[0, 0, 4e8, 0, 0, 4e8]],
        [[*POLYGON, -1e9, 1]],
        [[*POLYGON, float('nan'), 1]],
        [[*POLYGON, 'x', 1]],
        [[0, 0, 480, 40] * 10_000],
        'text',
        ['text'],
        [5],
        {'a': 1},
        RUNS | dict(size=[40, 47]),
        RUNS | dict(counts=[-5, 1925]),
        RUNS | dict(counts=[900, 2**32 + 1020]),
        RUNS | dict(counts=[]),
        RUNS | dict(counts='text'),
        RUNS | dict(counts='o' * 100),
        RUNS | dict(counts=''),
        RUNS | dict(counts='\xe9'),
        RUNS | dict(counts=[float('nan'), 1]),
        RUNS | dict(counts=[[900], 1020]),
        RUNS | dict(counts=None),
    ],
)
def test_segmentations_that_crash_pycocotools_cannot_be_drawn(segmentation):
    assert not can_be_drawn(segmentation, IMAGE)
    assert not can_be_drawn([POLYGON], dict(width=48))
    assert not can_be_drawn(RUNS | dict(size=[2**40, 1]), IMAGE)


def test_run_lengths_are_decoded_as_pycocotools_encodes_them():
    for seed in range(30):
        bits = np.random.default_rng(seed).random((37, 61)) < seed / 30
        encoded = coco_mask.encode(np.asfortranarray(bits.astype(np.uint8)))
        runs = run_lengths(encoded['counts'].decode())
        assert coco_mask.frPyObjects(dict(size=[37, 61], counts=runs), 37, 61) == encoded


def test_polygon_outside_of_its_image_is_named_before_training(data, capsys):
    from mmflatten.datasets.checked_coco import AnnotationError, CheckedCOCO

    Path('all.json').write_text(coco(dict(segmentation=[[*POLYGON, 1e9, 1]])))
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
    assert init([*arguments, str(CONFIGS / 'mask-rcnn_flatten-swin-nano_fpn_digits.py')]) == 1
    assert 'annotation 6' in capsys.readouterr().out
    with pytest.raises(AnnotationError, match='annotation 6 in all.json'):
        CheckedCOCO('all.json')


def test_large_images_are_decoded_one_at_a_time(tmp_path, monkeypatch):
    """Memory of several at a time filled that of the machine."""
    monkeypatch.setattr(images, 'MANY_PIXELS', 100)
    for number in range(4):
        Image.new('RGB', (40, 30 + number)).save(tmp_path / f'{number}.png')
    decoded, at_once = cv2.imdecode, []

    def slow(*args):
        at_once.append(1)
        time.sleep(0.05)
        assert len(at_once) == 1
        at_once.pop()
        return decoded(*args)

    monkeypatch.setattr(cv2, 'imdecode', slow)
    read = images.read_pictures(sorted(tmp_path.iterdir()))
    assert [picture.size for picture in read.values()] == [(40, 30 + number) for number in range(4)]


def test_folders_linked_in_a_circle_are_visited_once(tmp_path):
    (tmp_path / 'train' / 'a').mkdir(parents=True)
    (tmp_path / 'disk').mkdir()
    (tmp_path / 'disk' / 'x.jpg').touch()
    for name, target in (('b', '.'), ('c', '.'), ('d', '..'), ('e', tmp_path / 'disk')):
        (tmp_path / 'train' / 'a' / name).symlink_to(target)
    assert [image.name for image in list_folder(tmp_path / 'train')] == ['a/e/x.jpg']
    assert len(list(walk_links(tmp_path / 'train'))) == 3


def extension(kind: bytes, content: bytes) -> bytes:
    info = tarfile.TarInfo('././@LongLink')
    info.type, info.size = kind, len(content)
    return info.tobuf() + content + bytes(-len(content) % 512)


@pytest.mark.parametrize(
    'content',
    [
        extension(tarfile.GNUTYPE_LONGNAME, b'a') * 3000,
        extension(tarfile.XHDTYPE, b'1' * 60_000),
        extension(tarfile.XGLTYPE, b'1' * 60_000),
    ],
)
def test_extensions_of_tar_headers_are_bounded(tmp_path, content):
    (tmp_path / 'a.tar').write_bytes(content + tarfile.TarInfo('n/b.jpg').tobuf() + bytes(1024))
    start = time.monotonic()
    with pytest.raises(ValueError, match=r'a\.tar'):
        list_shards([tmp_path / 'a.tar'])
    assert time.monotonic() - start < 2


def test_long_names_in_tar_files_are_read(tmp_path):
    (tmp_path / 'x.jpg').write_bytes(b'1')
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / 'a.tar', 'w', format=form) as tar:
            tar.add(tmp_path / 'x.jpg', f'n/{"é" * 120}.jpg')
        (entry,), _ = list_shards([tmp_path / 'a.tar'])
        assert entry.name == f'n/{"é" * 120}.jpg'


@pytest.mark.parametrize(
    'place',
    [
        'reference://::{0}',
        'http://127.0.0.1:9/a.tar',
        'github://a:b@c/d',
        '/dev/zero',
        '../a.tar',
        'ftp://x/a.tar',
        'file://a.tar',
        'a/../../b.tar',
        'x::file://y',
    ],
)
def test_index_names_only_files_below_its_root(tmp_path, place):
    write_index(
        tmp_path / 'a.index', [Entry('n/a.jpg', 0, 0, 0, 10)], ['n'], [place.format(tmp_path)]
    )
    with pytest.raises(ImageIndexError, match=r'a\.index'):
        ImageIndex(tmp_path / 'a.index')
    write_index(tmp_path / 'b.index', [Entry(place.format(tmp_path), 0)], ['n'])
    dataset = IndexedImages(str(tmp_path), ann_file='b.index', pipeline=[])
    with pytest.raises(ImageIndexError, match=r'b\.index'):
        dataset.get_data_info(0)


def test_shard_that_is_a_device_is_refused(tmp_path):
    (tmp_path / 'a.tar').symlink_to('/dev/zero')
    with pytest.raises(OSError, match='is a device'):
        ShardBackend().get(f'shard://{tmp_path}/a.tar?offset=0&size=6000000000#x.jpg')


@pytest.mark.parametrize(
    'suffix',
    [
        '.gif',
        '.avif',
        '.jp2',
        '.hdr',
        '.pfm',
        '.sr',
        '.pgm',
        '.png',
        '.jpg',
        '.webp',
        '.tif',
        '.bmp',
    ],
)
def test_only_six_formats_are_decoded_whatever_a_file_is_called(tmp_path, suffix):
    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3), np.uint8)
    path = tmp_path / f'a{suffix}'
    if not (
        cv2.imwrite(str(path), pixels.astype(np.float32) if suffix in ('.hdr', '.pfm') else pixels)
    ):
        Image.fromarray(pixels).save(path)
    renamed = path.rename(tmp_path / 'a.png')
    if suffix in ('.pgm', '.png', '.jpg', '.webp', '.tif', '.bmp'):
        assert read_rgb(str(renamed)).shape == (20, 30, 3)
    else:
        with pytest.raises(ValueError, match=r'a\.png cannot be decoded'):
            read_rgb(str(renamed))


def test_image_is_told_from_other_files_without_decoding(tmp_path):
    (tmp_path / 'a.png').write_text('text')
    (tmp_path / 'b.txt').write_bytes(
        cv2.imencode('.png', np.zeros((2, 2, 3), np.uint8))[1].tobytes()
    )
    assert problem_of_image(tmp_path / 'b.txt') is None
    for path, problem in (
        (tmp_path / 'a.png', 'not an image'),
        ('/proc/self/mem', 'cannot be read'),
        ('/dev/zero', 'is a device'),
        (tmp_path / 'c', 'does not exist'),
    ):
        assert problem in problem_of_image(path)


def jpeg_of(scans: int) -> bytes:
    """Repeat the last scan of a progressive JPEG."""
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    content = cv2.imencode('.jpg', pixels, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    last = content.rindex(b'\xff\xda')
    others = content[:last].count(b'\xff\xda')
    return content[:last] + content[last:-2] * (scans - others) + content[-2:]


def test_jpeg_of_many_scans_is_refused(tmp_path):
    usual, hostile = (tmp_path / name for name in ('usual.jpg', 'hostile.jpg'))
    trailing = b'\xff\xda\0\x08' * 200  # such as of a video behind the image
    comment = b'\xff\xfe' + (2 + len(trailing)).to_bytes(2) + trailing
    content = jpeg_of(MAX_JPEG_SCANS)
    usual.write_bytes(content[:2] + comment + content[2:] + trailing)
    hostile.write_bytes(jpeg_of(MAX_JPEG_SCANS + 1))
    assert problem_of_image(usual) is None and read_rgb(str(usual)).shape == (16, 16, 3)
    assert 'scans' in problem_of_image(hostile)
    with pytest.raises(ValueError, match=str(hostile)):
        read_rgb(str(hostile))
    assert images.read_pictures([usual, hostile])[usual].size == (16, 16)
    assert images.read_pictures([hostile])[hostile].size is None


def test_labels_of_one_group_take_time_in_proportion_to_their_number(data):
    (data / 'labels').mkdir()
    shape = dict(label='a', shape_type='polygon', group_id=1, points=[[2, 2], [20, 2], [20, 20]])
    Path('labels/0.json').write_text(json.dumps(dict(shapes=[shape] * 20_000, imagePath='0.png')))
    start = time.monotonic()
    (part,) = read_labels(Request('det', [Path('photos')], '', Path('mine.py'), [Path('labels')]))
    assert time.monotonic() - start < 10
    assert len(part.content['annotations'][0]['segmentation']) == 20_000


def test_class_names_are_bounded():
    CustomData('', {}, {}, (1, 1), ('é' * 1000,) * 100_000).require_usable()
    for names in (('a' * 1001,), ('a',) * 100_001):
        with pytest.raises(DataError, match='classes'):
            CustomData('', {}, {}, (1, 1), names).require_usable()


def test_sixteen_bit_tiff_with_a_wrong_header_is_refused(tmp_path):
    (tmp_path / 'a.tif').write_bytes(b'II*\0' + struct.pack('<IH', 8, 60_000))
    assert images.read_pictures([tmp_path / 'a.tif'])[tmp_path / 'a.tif'].size is None


@pytest.mark.parametrize(
    'change, words',
    [
        (dict(area='wide'), 'area of annotations[5]'),
        (dict(area=[4]), 'area of annotations[5]'),
        (dict(segmentation=5), 'segmentation of annotations[5]'),
        (dict(segmentation='x'), 'segmentation of annotations[5]'),
    ],
)
def test_values_of_other_types_in_coco_are_named(data, capfd, change, words):
    Path('all.json').write_text(coco(change))
    assert (
        init(
            [
                '--task',
                'det',
                '--images',
                'photos',
                '--ann',
                'all.json',
                '--base',
                str(DETECTOR),
                '--out',
                'mine.py',
            ]
        )
        == 1
    )
    last = capfd.readouterr().err.splitlines()[-1]
    assert 'all.json' in last and words in last


@pytest.mark.parametrize(
    'old, new',
    [
        ('"iscrowd": 0', '"iscrowd": 0, "attributes": "text"'),
        ('"name": "a"', '"name": "a", "supercategory": ["b"]'),
    ],
)
def test_fields_of_coco_that_nothing_reads_may_have_any_type(data, old, new):
    Path('all.json').write_text(coco().replace(old, new))
    assert (
        init(
            [
                '--task',
                'det',
                '--images',
                'photos',
                '--ann',
                'all.json',
                '--base',
                str(DETECTOR),
                '--out',
                'mine.py',
                '--val-share',
                '0.4',
            ]
        )
        == 0
    )


def test_number_of_categories_is_bounded(data, capfd):
    content = json.loads(coco())
    content['categories'] += [
        dict(id=number, name=str(number)) for number in range(3, MAX_CLASSES + 2)
    ]
    Path('all.json').write_text(json.dumps(content))
    assert (
        init(
            [
                '--task',
                'det',
                '--images',
                'photos',
                '--ann',
                'all.json',
                '--base',
                str(DETECTOR),
                '--out',
                'mine.py',
            ]
        )
        == 1
    )
    last = capfd.readouterr().err.splitlines()[-1]
    assert 'all.json' in last and 'categories' in last and str(MAX_CLASSES + 1) in last


def test_many_categories_are_looked_up_in_seconds():
    names = [str(number) for number in range(MAX_CLASSES)]
    content = dict(
        images=[dict(id=1, file_name='a.png', **IMAGE)],
        annotations=[],
        categories=[dict(id=number, name=name) for number, name in enumerate(names)],
    )
    start = time.monotonic()
    assert used_by_mmdet(content, names).images
    assert time.monotonic() - start < 10


@pytest.mark.parametrize('kind', ['5', '["polygon"]', '{}', 'null'])
def test_shape_type_of_another_type_is_left_out(data, kind):
    labels = give(data, 'labels/0.json', labelme().replace('"polygon"', kind))
    (part,) = read_labels(Request('det', [Path('photos')], '', Path('mine.py'), [labels]))
    (place,) = part.faults['shape without an area']
    assert '0.json: shapes[0]' in place and not part.content['annotations']


def test_huge_disparities_are_named(data, capfd):
    for side in ('left', 'right', 'disparity'):
        Path('pairs', side).mkdir(parents=True)
    for number in range(4):
        for side in ('left', 'right'):
            Path('pairs', side, f'{number}.png').write_bytes(
                Path(f'photos/{number}.png').read_bytes()
            )
        write_pfm(f'pairs/disparity/{number}.pfm', np.full((40, 48), 1e38))
    base = str(CONFIGS / 'psmnet-tiny_digits-stereo.py')
    init(['--task', 'stereo', '--images', 'pairs', '--base', base, '--out', 'mine.py'])
    shown = capfd.readouterr()
    assert 'disparity beyond max_disp' in shown.out + shown.err and 'Error:' not in shown.err


def test_links_above_the_data_are_not_followed(tmp_path, monkeypatch):
    root = tmp_path / 'data' / 'images'
    (root / 'a').mkdir(parents=True)
    (root / 'a' / '0.png').touch()
    (tmp_path / 'data' / 'other.png').touch()
    (root / 'up').symlink_to('..')
    (root / 'all').symlink_to('/')
    assert list(walk_links(root)) == [(str(root), []), (str(root / 'a'), ['0.png'])]
    assert [entry.name for entry in list_folder(root)] == ['a/0.png']
    monkeypatch.chdir(root / 'a')
    assert list(walk_links('..')) == [('..', []), ('../a', ['0.png'])]
    assert list(walk_links('.')) == [('.', ['0.png'])] and not list(walk_links(root / 'all'))


def test_index_without_the_folder_of_a_label_is_named(tmp_path):
    write_index(tmp_path, [Entry('a/0.png', 0), Entry('a/1.png', 0)], ['a'])
    about = json.loads((tmp_path / 'index.json').read_text())
    (tmp_path / 'index.json').write_text(json.dumps({**about, 'folders': {}}))
    with pytest.raises(ImageIndexError, match=r'index\.json: folders'):
        ImageIndex(tmp_path)[0]
