"""Panoptic segmentation through all commands, on three scenes with a model of random weights."""

import json
import pickle
from pathlib import Path
from textwrap import dedent

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

from mmflatten.cli import analyze, init, predict, test
from mmflatten.datasets.scenes.panoptic_build import PanopticSceneOptions, build_panoptic_scenes
from mmflatten.engine.class_checks import wrong_heads
from mmflatten.engine.predictions import drawable_panoptic
from mmflatten.engine.setup import load_config
from mmflatten.hub.folder import read_published
from mmflatten.hub.publish import publish
from mmflatten.measure.flops.model_cost import count_model, macs_of
from mmflatten.predict.predictor import Predictor
from mmflatten.results.analysis import analyze as analyze_results
from mmflatten.results.reading import ResultsError, read_results
from mmflatten.structures.segments import INSTANCE_OFFSET, segment_ids
from mmflatten.tasks import task_of_model, tasks

NANO = (
    Path(__file__).parents[2]
    / 'configs'
    / 'digits'
    / 'panoptic-fpn_flatten-swin-nano_fpn_digits.py'
)
SIZE = 64
SMALL = """
    _base_ = ['{base}']
    train_dataloader = dict(num_workers=0, persistent_workers=False,
                            dataset=dict(data_root='{data}/'))
    val_dataloader = dict(batch_size=2, num_workers=0, persistent_workers=False,
                          dataset=dict(data_root='{data}/'))
    test_dataloader = val_dataloader
    val_evaluator = dict(ann_file='{data}/annotations/panoptic_val.json',
                         seg_prefix='{data}/annotations/panoptic_val/', classwise=True)
    test_evaluator = val_evaluator
    model = dict(test_cfg=dict(rcnn=dict(score_thr=0.05)))  # a random model has low scores
    work_dir = '{folder}/run'
"""


@pytest.fixture(scope='module')
def scenes(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('scenes') / 'digits_panoptic'
    build_panoptic_scenes(root, PanopticSceneOptions(train=4, val=3, size=SIZE))
    return root


@pytest.fixture(scope='module')
def small(scenes, tmp_path_factory) -> Path:
    """Config of the nano model on the scenes, beside a checkpoint and its predictions."""
    folder = tmp_path_factory.mktemp('small')
    config = folder / 'config.py'
    config.write_text(dedent(SMALL).format(base=NANO, data=scenes, folder=folder))
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(Config.fromfile(config).model)
    torch.save(dict(state_dict=model.state_dict()), folder / 'model.pth')
    options = ['--out', folder / 'out.pkl', '--show-dir', folder / 'drawings']
    assert run(test.main, config, folder / 'model.pth', *options) == 0
    return folder


def run(main, *words: object) -> int:
    return main([str(word) for word in words])


def outputs_of(folder: Path) -> tuple[dict, list]:
    metrics = json.loads((folder / 'out.json').read_text())['metrics']
    return metrics, pickle.loads((folder / 'out.pkl').read_bytes())


def test_command_test_writes_metrics_predictions_and_drawings(small):
    metrics, entries = outputs_of(small)
    assert set(metrics) == {
        f'coco_panoptic/{name}{kind}' for name in ('PQ', 'SQ', 'RQ') for kind in ('', '_th', '_st')
    }
    for entry in entries:
        panoptic = entry['pred_panoptic_seg']['sem_seg']
        assert panoptic.shape == (1, SIZE, SIZE) and panoptic.dtype == torch.int16
        assert entry['gt_sem_seg']['sem_seg'].dtype == torch.uint8
    drawings = sorted((small / 'drawings').iterdir())
    assert [path.name for path in drawings] == [f'{i:06d}_{i:06d}.png' for i in range(3)]
    # the truth beside the prediction
    assert {cv2.imread(str(path)).shape for path in drawings} == {(SIZE, 2 * SIZE, 3)}


def test_command_analyze_repeats_the_metrics_of_the_test(small, tmp_path):
    metrics, _ = outputs_of(small)
    assert run(analyze.main, small / 'out.pkl', '--out', tmp_path / 'analysis') == 0
    analysis = analyze_results(read_results(small / 'out.pkl'))
    assert analysis.task == 'panoptic' and analysis.images == 3
    for name, value in analysis.summary.items():
        assert value == pytest.approx(metrics[f'coco_panoptic/{name}'], nan_ok=True)
    assert (tmp_path / 'analysis' / 'classes.csv').read_text().count('\n') == 15
    drawn = list((tmp_path / 'analysis' / 'worst').iterdir())
    assert len(drawn) == len(analysis.worst) == 3


def test_analysis_of_the_truth_is_100_and_lists_missed_segments(small, scenes, tmp_path):
    _, entries = outputs_of(small)
    for entry in entries:
        file = scenes / 'annotations' / 'panoptic_val' / Path(entry['img_path']).name
        ids = segment_ids(cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB))
        # `number_segments` numbers by category * 1000 + order.
        labels, order = ids // 1000 - 1, ids % 1000
        panoptic = labels + (order + 1) * INSTANCE_OFFSET * (labels < 10)
        panoptic[ids == 0] = 14
        entry['pred_panoptic_seg']['sem_seg'] = torch.from_numpy(panoptic)[None]
    file = tmp_path / 'out.pkl'
    file.with_suffix('.json').write_text((small / 'out.json').read_text())
    file.write_bytes(pickle.dumps(entries, protocol=2))
    analysis = analyze_results(read_results(file))
    assert [*analysis.summary.values()] == pytest.approx([100] * 9)

    entries[0]['pred_panoptic_seg']['sem_seg'][:] = 14
    file.write_bytes(pickle.dumps(entries, protocol=2))
    analysis = analyze_results(read_results(file))
    missed = sum(row[-1] for row in analysis.tables['classes'].rows)
    content = json.loads((scenes / 'annotations' / 'panoptic_val.json').read_text())
    assert missed == len(content['annotations'][0]['segments_info'])
    assert analysis.worst[0] == (0, 0)
    with pytest.raises(ResultsError, match='seg_prefix'):
        file.with_suffix('.json').unlink()
        analyze_results(read_results(file))


def test_command_predict_writes_coco_results(small, scenes, tmp_path):
    images = scenes / 'images' / 'validation'
    words = [small / 'config.py', small / 'model.pth', images, '--out', tmp_path / 'out']
    assert run(predict.main, *words) == 0
    content = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    assert [category['name'] for category in content['categories']][-1] == 'dots'
    _, entries = outputs_of(small)
    for annotation, entry in zip(content['annotations'], entries):
        file = tmp_path / 'out' / 'panoptic' / annotation['file_name']
        ids = segment_ids(cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB))
        panoptic = entry['pred_panoptic_seg']['sem_seg'][0].numpy()
        listed = {segment['id'] for segment in annotation['segments_info']}
        assert listed == set(np.unique(ids).tolist()) - {0}
        for segment in annotation['segments_info']:
            (value,) = np.unique(panoptic[ids == segment['id']])
            assert value % INSTANCE_OFFSET == segment['category_id']
            assert segment['isthing'] == (segment['category_id'] < 10)
            assert segment['area'] == (panoptic == value).sum()
    assert len(list((tmp_path / 'out' / 'drawings').iterdir())) == 3


def test_map_of_void_alone_is_drawn_as_the_image(small, scenes):
    predictor = Predictor(small / 'config.py', small / 'model.pth', 'cpu')
    assert predictor.task is tasks()['panoptic']
    sample = predictor(str(scenes / 'images' / 'validation' / '000000.png'))
    sample.pred_panoptic_seg.sem_seg[:] = 14
    assert 'pred_panoptic_seg' not in drawable_panoptic(sample, 14)


def test_published_model_predicts_the_same_segments(small, scenes, tmp_path):
    publish(str(small / 'model.pth'), tmp_path / 'published', str(small / 'config.py'))
    published = read_published(tmp_path / 'published')
    image = str(scenes / 'images' / 'validation' / '000001.png')
    before = Predictor(small / 'config.py', small / 'model.pth', 'cpu')(image)
    after = Predictor(published.config, published.weights, 'cpu')(image)
    assert torch.equal(after.pred_panoptic_seg.sem_seg, before.pred_panoptic_seg.sem_seg)
    assert before.pred_panoptic_seg.sem_seg.unique().numel() > 1


def test_semantic_head_is_counted():
    with DefaultScope.overwrite_default_scope('mmdet'), torch.device('meta'):
        model = MODELS.build(Config.fromfile(NANO).model)
    assert task_of_model(model) is tasks()['panoptic']
    counts = count_model(model, (SIZE, SIZE)).counts
    # Maps of 16, 8, 4 and 2 pixels: 3 x 3 convolutions at each size up to 8, one at 16.
    pixels = 16**2 + 8**2 + (4**2 + 8**2) + (2**2 + 4**2 + 8**2)
    expected = pixels * 9 * 48**2 + 16**2 * 48 * (4 + 1)
    assert macs_of(counts.of_module('semantic_head')) == expected


def test_heads_have_the_number_of_things():
    config = Config.fromfile(NANO)
    config.model.roi_head.bbox_head.num_classes = 14
    with DefaultScope.overwrite_default_scope('mmdet'), torch.device('meta'):
        model = MODELS.build(config.model)
    (problem,) = wrong_heads(model, 14, 'train_dataloader.dataset', exact=True)
    assert 'bbox_head' in problem and '10' in problem
    problems = list(wrong_heads(model, 13, 'train_dataloader.dataset', exact=True))
    assert 'panoptic_fusion_head' in problems[0]


def reorder(file: Path, out: Path) -> Path:
    """Write annotations with fewer classes, the stuff first in the file."""
    content = json.loads(file.read_text())
    for annotation in content['annotations']:
        for segment in annotation['segments_info']:
            number = segment['category_id']
            if number <= 10:
                segment['category_id'] = 100 + number % 2
    stuff = [category for category in content['categories'] if not category['isthing']]
    things = [dict(id=100, name='odd', isthing=1), dict(id=101, name='even', isthing=1)]
    content['categories'] = [*stuff, *things]
    out.write_text(json.dumps(content))
    return out


@pytest.fixture
def own(scenes, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    reorder(scenes / 'annotations' / 'panoptic_train.json', tmp_path / 'all.json')
    (tmp_path / 'all').symlink_to(scenes / 'annotations' / 'panoptic_train')
    (tmp_path / 'photos').symlink_to(scenes / 'images' / 'training')
    return tmp_path


OPTIONS = ('--task', 'panoptic', '--images', 'photos', '--ann', 'all.json', '--out', 'mine.py')


def test_command_init_writes_a_config_that_tests(own, capsys):
    assert run(init.main, *OPTIONS, '--base', NANO, '--val-share', 0.5) == 0
    assert '2 images for training, 2 for validation' in capsys.readouterr().out
    cfg = load_config('mine.py')
    assert cfg.classes == ('odd', 'even', 'photograph', 'stripes', 'checks', 'dots')
    assert cfg.model.roi_head.mask_head.num_classes == 2
    assert cfg.model.semantic_head.num_things_classes == 2
    assert cfg.model.panoptic_fusion_head.num_stuff_classes == 4
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(cfg.model)
    torch.save(dict(state_dict=model.state_dict()), 'model.pth')
    serial = ['val_dataloader', 'test_dataloader']
    options = [f'{name}.num_workers=0' for name in serial]
    options += [f'{name}.persistent_workers=False' for name in serial]
    assert run(test.main, 'mine.py', 'model.pth', '--out', 'x.json', '--cfg-options', *options) == 0


def test_command_init_sets_the_classes_of_queries(own):
    base = NANO.with_name('mask2former_flatten-swin-nano_digits-panoptic.py')
    assert run(init.main, *OPTIONS, '--base', base) == 0
    head = load_config('mine.py').model.panoptic_head
    assert (head.num_things_classes, head.num_stuff_classes) == (2, 4)
    assert head.loss_cls.class_weight == [1.0] * 6 + [0.1]


@pytest.mark.parametrize(
    'case, word',
    [
        ('no isthing', 'isthing'),
        ('no PNG folder', 'PNG'),
        ('missing PNG', 'missing PNG file'),
        ('other segments', 'does not fit'),
        ('category', 'unknown category_id'),
        ('detector', '--base'),
    ],
)
def test_command_init_names_the_problem_and_writes_nothing(own, capsys, case, word):
    content = json.loads((own / 'all.json').read_text())
    base = NANO
    if case == 'no isthing':
        del content['categories'][0]['isthing']
    elif case == 'no PNG folder':
        (own / 'all').unlink()
    elif case == 'missing PNG':
        content['annotations'][0]['file_name'] = 'none.png'
    elif case == 'other segments':
        content['annotations'][0]['segments_info'].pop()
    elif case == 'category':
        content['annotations'][0]['segments_info'][0]['category_id'] = 5
    elif case == 'detector':
        base = NANO.with_name('mask-rcnn_flatten-swin-nano_fpn_digits.py')
    (own / 'all.json').write_text(json.dumps(content))
    assert run(init.main, *OPTIONS, '--base', base) == 1
    assert word in capsys.readouterr().err
    assert not (own / 'mine.py').exists()
