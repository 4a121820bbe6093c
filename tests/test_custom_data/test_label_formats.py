"""`mmflatten init` on labels of YOLO, Pascal VOC, labelme and CSV: what is read, and the line that
is named.
"""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.cli.init import main
from mmflatten.engine.setup import build_runner, load_config

CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
DETECTOR = CONFIGS / 'retinanet_flatten-swin-nano_fpn_digits.py'
MASKS = CONFIGS / 'mask-rcnn_flatten-swin-nano_fpn_digits.py'
CLASSIFIER = CONFIGS / 'flatten-swin-nano_digits.py'
HEIGHT, WIDTH = 48, 64
ONE_STEP = {
    'train_dataloader.num_workers': 0,
    'train_dataloader.persistent_workers': False,
    'val_dataloader.num_workers': 0,
    'val_dataloader.persistent_workers': False,
    'train_cfg.max_epochs': 1,
    'train_cfg.val_interval': 1,
}


def write_image(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(
        str(path), np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    )
    return path


def run(task: str, ann: str, *words: object, base: Path = DETECTOR) -> int:
    return main(
        [
            '--task',
            task,
            '--ann',
            *ann.split(),
            '--base',
            str(base),
            '--out',
            'mine.py',
            *map(str, words),
        ]
    )


def train(config: Path) -> None:
    runner = build_runner(load_config(str(config), ONE_STEP, str(config.parent / 'run')))
    runner.train()
    assert runner.epoch == 1


def boxes(file: str) -> list[tuple]:
    """(file name, class, rounded box) of each object."""
    content = json.loads(Path(file).read_text())
    names = {item['id']: item['name'] for item in content['categories']}
    images = {item['id']: item['file_name'] for item in content['images']}
    found = []
    for item in content['annotations']:
        box = tuple(round(number, 3) for number in item['bbox'])
        found.append((images[item['image_id']], names[item['category_id']], box))
    return sorted(found)


@pytest.fixture
def yolo(tmp_path, monkeypatch) -> Path:
    """A YOLO data set of six images; the fifth has an empty label file and the sixth none."""
    monkeypatch.chdir(tmp_path)
    for i in range(6):
        part = 'val' if i in (3, 5) else 'train'
        write_image(tmp_path / 'images' / part / f'{i}.png', i)
        (tmp_path / 'labels' / part).mkdir(parents=True, exist_ok=True)
        text = '0 0.5 0.5 0.25 0.5\n1 0.25 0.25 0.75 0.25 0.75 0.75\n' if i < 4 else ''
        if i < 5:
            (tmp_path / 'labels' / part / f'{i}.txt').write_text(text)
    (tmp_path / 'data.yaml').write_text(
        'path: .\ntrain: images/train\nval: images/val\nnames:\n  0: round\n  1: square\n'
    )
    return tmp_path


def test_yolo_boxes_and_polygons_are_read_in_pixels(yolo, capsys):
    assert run('det', 'data.yaml') == 0
    shown = capsys.readouterr().out
    assert 'class round: 3 objects for training, 1 for validation' in shown and 'error' not in shown
    assert boxes('mine_val.json') == [
        ('3.png', 'round', (24, 12, 16, 24)),
        ('3.png', 'square', (16, 12, 32, 24)),
    ]
    content = json.loads(Path('mine_val.json').read_text())
    assert [item['segmentation'] for item in content['annotations']] == [
        [],
        [[16, 12, 48, 12, 48, 36]],
    ]
    assert [item['area'] for item in content['annotations']] == [16 * 24, 32 * 24 / 2]
    assert [item['file_name'] for item in content['images']] == ['3.png', '5.png']


def test_yolo_folder_trains(yolo):
    assert run('det', '.') == 0
    train(yolo / 'mine.py')


def test_yolo_polygons_train_masks(yolo):
    for file in yolo.glob('labels/*/*.txt'):
        file.write_text(
            ''.join(line for line in file.read_text().splitlines(True) if line.startswith('1'))
        )
    (yolo / 'data.yaml').write_text(
        'train: images/train\nval: images/val\nnames: [other, square]\n'
    )
    assert run('det', 'data.yaml', '--classes', 'square', base=MASKS) == 0
    assert load_config('mine.py').val_evaluator.metric == ['bbox', 'segm']
    train(yolo / 'mine.py')


def test_yolo_folder_of_labels_takes_names_of_classes_txt(yolo):
    (yolo / 'labels' / 'train' / 'classes.txt').write_text('round\nsquare\n')
    assert run('det', 'labels/train', '--images', 'images/train') == 0
    assert len(boxes('mine_train.json')) + len(boxes('mine_val.json')) == 6


@pytest.mark.parametrize(
    'yaml',
    [
        'train: ../train/images\nval: ../valid/images\nnames: [round, square]\n',
        'train: train.txt\nval: val.txt\nnc: 2\nnames: [round, square]\n',
    ],
)
def test_yolo_layouts_of_other_tools_are_read(yaml, yolo):
    for part, folder in (('train', 'train'), ('val', 'valid')):
        (yolo / folder).mkdir()
        for kind in ('images', 'labels'):
            (yolo / kind / part).rename(yolo / folder / kind)
        files = sorted((yolo / folder / 'images').iterdir())
        (yolo / f'{part}.txt').write_text(
            ''.join(f'./{file.relative_to(yolo)}\n' for file in files)
        )
    (yolo / 'data.yaml').write_text(yaml)
    assert run('det', 'data.yaml') == 0
    assert boxes('mine_val.json')[0] == ('3.png', 'round', (24, 12, 16, 24))


def test_yolo_folder_of_images_may_be_a_link(yolo):
    (yolo / 'images/train').rename(yolo / 'disk')
    (yolo / 'images/train').symlink_to(yolo / 'disk')
    assert run('det', 'data.yaml') == 0
    assert len(boxes('mine_train.json')) == 6


LINE = 'labels/train/1.txt:2'
YOLO_FAULTS = {
    'unknown id': (LINE, '7 0.5 0.5 0.1 0.1', 'class id without a name'),
    'pixels': (LINE, '0 32 24 10 10', 'coordinates look like pixels'),
    'polygon in pixels': (LINE, '0 16 12 48 12 48 36', 'coordinates look like pixels'),
    'outside': (LINE, '0 1.5 0.5 0.1 0.1', 'box outside its image'),
    'three numbers': (LINE, '0 0.5 0.5 0.1', 'label that cannot be read'),
    'two points': (LINE, '0 0.5 0.5 0.1 0.1 0.2', 'label that cannot be read'),
    'a word': (LINE, 'round 0.5 0.5 0.1 0.1', 'label that cannot be read'),
    'not a number': (LINE, '0 nan 0.5 0.1 0.1', 'label that cannot be read'),
    'negative width': (LINE, '0 0.5 0.5 -0.1 0.1', 'label that cannot be read'),
}


@pytest.mark.parametrize('name', YOLO_FAULTS)
def test_yolo_error_names_file_and_line(name, yolo, capsys):
    place, line, problem = YOLO_FAULTS[name]
    (yolo / 'labels/train/1.txt').write_text(f'1 0.5 0.5 0.25 0.5\n{line}\n')
    before = sorted(yolo.rglob('*'))
    assert run('det', 'data.yaml') == 1
    shown = capsys.readouterr()
    last = shown.err.splitlines()[-1]
    assert f'error: {problem} (1): {yolo / place}' in shown.out
    assert problem in last
    assert f'{yolo / place}' in last
    assert sorted(yolo.rglob('*')) == before


def test_box_over_the_border_is_a_warning_with_its_line(yolo, capsys):
    (yolo / 'labels/train/1.txt').write_text('\n1 0.9 0.5 0.4 0.5\n')
    assert run('det', 'data.yaml') == 0
    assert (
        f'warning: box over the border (1): {yolo}/labels/train/1.txt:2' in capsys.readouterr().out
    )


def missing_image(yolo: Path) -> None:
    (yolo / 'images/train/2.png').unlink()


def shared_label(yolo: Path) -> None:
    write_image(yolo / 'images/train/2.bmp', 9)


def other_order(yolo: Path) -> None:
    (yolo / 'labels/train/classes.txt').write_text('square\nround\n')


def missing_image_of_a_list(yolo: Path) -> None:
    (yolo / 'list.txt').write_text('images/train/0.png\nimages/train/gone.png\n')
    replace_in_yaml(yolo, ('images/train', 'list.txt'))


def not_yaml(yolo: Path) -> None:
    (yolo / 'data.yaml').write_text('names: [round\ntrain: images\n')


def replace_in_yaml(yolo: Path, *pairs: tuple[str, str], end: str = '') -> None:
    text = (yolo / 'data.yaml').read_text()
    for old, new in pairs:
        text = text.replace(old, new)
    (yolo / 'data.yaml').write_text(text + end)


@pytest.mark.parametrize(
    'change, expected',
    [
        (missing_image, 'label without an image'),
        (shared_label, 'label file of two images'),
        (other_order, 'two lists of class names differ'),
        (missing_image_of_a_list, 'list.txt:2'),
        (not_yaml, 'data.yaml:2'),
    ],
)
def test_mistake_in_a_yolo_folder_ends_in_one_line(change, expected, yolo, capsys):
    change(yolo)
    require_error(yolo, expected, capsys)


@pytest.mark.parametrize(
    'pairs, end, expected',
    [
        ([('square', 'round')], '', 'name of categories repeated'),
        ([('1:', '2:'), ('0:', '1:')], '', 'data.yaml:4: names: expected the ids 0 to 1'),
        ([], 'nc: 3\n', 'data.yaml:7: nc: expected 2'),
        ([('images/val', 'images/gone')], '', 'data.yaml:3: val'),
        ([], 'kpt_shape: [17, 3]\n', 'data.yaml:7: kpt_shape'),
        ([('round', 'yes')], '', 'data.yaml:4: names: expected a list of class names'),
        ([('path: .', 'path: 5')], '', 'data.yaml:1: path: expected a folder'),
        ([('images/train', '5')], '', 'data.yaml:2: train: expected folders'),
    ],
)
def test_mistake_in_data_yaml_ends_in_one_line(pairs, end, expected, yolo, capsys):
    replace_in_yaml(yolo, *pairs, end=end)
    require_error(yolo, expected, capsys)


def require_error(yolo: Path, expected: str, capsys) -> None:
    """Require an error whose last line has a text, and no new files."""
    if ':' in expected:
        expected = f'{yolo}/{expected}'
    before = sorted(yolo.rglob('*'))
    assert run('det', 'data.yaml') == 1
    assert expected in capsys.readouterr().err.splitlines()[-1]
    assert sorted(yolo.rglob('*')) == before


VOC = """<annotation>
  <filename>{name}.png</filename>
  <size><width>64</width><height>48</height><depth>3</depth></size>
  <object>
    <name>round</name><difficult>0</difficult>
    <bndbox><xmin>25</xmin><ymin>13</ymin><xmax>40</xmax><ymax>36</ymax></bndbox>
  </object>
  <object>
    <name>square</name><difficult>1</difficult>
    <bndbox><xmin>1</xmin><ymin>1</ymin><xmax>64</xmax><ymax>48</ymax></bndbox>
  </object>
</annotation>
"""


@pytest.fixture
def voc(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'Annotations').mkdir()
    for i in range(5):
        write_image(tmp_path / 'JPEGImages' / f'{i}.png', i)
        (tmp_path / 'Annotations' / f'{i}.xml').write_text(VOC.format(name=i))
    return tmp_path


def test_voc_boxes_count_from_one_and_difficult_objects_are_crowds(voc):
    assert run('det', 'Annotations', '--images', 'JPEGImages', '--classes', 'round') == 0
    validated = boxes('mine_val.json')
    (file,) = {file for file, *_ in validated}
    assert validated == [
        (file, 'round', (24, 12, 16, 24)),
        (file, 'square', (0, 0, 64, 48)),
    ]
    content = json.loads(Path('mine_train.json').read_text())
    assert [item['iscrowd'] for item in content['annotations']] == [0, 1] * 4


def test_voc_image_sets_divide_the_folder(voc):
    lists = voc / 'ImageSets' / 'Main'
    lists.mkdir(parents=True)
    (lists / 'train.txt').write_text('0\n2\n')
    (lists / 'val.txt').write_text('3 1\n')
    assert run('det', 'Annotations', '--images', 'JPEGImages', '--classes', 'round') == 0
    assert {name for name, *_ in boxes('mine_train.json')} == {'0.png', '2.png'}
    assert {name for name, *_ in boxes('mine_val.json')} == {'3.png'}
    train(voc / 'mine.py')


VOC_FAULTS = {
    'cut off': (lambda text: text[:200], 'unreadable label file', 6),
    'an entity': (
        lambda text: '<!DOCTYPE a [<!ENTITY b "c">]>\n' + text,
        'unreadable label file',
        1,
    ),
    'no box': (lambda text: text.replace('bndbox', 'box', 2), 'label that cannot be read', 4),
    'corners swapped': (
        lambda text: text.replace('xmax>40', 'xmax>4'),
        'label that cannot be read',
        4,
    ),
    'no name': (
        lambda text: text.replace('<name>square</name>', ''),
        'label that cannot be read',
        8,
    ),
    'outside': (
        lambda text: text.replace('xmin>25', 'xmin>85').replace('xmax>40', 'xmax>99'),
        'box outside',
        4,
    ),
    'other size': (lambda text: text.replace('width>64', 'width>640'), 'image size differs', 3),
    'no image': (lambda text: text.replace('2.png', 'gone.png'), 'label without an image', None),
}


@pytest.mark.parametrize('name', VOC_FAULTS)
def test_voc_error_names_file_and_line(name, voc, capsys):
    change, problem, line = VOC_FAULTS[name]
    file = voc / 'Annotations' / '2.xml'
    place = f'{file}:{line}' if line else str(file)
    if name == 'no image':
        (voc / 'JPEGImages' / '2.png').unlink()
    file.write_text(change(file.read_text()))
    assert run('det', 'Annotations', '--images', 'JPEGImages') == 1
    shown = capsys.readouterr()
    last = shown.err.splitlines()[-1]
    assert problem in last and place in last


def test_normalised_voc_boxes_are_an_error(voc, capsys):
    for file in (voc / 'Annotations').iterdir():
        text = VOC
        for old, new in ((25, 0.4), (13, 0.25), (40, 0.6), (36, 0.75)):
            text = text.replace(f'>{old}<', f'>{new}<')
        file.write_text(
            text.replace('<xmax>64</xmax><ymax>48</ymax>', '<xmax>1</xmax><ymax>1</ymax>').format(
                name=file.stem
            )
        )
    assert run('det', 'Annotations', '--images', 'JPEGImages') == 1
    shown = capsys.readouterr()
    assert 'boxes look normalised' in shown.err.splitlines()[-1]
    assert '0.xml:4' in shown.err.splitlines()[-1]


def labelme_file(name: str) -> dict:
    shapes = [
        dict(label='round', points=[[24, 12], [40, 36]], shape_type='rectangle', group_id=None),
        dict(label='square', points=[[0, 0], [10, 0], [10, 10]], shape_type='polygon', group_id=1),
        dict(label='square', points=[[20, 0], [30, 0], [30, 10]], shape_type='polygon', group_id=1),
        dict(label='round', points=[[30, 20], [30, 25]], shape_type='circle'),
        dict(label='edge', points=[[1, 1], [2, 2]], shape_type='line'),
    ]
    return dict(
        version='5.5.0',
        shapes=shapes,
        imagePath=f'{name}.png',
        imageData=None,
        imageHeight=48,
        imageWidth=64,
    )


@pytest.fixture
def labelme(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for i in range(5):
        write_image(tmp_path / 'photos' / f'{i}.png', i)
        (tmp_path / 'photos' / f'{i}.json').write_text(json.dumps(labelme_file(str(i)), indent=2))
    return tmp_path


def test_labelme_shapes_become_objects(labelme, capsys):
    assert run('det', 'photos') == 0
    first = [item[1:] for item in boxes('mine_val.json')]
    assert first == [
        ('round', (24, 12, 16, 24)),
        ('round', (25, 15, 10, 10)),
        ('square', (0, 0, 30, 10)),
    ]
    square = [
        item
        for item in json.loads(Path('mine_val.json').read_text())['annotations']
        if item['segmentation']
    ]
    assert square[0]['segmentation'] == [[0, 0, 10, 0, 10, 10], [20, 0, 30, 0, 30, 10]]
    assert square[0]['area'] == 100
    assert 'warning: shape without an area (5)' in capsys.readouterr().out


LABELME_FAULTS = {
    'cut off': (lambda text: text[:300], 'unreadable label file', ':21:'),
    'no shapes': (lambda text: text.replace('"shapes"', '"forms"'), 'unreadable label file', ':1:'),
    'two points': (
        lambda text: text.replace('"rectangle"', '"polygon"'),
        'label that cannot be read',
        ': shapes[0]',
    ),
    'no label': (
        lambda text: text.replace('"edge"', 'null').replace('"line"', '"circle"'),
        'cannot be read',
        ': shapes[4]',
    ),
}


@pytest.mark.parametrize('name', LABELME_FAULTS)
def test_labelme_error_names_file_and_place(name, labelme, capsys):
    change, problem, place = LABELME_FAULTS[name]
    file = labelme / 'photos' / '2.json'
    file.write_text(change(file.read_text()))
    assert run('det', 'photos') == 1
    shown = capsys.readouterr()
    last = shown.err.splitlines()[-1]
    assert problem in last and f'{file}{place}' in last


@pytest.fixture
def table(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f'{i},{"dog" if i % 2 else "cat"}' for i in range(8)]
    for i in range(8):
        write_image(tmp_path / 'photos' / f'{i}.png', i)
    (tmp_path / 'labels.csv').write_text('\n'.join(['id,breed', *rows]) + '\n')
    return tmp_path


def test_csv_trains_a_classifier(table, capsys):
    assert run('cls', 'labels.csv', '--images', 'photos', base=CLASSIFIER) == 0
    assert 'class dog: 4 images' in capsys.readouterr().out
    assert Path('mine_train.txt').read_text().splitlines()[-1].split() in (
        ['7.png', '1'],
        ['5.png', '1'],
    )
    train(table / 'mine.py')


CSV_FAULTS = {
    'gone,dog': 'listed image that does not exist',
    '3': 'line without an image and a class',
    '3,': 'line without an image and a class',
    '2,dog': 'image with two classes',
}


@pytest.mark.parametrize('line', CSV_FAULTS)
def test_csv_error_names_file_and_line(line, table, capsys):
    rows = Path('labels.csv').read_text().splitlines()
    rows[4] = line
    Path('labels.csv').write_text('\n'.join(rows))
    assert run('cls', 'labels.csv', '--images', 'photos', base=CLASSIFIER) == 1
    shown = capsys.readouterr()
    last = shown.err.splitlines()[-1]
    assert 'labels.csv:5' in last and CSV_FAULTS[line] in last


@pytest.mark.parametrize('header', [True, False])
def test_csv_whose_first_image_is_missing_names_its_line(header, table, capsys):
    head, *rows = Path('labels.csv').read_text().replace(',', '.png,').splitlines()
    rows[0] = 'gone.png,cat'
    Path('labels.csv').write_text('\n'.join(['id,breed'] * header + rows))
    assert run('cls', 'labels.csv', '--images', 'photos', base=CLASSIFIER) == 1
    assert f'labels.csv:{1 + header} (gone.png)' in capsys.readouterr().err.splitlines()[-1]


def test_csv_columns_that_are_unclear_are_listed(table, capsys):
    rows = Path('labels.csv').read_text().splitlines()
    Path('labels.csv').write_text(
        '\n'.join([f'{rows[0]},split', *(f'{row},a' for row in rows[1:])])
    )
    assert run('cls', 'labels.csv', '--images', 'photos', base=CLASSIFIER) == 1
    assert (
        'labels.csv:1' in (line := capsys.readouterr().err.splitlines()[-1])
        and 'id, breed, split' in line
    )
    Path('labels.csv').write_text(Path('labels.csv').read_text().replace('breed', 'label'))
    assert run('cls', 'labels.csv', '--images', 'photos', base=CLASSIFIER) == 0
