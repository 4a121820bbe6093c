"""Hints for missing data."""

import pytest

from mmflatten.data_folders import DATA_FOLDERS, missing_data_hint


@pytest.mark.parametrize(
    'root, words',
    [
        ('data/digits', 'mmflatten data digits --out {root}'),
        ('data/coco', 'cocodataset.org'),
        ('data/imagenet', 'image-net.org'),
        ('data/ade/ADEChallengeData2016', 'sceneparsing'),
    ],
)
@pytest.mark.parametrize(
    'below', ['', 'annotations', 'images/training/000000.png', 'annotations/instances_val.json']
)
def test_hint_for_missing_folder_says_how_to_obtain_it(tmp_path, root, words, below):
    folder = tmp_path / root
    hint = missing_data_hint(folder / below)
    assert f'the folder {folder} does not exist' in hint
    assert words.format(root=folder) in hint and '\n' not in hint


def test_hint_names_file_missing_from_existing_folder(tmp_path):
    (tmp_path / 'digits').mkdir()
    hint = missing_data_hint(str(tmp_path / 'digits' / 'annotations' / 'instances_train.json'))
    assert f'{tmp_path / "digits"} exists but annotations/instances_train.json is missing' in hint
    assert '--force' in hint


def test_hint_completes_the_ade_path(tmp_path):
    assert (
        f'the folder {tmp_path / "ade" / "ADEChallengeData2016"} does not exist'
        in missing_data_hint(tmp_path / 'ade')
    )


@pytest.mark.parametrize(
    'path',
    [
        'configs/digits/mask-rcnn.py',
        'work_dirs/digits/epoch_1.pth',
        'work_dirs/digits',
        'checkpoints/swin_coco.pth',
        'data/mine/train.json',
        '',
    ],
)
def test_unknown_paths_get_no_hint(path):
    assert missing_data_hint(path) is None


def test_existing_paths_get_no_hint(digit_root):
    assert missing_data_hint(digit_root) is None
    assert missing_data_hint(digit_root / 'annotations' / 'instances_val.json') is None


def test_default_roots_are_recognised():
    for folder in DATA_FOLDERS:
        assert folder.name in missing_data_hint(f'no-such-place/{folder.default_root}/x.png')
