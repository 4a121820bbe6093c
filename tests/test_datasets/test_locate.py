"""What a user is told when data is missing."""
import pytest

from mmflatten.locate import DATA_FOLDERS, missing_data_hint


@pytest.mark.parametrize('root, words', [
    ('data/digits', 'mmflatten data digits --out {root}'),
    ('data/coco', 'cocodataset.org'),
    ('data/imagenet', 'image-net.org'),
    ('data/ade/ADEChallengeData2016', 'sceneparsing'),
])
@pytest.mark.parametrize('below', ['', 'annotations', 'images/training/000000.png', 'annotations/instances_val.json'])
def test_a_missing_folder_is_named_with_the_way_to_get_it(tmp_path, root, words, below):
    folder = tmp_path / root
    hint = missing_data_hint(folder / below)
    assert f'the folder {folder} does not exist' in hint
    assert words.format(root=folder) in hint and '\n' not in hint


def test_a_file_missing_from_a_folder_that_is_there_is_named(tmp_path):
    (tmp_path / 'digits').mkdir()
    hint = missing_data_hint(str(tmp_path / 'digits' / 'annotations' / 'instances_train.json'))
    assert f'{tmp_path / "digits"} exists but annotations/instances_train.json is missing' in hint
    assert '--force' in hint


def test_half_of_the_ade_path_is_completed(tmp_path):
    assert f'the folder {tmp_path / "ade" / "ADEChallengeData2016"} does not exist' in missing_data_hint(
        tmp_path / 'ade')


@pytest.mark.parametrize('path', [
    'configs/digits/mask-rcnn.py', 'work_dirs/digits/epoch_1.pth', 'work_dirs/digits', 'checkpoints/swin_coco.pth',
    'data/mine/train.json', ''
])
def test_other_missing_paths_get_no_hint(path):
    assert missing_data_hint(path) is None


def test_what_exists_gets_no_hint(digit_root):
    assert missing_data_hint(digit_root) is None
    assert missing_data_hint(digit_root / 'annotations' / 'instances_val.json') is None


def test_every_data_folder_is_recognised_at_its_default_root():
    for folder in DATA_FOLDERS:
        assert folder.name in missing_data_hint(f'no-such-place/{folder.default_root}/x.png')
