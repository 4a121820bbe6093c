"""Panoptic digit scenes, and the data set, transform and metric that read them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmdet.datasets import CocoPanopticDataset
from mmengine.config import Config
from mmengine.registry import DATASETS, METRICS, init_default_scope
from PIL import Image

from mmflatten.cli.data import main
from mmflatten.datasets.scenes.panoptic_build import PanopticSceneOptions, build_panoptic_scenes
from mmflatten.structures.segments import (
    INSTANCE_OFFSET,
    SegmentError,
    segment_colours,
    segment_ids,
)

BASE = Path(__file__).parents[2] / 'configs' / '_base_' / 'datasets' / 'digits_panoptic.py'


@pytest.fixture(scope='module')
def panoptic_root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('scenes') / 'digits_panoptic'
    build_panoptic_scenes(root, PanopticSceneOptions(train=4, val=3, size=96))
    return root


def read_annotations(root: Path, split: str) -> dict:
    return json.loads((root / 'annotations' / f'panoptic_{split}.json').read_text())


def read_ids(root: Path, split: str, name: str) -> np.ndarray:
    return segment_ids(np.array(Image.open(root / 'annotations' / f'panoptic_{split}' / name)))


def load(root: Path, split: str, **changes: object):
    init_default_scope('mmdet')
    settings = Config.fromfile(BASE)[f'{split}_dataloader'].dataset
    settings.update(data_root=str(root), **changes)
    return DATASETS.build(settings)


def test_colours_and_ids_are_inverse():
    ids = np.array([[0, 1, 255, 256], [65535, 65536, 256**3 - 1, 14000]])
    np.testing.assert_array_equal(segment_ids(segment_colours(ids)), ids)
    assert segment_colours(np.array([[65536 + 2 * 256 + 3]])).tolist() == [[[3, 2, 1]]]


def test_segments_of_annotations_and_files_are_the_same(panoptic_root):
    for split in ('train', 'val'):
        content = read_annotations(panoptic_root, split)
        is_thing = {category['id']: category['isthing'] for category in content['categories']}
        for annotation in content['annotations']:
            ids = read_ids(panoptic_root, split, annotation['file_name'])
            segments = annotation['segments_info']
            assert {segment['id'] for segment in segments} == set(np.unique(ids).tolist()) - {0}
            kinds = [is_thing[segment['category_id']] for segment in segments]
            assert kinds.count(1) >= 1 and kinds.count(0) >= 2
            for segment in segments:
                mask = ids == segment['id']
                rows, columns = mask.nonzero()
                x, y, width, height = segment['bbox']
                assert segment['area'] == mask.sum()
                assert (x, y) == (columns.min(), rows.min())
                assert (width, height) == (np.ptp(columns) + 1, np.ptp(rows) + 1)
            # Only the soft rims of the digits are void.
            assert 0 < (ids == 0).mean() < 0.1


def test_same_options_give_the_same_bytes_and_fewer_scenes_a_part(panoptic_root, tmp_path):
    build_panoptic_scenes(tmp_path / 'fewer', PanopticSceneOptions(train=2, val=1, size=96))
    for name in ('images/training/000001.png', 'annotations/panoptic_val/000000.png'):
        assert (tmp_path / 'fewer' / name).read_bytes() == (panoptic_root / name).read_bytes()


def test_data_set_orders_things_first_and_reads_the_annotated_file(panoptic_root, tmp_path):
    content = read_annotations(panoptic_root, 'val')
    content['categories'].reverse()
    # The PNG file may have another name than the image.
    content['images'][0]['file_name'] = 'photo.jpg'
    file = tmp_path / 'reversed.json'
    file.write_text(json.dumps(content))
    before = load(panoptic_root, 'val')
    after = load(panoptic_root, 'val', ann_file=str(file))
    for one, other in zip(before, after.load_data_list()):
        labels = [instance['bbox_label'] for instance in other['instances']]
        assert labels == one['data_samples'].gt_instances.labels.tolist()
    assert after.get_data_info(0)['seg_map_path'].endswith('panoptic_val/000000.png')


def test_transform_loads_masks_of_things_and_labels_of_all_pixels(panoptic_root):
    content = read_annotations(panoptic_root, 'val')
    for sample, annotation in zip(load(panoptic_root, 'val'), content['annotations']):
        ids = read_ids(panoptic_root, 'val', annotation['file_name'])
        labels = np.full(ids.shape, 255)
        things = []
        for segment in annotation['segments_info']:
            labels[ids == segment['id']] = segment['category_id'] - 1
            if segment['category_id'] <= 10:
                things.append(ids == segment['id'])
        truth = sample['data_samples']
        np.testing.assert_array_equal(truth.gt_sem_seg.sem_seg[0], labels)
        np.testing.assert_array_equal(truth.gt_instances.masks.masks, things)
        assert len(truth.gt_instances.bboxes) == len(things)


def test_crowd_is_no_instance_but_labels_its_pixels(panoptic_root, tmp_path):
    content = read_annotations(panoptic_root, 'val')
    first = content['annotations'][0]['segments_info'][0]
    first['iscrowd'] = 1
    file = tmp_path / 'crowd.json'
    file.write_text(json.dumps(content))
    before, after = (
        load(panoptic_root, 'val')[0]['data_samples'],
        load(panoptic_root, 'val', ann_file=str(file))[0]['data_samples'],
    )
    assert len(after.gt_instances) == len(before.gt_instances) - 1
    assert torch.equal(after.gt_sem_seg.sem_seg, before.gt_sem_seg.sem_seg)


def test_segment_that_mmdet_skips_is_void_in_training(panoptic_root, tmp_path):
    content = read_annotations(panoptic_root, 'val')
    first = content['annotations'][0]['segments_info'][0]
    first['bbox'][2] = 0
    file = tmp_path / 'thin.json'
    file.write_text(json.dumps(content))
    truth = load(panoptic_root, 'val', ann_file=str(file))[0]['data_samples']
    ids = read_ids(panoptic_root, 'val', '000000.png')
    assert set(truth.gt_sem_seg.sem_seg[0][torch.from_numpy(ids == first['id'])].tolist()) == {255}


def spoil(content: dict, case: str) -> None:
    segment = content['annotations'][0]['segments_info'][0]
    if case == 'category_id':
        segment['category_id'] = 99
    elif case == 'image_id':
        content['annotations'][0]['image_id'] = 99
    elif case == 'segment id':
        segment['id'] = content['annotations'][0]['segments_info'][1]['id']
    elif case == 'isthing':
        content['categories'][segment['category_id'] - 1]['isthing'] = 0
    elif case == 'classes':
        content['categories'][0]['name'] = 'zero'
    elif case == 'segments_info':
        segment['id'] += 500


CASES = ('category_id', 'image_id', 'segment id', 'isthing', 'classes', 'segments_info')


@pytest.mark.parametrize('case', CASES)
def test_contradicting_annotations_are_an_error(panoptic_root, tmp_path, case):
    content = read_annotations(panoptic_root, 'val')
    spoil(content, case)
    file = tmp_path / 'spoiled.json'
    file.write_text(json.dumps(content))
    with pytest.raises(SegmentError, match=case):
        load(panoptic_root, 'val', ann_file=str(file))[0]


def test_png_file_of_another_size_is_an_error(panoptic_root, tmp_path):
    small = tmp_path / '000000.png'
    Image.new('RGB', (20, 10)).save(small)
    data = load(panoptic_root, 'val')
    with pytest.raises(SegmentError, match='96 x 96 .* 20 x 10'):
        data.pipeline(data.get_data_info(0) | dict(seg_map_path=str(small)))


def perfect(root: Path, data, index: int) -> dict:
    """Prediction of an image that equals its truth, as mmdet stores it."""
    info = data.get_data_info(index)
    ids = read_ids(root, 'val', Path(info['seg_map_path']).name)
    panoptic = np.full(ids.shape, len(data.metainfo['classes']))
    for number, segment in enumerate(info['segments_info']):
        panoptic[ids == segment['id']] = segment['category'] + number * INSTANCE_OFFSET
    seg = dict(sem_seg=torch.from_numpy(panoptic)[None])
    return dict(img_id=info['img_id'], pred_panoptic_seg=seg)


def test_metric_of_the_base_scores_truth_100_and_counts_errors(panoptic_root):
    data = load(panoptic_root, 'val')
    settings = Config.fromfile(BASE).val_evaluator
    for name in ('ann_file', 'seg_prefix'):
        settings[name] = settings[name].replace('data/digits_panoptic', str(panoptic_root))
    metric = METRICS.build(settings)
    metric.dataset_meta = data.metainfo
    samples = [perfect(panoptic_root, data, index) for index in range(len(data))]
    metric.process({}, samples)
    perfect_values = metric.evaluate(len(samples))
    assert len(perfect_values) == 9
    for name, value in perfect_values.items():
        assert name.startswith('coco_panoptic/') and value == pytest.approx(100)

    stuff = samples[0]['pred_panoptic_seg']['sem_seg']
    stuff[stuff % INSTANCE_OFFSET >= 10] = len(data.metainfo['classes'])
    metric.process({}, samples)
    values = metric.evaluate(len(samples))
    assert values['coco_panoptic/PQ_th'] == pytest.approx(100)
    assert values['coco_panoptic/SQ_st'] <= 100
    assert values['coco_panoptic/RQ_st'] < 90


def test_command_builds_panoptic_scenes_apart_from_others(panoptic_root, tmp_path, capsys):
    options = ['--train', '4', '--val', '3', '--size', '96']
    assert main(['digits', '--panoptic', '--out', str(panoptic_root), *options]) == 0
    assert 'nothing to do' in capsys.readouterr().out
    assert main(['digits', '--out', str(panoptic_root), *options]) == 1
    assert 'stuff=4' in capsys.readouterr().err


def test_base_of_coco_reads_its_133_classes(panoptic_root, tmp_path):
    root = tmp_path / 'coco'
    (root / 'annotations').mkdir(parents=True)
    names = CocoPanopticDataset.METAINFO
    content = read_annotations(panoptic_root, 'val')
    content['categories'] = [
        dict(id=number, name=name, isthing=int(name in names['thing_classes']))
        for number, name in enumerate(names['classes'], 1)
    ]
    for annotation in content['annotations']:
        for segment in annotation['segments_info']:
            segment['category_id'] += 70 if segment['category_id'] > 10 else 0
    (root / 'annotations' / 'panoptic_val2017.json').write_text(json.dumps(content))
    (root / 'annotations' / 'panoptic_val2017').symlink_to(
        panoptic_root / 'annotations' / 'panoptic_val'
    )
    (root / 'val2017').symlink_to(panoptic_root / 'images' / 'validation')
    init_default_scope('mmdet')
    config = Config.fromfile(BASE.with_name('coco_panoptic.py'))
    settings = config.val_dataloader.dataset
    settings.data_root = str(root)
    sample = DATASETS.build(settings)[0]['data_samples']
    labels = set(sample.gt_sem_seg.sem_seg.unique().tolist()) - {255}
    assert min(labels) < 10 and 80 <= max(labels) < 84
