"""Names of files that a tool has escaped, or that Windows has written, in lists and annotations."""

import json
from pathlib import Path

import pytest

from mmflatten.cli.init import main
from mmflatten.console import explain
from mmflatten.data_folders import spelling_hint
from mmflatten.datasets.scenes.panoptic_build import PanopticSceneOptions, build_panoptic_scenes
from tests.test_custom_data.small_data import write_image

CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
BASES = {
    'cls': 'flatten-swin-nano_digits.py',
    'det': 'retinanet_flatten-swin-nano_fpn_digits.py',
    'panoptic': 'panoptic-fpn_flatten-swin-nano_fpn_digits.py',
}
NAMES = [f'a {number}.png' for number in range(6)]
SPELLINGS = {'%20': NAMES[5].replace(' ', '%20'), '/': f'C:\\work\\{NAMES[5]}'}


def init(task: str, ann: Path, images: Path) -> int:
    base, out = CONFIGS / BASES[task], ann.parent / 'mine.py'
    command = ['--task', task, '--ann', ann, '--images', images, '--base', base, '--out', out]
    return main([*map(str, command)])


@pytest.fixture
def photos(tmp_path) -> Path:
    for number, name in enumerate(NAMES):
        write_image(tmp_path / 'photos' / name, number)
    return tmp_path / 'photos'


def test_spelling_is_recognised():
    assert '%20' in spelling_hint('a%20b.png')
    assert '/' in spelling_hint('C:\\photos\\a.png')
    assert spelling_hint('100%.png') == '' and spelling_hint('a b.png') == ''


@pytest.mark.parametrize('sign', SPELLINGS)
@pytest.mark.parametrize('every', [False, True])
def test_image_of_a_class_list(sign, every, photos, capsys):
    names = [*NAMES[:5], SPELLINGS[sign]]
    if every:
        names = [SPELLINGS[sign].replace('5', str(number)) for number in range(6)]
    lines = [f'{name},{"dog" if number % 2 else "cat"}' for number, name in enumerate(names)]
    ann = photos.parent / 'classes.csv'
    ann.write_text('\n'.join(lines))
    assert init('cls', ann, photos) == 1
    shown = capsys.readouterr().err
    assert f'{ann}:{1 if every else 6}' in shown and spelling_hint(SPELLINGS[sign]) in shown


@pytest.mark.parametrize('sign', SPELLINGS)
def test_image_of_a_list_of_yolo(sign, photos, capsys):
    listed = [f'photos/{NAMES[0]}', f'photos/{SPELLINGS[sign]}']
    (photos.parent / 'train.txt').write_text('\n'.join(listed))
    (photos.parent / 'data.yaml').write_text('train: train.txt\nval: train.txt\nnames: [a, b]\n')
    assert init('det', photos.parent / 'data.yaml', photos) == 1
    shown = capsys.readouterr().err
    assert 'train.txt:2' in shown and spelling_hint(SPELLINGS[sign]) in shown


@pytest.mark.parametrize('sign', SPELLINGS)
@pytest.mark.parametrize('kind', ['images', 'annotations'])
def test_files_of_panoptic_annotations(sign, kind, tmp_path, capsys):
    root = tmp_path / 'scenes'
    build_panoptic_scenes(root, PanopticSceneOptions(train=3, val=1, size=64))
    ann = root / 'annotations' / 'panoptic_train.json'
    content = json.loads(ann.read_text())
    content[kind][0]['file_name'] = SPELLINGS[sign]
    ann.write_text(json.dumps(content))
    assert init('panoptic', ann, root / 'images' / 'training') == 1
    assert spelling_hint(SPELLINGS[sign]) in capsys.readouterr().err


@pytest.mark.parametrize('sign', SPELLINGS)
def test_file_of_a_list_that_a_training_reads(sign, tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        open(tmp_path / SPELLINGS[sign])
    assert spelling_hint(SPELLINGS[sign]) in explain(missing.value)
