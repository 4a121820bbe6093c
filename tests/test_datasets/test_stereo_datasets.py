"""SceneFlow and KITTI: pairing of files, and errors for incomplete pairs."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DATASETS, init_default_scope

from mmflatten.datasets.stereo import (
    KITTIStereoDataset,
    SceneFlowDataset,
    StereoDataError,
    write_pfm,
)

BASES = Path(__file__).parents[2] / 'configs' / '_base_' / 'datasets'
PIPELINE = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.PackStereoInputs'),
]
SIZE = (6, 8)


def write_image(path: Path, value: int, size: tuple = SIZE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.full((*size, 3), value, np.uint8))


def write_pair(root: Path, frames: str, scene: str, name: str, value: int = 0) -> None:
    """Left image of `value`, right image of `value` + 100, disparity of `value` everywhere."""
    write_image(root / frames / scene / 'left' / f'{name}.png', value)
    write_image(root / frames / scene / 'right' / f'{name}.png', value + 100)
    disparity = root / 'disparity' / scene / 'left' / f'{name}.pfm'
    disparity.parent.mkdir(parents=True, exist_ok=True)
    write_pfm(disparity, np.full(SIZE, value, np.float32))


@pytest.fixture
def sceneflow(tmp_path) -> Path:
    """Two pairs for training and one for the test of FlyingThings3D, two of Monkaa, one of Driving,
    in both passes.
    """
    root = tmp_path / 'sceneflow'
    for frames in ('frames_cleanpass', 'frames_finalpass'):
        for scene, name, value in (
            ('TRAIN/B/0001', '0010', 2),
            ('TRAIN/A/0000', '0006', 1),
            ('TEST/A/0000', '0006', 3),
        ):
            write_pair(root / 'flyingthings3d', frames, scene, name, value)
        for name, value in (('0001', 5), ('0000', 4)):
            write_pair(root / 'monkaa', frames, 'eating_x2', name, value)
        write_pair(root / 'driving', frames, '15mm_focallength/scene_forwards/fast', '0001', 6)
    return root


def write_kitti(root: Path, year: int, number: int) -> None:
    left, right, occ, noc = {
        2012: ('colored_0', 'colored_1', 'disp_occ', 'disp_noc'),
        2015: ('image_2', 'image_3', 'disp_occ_0', 'disp_noc_0'),
    }[year]
    for index in range(number):
        write_image(root / 'training' / left / f'{index:06d}_10.png', index % 100)
        write_image(root / 'training' / right / f'{index:06d}_10.png', index % 100 + 100)
        write_image(root / 'training' / left / f'{index:06d}_11.png', 200)
        disparity = np.full(SIZE, 256 * 10, np.uint16)
        disparity[0] = 0  # not measured
        hidden = disparity.copy()
        hidden[1] = 0  # measured, but hidden from the right camera
        for folder, values in ((occ, disparity), (noc, hidden)):
            (root / 'training' / folder).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(root / 'training' / folder / f'{index:06d}_10.png'), values)


@pytest.mark.parametrize('render_pass', ['clean', 'final'])
def test_sceneflow_pairs_files_by_name(sceneflow, render_pass):
    dataset = SceneFlowDataset(
        data_root=sceneflow,
        subset='flyingthings3d',
        split='TRAIN',
        render_pass=render_pass,
        pipeline=PIPELINE,
    )
    assert len(dataset) == 2
    for number, name in enumerate(['A/0000/left/0006', 'B/0001/left/0010']):
        sample = dataset[number]
        assert f'frames_{render_pass}pass/TRAIN/{name}.png' in sample['data_samples'].left_path
        value = number + 1
        assert (sample['inputs']['left'] == value).all()
        assert (sample['inputs']['right'] == value + 100).all()
        truth = sample['data_samples'].gt_disparity
        assert truth.data.shape == (1, *SIZE) and truth.data.dtype == torch.float32
        assert (truth.data == value).all() and truth.valid.all() and 'occlusion' not in truth


def test_sceneflow_part_without_splits_has_all_pairs(sceneflow):
    for subset, number in (('monkaa', 2), ('driving', 1), ('flyingthings3d', 3)):
        assert len(SceneFlowDataset(data_root=sceneflow, subset=subset)) == number
    assert len(SceneFlowDataset(data_root=sceneflow / 'monkaa')) == 2


def test_sceneflow_follows_linked_scenes(sceneflow, tmp_path):
    scenes = sceneflow / 'flyingthings3d' / 'frames_cleanpass' / 'TRAIN'
    (scenes / 'B').rename(tmp_path / 'elsewhere')
    (scenes / 'B').symlink_to(tmp_path / 'elsewhere')
    dataset = SceneFlowDataset(data_root=sceneflow, subset='flyingthings3d', split='TRAIN')
    assert [Path(dataset[number]['img_path']).parts[-4] for number in range(len(dataset))] == [
        'A',
        'B',
    ]


@pytest.mark.parametrize('year', [2012, 2015])
def test_kitti_reads_first_frames_and_occlusion(tmp_path, year):
    write_kitti(tmp_path, year, 5)
    splits = {
        split: KITTIStereoDataset(
            data_root=tmp_path, year=year, split=split, num_train=3, pipeline=PIPELINE
        )
        for split in ('train', 'val', 'trainval')
    }
    assert {split: len(dataset) for split, dataset in splits.items()} == dict(
        train=3, val=2, trainval=5
    )
    sample = splits['val'][0]
    assert (sample['inputs']['left'] == 3).all() and (sample['inputs']['right'] == 103).all()
    truth = sample['data_samples'].gt_disparity
    assert truth.valid[0, :, 0].tolist() == [False] + [True] * 5
    assert truth.occlusion[0, :, 0].tolist() == [False, True] + [False] * 4
    assert (truth.data[truth.valid] == 10).all() and (truth.data[~truth.valid] == 0).all()


def test_kitti_test_split_has_no_ground_truth(tmp_path):
    for folder, value in (('image_2', 1), ('image_3', 2)):
        write_image(tmp_path / 'testing' / folder / '000000_10.png', value)
    dataset = KITTIStereoDataset(
        data_root=tmp_path, split='test', pipeline=[PIPELINE[0], PIPELINE[2]]
    )
    assert 'gt_disparity' not in dataset[0]['data_samples']


def test_missing_right_image_is_named(sceneflow):
    gone = sceneflow / 'monkaa' / 'frames_cleanpass' / 'eating_x2' / 'right' / '0001.png'
    gone.unlink()
    with pytest.raises(
        StereoDataError, match=f'right image {gone} of left image .*left/0001.png does not exist'
    ):
        SceneFlowDataset(data_root=sceneflow, subset='monkaa')


def test_missing_disparity_is_named(tmp_path):
    write_kitti(tmp_path, 2015, 2)
    gone = tmp_path / 'training' / 'disp_occ_0' / '000001_10.png'
    gone.unlink()
    with pytest.raises(StereoDataError, match=f'disparity {gone} of left image'):
        KITTIStereoDataset(data_root=tmp_path, split='trainval')


def test_missing_folder_error_says_how_to_obtain_it(tmp_path):
    with pytest.raises(
        FileNotFoundError, match='frames_cleanpass/TRAIN does not exist. SceneFlow: .*download'
    ):
        SceneFlowDataset(data_root=tmp_path / 'sceneflow', subset='monkaa', split='TRAIN')
    with pytest.raises(FileNotFoundError, match='mmflatten data digits --stereo --out'):
        SceneFlowDataset(data_root=tmp_path / 'digits_stereo')
    with pytest.raises(FileNotFoundError, match='KITTI stereo'):
        KITTIStereoDataset(data_root=tmp_path / 'kitti' / '2015')


def test_folder_without_pairs_is_an_error(tmp_path):
    for name in ('frames_cleanpass', 'disparity'):
        (tmp_path / name).mkdir()
    with pytest.raises(
        StereoDataError,
        match=f'data_root .{tmp_path}.: .* no image pairs at '
        r'frames_cleanpass/\*\*/left/\*.png',
    ):
        SceneFlowDataset(data_root=tmp_path)


def test_empty_validation_split_error_names_num_train(tmp_path):
    write_kitti(tmp_path, 2015, 2)
    with pytest.raises(
        StereoDataError, match=r'training/image_2/\*_10.png after the first 160 \(num_train\)'
    ):
        KITTIStereoDataset(data_root=tmp_path, split='val')


@pytest.mark.parametrize(
    'cls, options, words',
    [
        (SceneFlowDataset, dict(split='train'), r"split \('train'\) must be 'TRAIN' or 'TEST'"),
        (
            SceneFlowDataset,
            dict(render_pass='raw'),
            r"render_pass \('raw'\) must be one of 'clean', 'final'",
        ),
        (KITTIStereoDataset, dict(year=2013), r'year \(2013\) must be one of 2012, 2015'),
        (KITTIStereoDataset, dict(num_train=0), r'num_train \(0\) must be a positive integer'),
        (KITTIStereoDataset, dict(split='TRAIN'), r"split \('TRAIN'\) must be one of 'train'"),
    ],
)
def test_invalid_argument_error_lists_the_choices(tmp_path, cls, options, words):
    with pytest.raises(ValueError, match=words):
        cls(data_root=tmp_path, **options)


def test_stereo_bases_read_the_layouts(sceneflow, tmp_path):
    init_default_scope('mmflatten')
    config = Config.fromfile(BASES / 'sceneflow_stereo.py')
    for part in config.train_dataloader.dataset.datasets:
        part.data_root = str(sceneflow)
        part.pipeline = PIPELINE
    assert len(DATASETS.build(config.train_dataloader.dataset)) == 5
    config.val_dataloader.dataset.data_root = str(sceneflow)
    assert len(DATASETS.build(config.val_dataloader.dataset)) == 1
    write_kitti(tmp_path / 'kitti', 2015, 162)
    config = Config.fromfile(BASES / 'kitti_stereo.py')
    for loader, number in ((config.train_dataloader, 160), (config.val_dataloader, 2)):
        loader.dataset.data_root = str(tmp_path / 'kitti')
        assert len(DATASETS.build(loader.dataset)) == number


@pytest.mark.parametrize('path', sorted(BASES.glob('*_stereo.py')), ids=lambda path: path.stem)
def test_stereo_base_has_all_loaders_and_evaluators(path):
    config = Config.fromfile(path)
    for split in ('train', 'val'):
        dataset = config[f'{split}_dataloader'].dataset
        for part in dataset.get('datasets', [dataset]):
            assert (
                part.pipeline == config['train_pipeline' if split == 'train' else 'test_pipeline']
            )
            assert part.data_root == config.data_root and config.data_root.startswith('data/')
    assert config.val_dataloader == config.test_dataloader
    assert config.val_evaluator == config.test_evaluator
    assert 'Flip' not in str(config.train_pipeline), (
        'a mirrored pair has its sides the wrong way round'
    )
