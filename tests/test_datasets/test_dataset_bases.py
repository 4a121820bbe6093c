"""The data set bases read their folder layouts with the libraries' own loaders, metrics and
test-time augmentation.
"""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from mmdet.datasets import CocoDataset
from mmengine.config import Config
from mmengine.registry import DATASETS, METRICS, init_default_scope
from mmengine.runner import Runner
from PIL import Image

BASES = Path(__file__).parents[2] / 'configs' / '_base_' / 'datasets'
SCOPES = dict(
    imagenet='mmpretrain',
    digits_cls='mmpretrain',
    coco='mmdet',
    digits_coco='mmdet',
    ade20k='mmseg',
    digits_seg='mmseg',
)
SPLITS = ('train', 'val', 'test')


def load_base(name: str, root: Path) -> Config:
    """The base with its data below ``root``, in the scope of its library, loading in this
    process.
    """
    scope = max((prefix for prefix in SCOPES if name.startswith(prefix)), key=len)
    init_default_scope(SCOPES[scope])
    config = Config.fromfile(BASES / f'{name}.py')
    for split in SPLITS:
        config[f'{split}_dataloader'].update(num_workers=0, persistent_workers=False)
        config[f'{split}_dataloader'].dataset.data_root = str(root)
    for split in ('val', 'test'):
        evaluator = config[f'{split}_evaluator']
        if 'ann_file' in evaluator:
            evaluator.ann_file = str(root / Path(evaluator.ann_file).relative_to(config.data_root))
    return config


def first_batch(config: Config, split: str) -> dict:
    return next(iter(Runner.build_dataloader(config[f'{split}_dataloader'], seed=0)))


@pytest.fixture(scope='session')
def coco_root(digit_root, tmp_path_factory) -> Path:
    """Digit scenes in the folders and with the category names of COCO 2017, in landscape format."""
    root = tmp_path_factory.mktemp('coco')
    (root / 'annotations').mkdir()
    names = (
        'person',
        'bicycle',
        'car',
        'motorcycle',
        'airplane',
        'bus',
        'train',
        'truck',
        'boat',
        'traffic light',
    )
    for split, folder in (('train', 'training'), ('val', 'validation')):
        shutil.copytree(digit_root / 'images' / folder, root / f'{split}2017')
        content = json.loads((digit_root / 'annotations' / f'instances_{split}.json').read_text())
        for category, name in zip(content['categories'], names):
            category['name'] = name
        others = [name for name in CocoDataset.METAINFO['classes'] if name not in names]
        content['categories'] += [dict(id=100 + i, name=name) for i, name in enumerate(others)]
        (root / 'annotations' / f'instances_{split}2017.json').write_text(json.dumps(content))
    return root


@pytest.fixture(scope='session')
def ade_root(digit_root, tmp_path_factory) -> Path:
    """Digit scenes as JPEG in the folders of ADE20K."""
    root = tmp_path_factory.mktemp('ade')
    for folder in ('training', 'validation'):
        shutil.copytree(digit_root / 'annotations' / folder, root / 'annotations' / folder)
        (root / 'images' / folder).mkdir(parents=True)
        for path in (digit_root / 'images' / folder).iterdir():
            Image.open(path).save(root / 'images' / folder / f'{path.stem}.jpg')
    return root


@pytest.fixture(scope='session')
def imagenet_root(tmp_path_factory) -> Path:
    """1000 class folders, two of them with an image of 300 x 200 that is red on the left and blue
    on the right.
    """
    root = tmp_path_factory.mktemp('imagenet')
    pixels = np.zeros((200, 300, 3), dtype=np.uint8)
    pixels[:, :150, 0] = pixels[:, 150:, 2] = 255
    for split in ('train', 'val'):
        for number in range(1000):
            (root / split / f'n{number:08d}').mkdir(parents=True)
        for number in (3, 7):
            Image.fromarray(pixels).save(root / split / f'n{number:08d}' / 'x.JPEG')
    return root


SINGLE_VIEW = sorted(set(BASES.glob('*.py')) - set(BASES.glob('*_stereo.py')))


@pytest.mark.parametrize('path', SINGLE_VIEW, ids=lambda path: path.stem)
def test_every_base_has_all_loaders_and_evaluators(path):
    config = Config.fromfile(path)
    for split in SPLITS:
        loader = config[f'{split}_dataloader']
        assert (
            loader.dataset.pipeline
            == config['train_pipeline' if split == 'train' else 'test_pipeline']
        )
        assert loader.dataset.data_root == config.data_root and config.data_root.startswith('data/')
        assert loader.persistent_workers and loader.num_workers > 0
    assert config.val_dataloader == config.test_dataloader
    assert config.val_evaluator == config.test_evaluator
    if 'panoptic' not in path.stem:  # nobody merges segments of several views
        assert config.tta_pipeline[-1].type == 'TestTimeAug'
    if path.stem.startswith('digits'):
        assert all(config[f'{split}_dataloader'].num_workers <= 2 for split in SPLITS)
    assert 'Flip' not in str(config.train_pipeline) or not path.stem.startswith('digits')


@pytest.mark.parametrize(
    'name, size',
    [
        ('imagenet_bs128_224', 224),
        ('imagenet_bs128_240', 240),
        ('imagenet_bs128_flatten_224', 224),
        ('imagenet_bs32_384', 384),
        ('imagenet_bs32_flatten-cswin_384', 384),
        ('imagenet_bs256_cswin_224', 224),
        ('imagenet_bs32_cswin_384', 384),
    ],
)
def test_imagenet_loads_at_its_size(imagenet_root, name, size):
    config = load_base(name, imagenet_root)
    for split in SPLITS:
        batch = first_batch(config, split)
        assert batch['inputs'].shape == (2, 3, size, size) and batch['inputs'].dtype == torch.uint8
        assert sorted(int(sample.gt_label) for sample in batch['data_samples']) == [3, 7]


@pytest.mark.parametrize(
    'name, border',
    [
        ('imagenet_bs128_224', 112),
        ('imagenet_bs128_240', 120),
        ('imagenet_bs128_flatten_224', 112),
        ('imagenet_bs256_cswin_224', 112),
        ('imagenet_bs32_cswin_384', 192),
    ],
)
def test_imagenet_evaluation_crops_the_centre(imagenet_root, name, border):
    blue, _, red = first_batch(load_base(name, imagenet_root), 'val')['inputs'][0].float()
    assert (red[:, : border - 6] > 200).all() and (blue[:, border + 6 :] > 200).all()


def test_square_resize_ignores_the_aspect_ratio(imagenet_root, tmp_path):
    """A red frame of 10 % survives the centre crop only where the picture was squeezed first."""
    pixels = np.zeros((200, 400, 3), dtype=np.uint8)
    pixels[:, :80, 0] = pixels[:, -80:, 0] = 255
    shutil.copytree(imagenet_root / 'val', tmp_path / 'val')
    Image.fromarray(pixels).save(tmp_path / 'val' / 'n00000003' / 'x.JPEG')
    shares = {}
    for name in ('imagenet_bs128_224', 'imagenet_bs128_flatten_224'):
        config = load_base(name, tmp_path)
        shares[name] = (first_batch(config, 'val')['inputs'][0, 2] > 128).float().mean().item()
    assert shares['imagenet_bs128_224'] == 0
    # 80 of 400 columns are 51.2 of 256, and the crop takes 16 of them away.
    assert shares['imagenet_bs128_flatten_224'] == pytest.approx(2 * 35.2 / 224, abs=0.02)


@pytest.mark.parametrize(
    'name, with_masks',
    [
        ('coco_instance', True),
        ('coco_instance_ms', True),
        ('coco_detection', False),
        ('coco_detection_ms', False),
    ],
)
def test_coco_bases_load(coco_root, name, with_masks):
    config = load_base(name, coco_root)
    batch = first_batch(config, 'train')
    assert len(batch['inputs']) == 2
    for image, sample in zip(batch['inputs'], batch['data_samples']):
        shorter, longer = sorted(image.shape[1:])
        assert (
            (480 <= shorter <= 800 and longer <= 1333)
            if name.endswith('ms')
            else (shorter, longer) == (800, 800)
        )
        assert ('masks' in sample.gt_instances) == with_masks
        assert len(sample.gt_instances.bboxes) > 0
    image, sample = (
        first_batch(config, 'val')['inputs'][0],
        first_batch(config, 'test')['data_samples'][0],
    )
    assert image.shape == (3, 800, 800) and sample.ori_shape == (96, 96)


def test_multi_scale_training_crops_about_half_of_the_images(coco_root):
    config = load_base('coco_instance_ms', coco_root)
    dataset = DATASETS.build(config.train_dataloader.dataset)
    np.random.seed(0)
    shapes = [tuple(dataset[number % len(dataset)]['inputs'].shape[1:]) for number in range(24)]
    # A whole square scene stays square; a crop of at most 384 x 600 does not, unless both sides are
    # drawn alike.
    assert 4 <= sum(height != width for height, width in shapes) <= 20
    assert len(set(shapes)) > 8


def test_multi_scale_960_resizes_whole_images(coco_root):
    dataset = DATASETS.build(load_base('coco_detection_ms960', coco_root).train_dataloader.dataset)
    np.random.seed(0)
    shapes = {tuple(dataset[0]['inputs'].shape[1:]) for _ in range(30)}
    assert shapes <= {(side, side) for side in range(480, 961, 32)}
    assert (
        max(shapes)
        > (
            800,
            800,
        )
        > min(shapes)
    )


@pytest.mark.parametrize('name', ['ade20k_512x512', 'digits_seg'])
def test_segmentation_bases_ignore_zero_and_count_from_one(ade_root, digit_root, name):
    root = digit_root if name == 'digits_seg' else ade_root
    config = load_base(name, root)
    batch = first_batch(config, 'train')
    for image, sample in zip(batch['inputs'], batch['data_samples']):
        assert image.shape[1:] == sample.gt_sem_seg.data.shape[1:]
        # Smaller where the scale drawn is smaller; the data preprocessor pads.
        assert max(image.shape[1:]) <= config.crop_size[0]
        assert min(image.shape[1:]) >= config.crop_size[0] // 2
    sample = first_batch(config, 'val')['data_samples'][0]
    raw = np.asarray(Image.open(root / 'annotations' / 'validation' / '000000.png')).astype(int)
    np.testing.assert_array_equal(
        sample.gt_sem_seg.data[0].numpy(), np.where(raw == 0, 255, raw - 1)
    )


def test_digit_crops_load_with_their_labels(digit_root):
    config = load_base('digits_cls', digit_root)
    config.val_dataloader.batch_size = 4
    dataset = DATASETS.build(config.val_dataloader.dataset)
    files = Counter(path.parent.name for path in (digit_root / 'crops' / 'val').rglob('*.png'))
    assert Counter(dataset.CLASSES[label] for label in dataset.get_gt_labels()) == files
    assert first_batch(config, 'val')['inputs'].shape == (4, 3, 64, 64)
    batch = first_batch(config, 'train')
    assert batch['inputs'].shape[1:] == (3, 64, 64)
    assert len(batch['data_samples']) == len(batch['inputs'])


@pytest.mark.parametrize('name, with_masks', [('digits_coco', True), ('digits_coco_det', False)])
def test_scenes_load_as_coco(digit_root, name, with_masks):
    config = load_base(name, digit_root)
    for split in SPLITS:
        batch = first_batch(config, split)
        assert batch['inputs'][0].shape == (3, 160, 160)
        for sample in batch['data_samples']:
            instances = sample.gt_instances
            assert len(instances.bboxes) == len(instances.labels) > 0
            assert int(instances.labels.max()) <= 9 and ('masks' in instances) == with_masks
    assert DATASETS.build(config.val_dataloader.dataset).metainfo['classes'] == tuple('0123456789')


def test_ground_truth_scores_one_in_coco_metric(digit_root):
    config = load_base('digits_coco', digit_root)
    dataset = DATASETS.build(config.val_dataloader.dataset)
    metric = METRICS.build(config.val_evaluator)
    metric.dataset_meta = dataset.metainfo
    for item in dataset:
        truth = item['data_samples'].to_dict()
        instances = truth['gt_instances']
        truth['pred_instances'] = dict(
            bboxes=instances['bboxes'].tensor,  # loaded after the resize: in the original size
            labels=instances['labels'],
            scores=torch.ones(len(instances['labels'])),
            masks=torch.from_numpy(np.array(instances['masks'].masks)).bool(),
        )
        metric.process({}, [truth])
    scores = metric.evaluate(len(dataset))
    assert scores['coco/bbox_mAP'] == pytest.approx(1.0)
    assert scores['coco/segm_mAP'] == pytest.approx(1.0)


def test_ground_truth_scores_100_in_segmentation_metric(digit_root):
    config = load_base('digits_seg', digit_root)
    dataset = DATASETS.build(config.val_dataloader.dataset)
    metric = METRICS.build(config.val_evaluator)
    metric.dataset_meta = dataset.metainfo
    for item in dataset:
        truth = item['data_samples']
        guess = truth.gt_sem_seg.data.clone()
        guess[guess == 255] = 4  # predictions on the rim do not count
        metric.process(
            {}, [dict(gt_sem_seg=dict(data=truth.gt_sem_seg.data), pred_sem_seg=dict(data=guess))]
        )
    assert metric.evaluate(len(dataset))['mIoU'] == pytest.approx(100)


@pytest.mark.parametrize(
    'name, views',
    [
        ('imagenet_bs128_224', 2),
        ('imagenet_bs128_flatten_224', 2),
        ('imagenet_bs32_384', 2),
        ('imagenet_bs32_flatten-cswin_384', 2),
        ('imagenet_bs256_cswin_224', 2),
        ('coco_instance', 6),
        ('coco_detection_ms', 6),
        ('ade20k_512x512', 12),
        ('digits_cls', 2),
        ('digits_coco', 3),
        ('digits_coco_det', 3),
        ('digits_seg', 3),
    ],
)
def test_tta_pipeline_loads(request, name, views):
    fixture = name.split('_')[0].removesuffix('s').replace('ade20k', 'ade') + '_root'
    config = load_base(name, request.getfixturevalue(fixture))
    config.test_dataloader.dataset.pipeline = config.tta_pipeline
    sample = DATASETS.build(config.test_dataloader.dataset)[0]
    assert len(sample['inputs']) == len(sample['data_samples']) == views
