"""Predictions from somebody else: refused before a library in C reads them, and no address in them
is asked.
"""

import json
import pickle
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from pycocotools import mask as coco_mask

from mmflatten.cli import analyze
from mmflatten.results.analysis import analyze as analyze_results
from mmflatten.results.checking import ResultsError, check_entries
from mmflatten.results.reading import Results, read_results
from mmflatten.tasks import tasks
from mmflatten.untrusted.csv_files import read_csv

SHAPE = (6, 5)


def run_length(mask: np.ndarray) -> dict:
    return coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))


def instances(**changes: object) -> dict:
    return {
        **dict(
            bboxes=torch.tensor([[0.0, 0.0, 3.0, 3.0]]),
            labels=torch.tensor([0]),
            scores=torch.tensor([0.9]),
            masks=[run_length(np.eye(*SHAPE))],
        ),
        **changes,
    }


def entry(**changes: object) -> dict:
    return {
        **dict(img_id=1, img_path='a.png', ori_shape=SHAPE, pred_instances=instances()),
        **changes,
    }


def test_masks_of_any_size_are_accepted():
    draw = np.random.default_rng(0)
    for shape in [SHAPE, (1, 1), (300, 500), (1, 4000)]:
        for share in (0, 0.001, 0.5, 1):
            mask = run_length(draw.random(shape) < share)
            for counts in (mask['counts'], mask['counts'].decode()):
                check_entries(
                    [
                        entry(
                            ori_shape=shape,
                            pred_instances=instances(masks=[{**mask, 'counts': counts}]),
                        )
                    ],
                    Path('a.pkl'),
                )


GOOD = run_length(np.eye(*SHAPE))['counts']
NESTED: list = []
for _ in range(60):
    NESTED = [NESTED, NESTED]


@pytest.mark.parametrize(
    'mask',
    [
        dict(size=[0, 0], counts=b''),
        dict(size=[0, 0], counts=GOOD),
        dict(size=[5, 6], counts=GOOD),
        dict(size=[6, 5], counts=b''),
        dict(size=[6, 5], counts=GOOD[:-1]),
        dict(size=[6, 5], counts=GOOD + b'1'),
        dict(size=[6, 5], counts=b'oooooooooooooo0'),
        dict(size=[6, 5], counts=b'o' * 9),
        dict(size=[6, 5], counts=b'`oooo0'),
        dict(size=[6, 5], counts=b'N`1'),
        dict(size=[6, 5], counts='ä'),
        dict(size=[6, 5], counts=[30]),
        dict(size=6, counts=GOOD),
        dict(),
        None,
        NESTED,
    ],
)
def test_wrong_run_lengths_do_not_reach_pycocotools(mask):
    with pytest.raises(ResultsError, match=r'a\.pkl.*masks'):
        check_entries([entry(pred_instances=instances(masks=[mask]))], Path('a.pkl'))


@pytest.mark.parametrize(
    'field, value',
    [
        ('bboxes', torch.tensor([[0.0, 0.0, 3.0, float('nan')]])),
        ('bboxes', torch.tensor([[0.0, 0.0, 3.0, 1e30]])),
        ('bboxes', torch.zeros(2, 4)),
        ('bboxes', NESTED),
        ('labels', torch.tensor([-1])),
        ('labels', torch.tensor([0.5])),
        ('labels', torch.tensor(0)),
        ('scores', torch.tensor([0.5, 0.5])),
        ('scores', NESTED),
        ('masks', []),
    ],
)
def test_wrong_instances_are_named(field, value):
    with pytest.raises(ResultsError, match=r'a\.pkl, entry 1: pred_instances'):
        check_entries([entry(), entry(pred_instances=instances(**{field: value}))], Path('a.pkl'))


@pytest.mark.parametrize(
    'name, value',
    [
        ('img_path', NESTED),
        ('img_id', NESTED),
        ('ori_shape', NESTED),
        ('ori_shape', (0, 5)),
        ('ori_shape', (5,)),
        ('pred_score', NESTED),
        ('gt_label', 'cat'),
        ('pred_instances', NESTED),
        ('gt_instances', {}),
        (5, 5),
        ('gt_sem_seg', dict(data=NESTED)),
        ('gt_sem_seg', dict(data=torch.tensor([[[-1]]]))),
    ],
)
def test_values_of_other_types_are_refused_without_being_formatted(name, value):
    if (name, value) == ('gt_instances', {}):  # an image without them
        return check_entries([entry(gt_instances={})], Path('a.pkl'))
    with pytest.raises(ResultsError, match=r'a\.pkl, entry 0'):
        check_entries(
            [entry(**{} if name == 5 else {name: value}) | ({5: 5} if name == 5 else {})],
            Path('a.pkl'),
        )


@pytest.mark.parametrize(
    'values',
    [
        torch.ones(3).to_sparse(),
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
        torch.ones(3) * 1j,
        torch.ones(3, device='meta'),
    ],
)
def test_tensors_without_plain_numbers_are_named(values):
    with pytest.raises(ResultsError, match=r'a\.pkl, entry 0: pred_score'):
        check_entries([dict(pred_score=values)], Path('a.pkl'))
    with pytest.raises(ResultsError, match=r'a\.pkl, entry 0: pred_instances\.scores'):
        check_entries([entry(pred_instances=instances(scores=values))], Path('a.pkl'))


def test_masks_are_analyzed_without_an_annotation_file():
    found = entry(
        gt_instances={name: value for name, value in instances().items() if name != 'scores'}
    )
    check_entries([found], Path('a.pkl'))  # with the bytes that pycocotools writes
    analysis = analyze_results(
        Results(Path('a.pkl'), [found], tasks()['detection'], dict(classes=['x']))
    )
    assert analysis.summary['segm_mAP'] == pytest.approx(1)


@pytest.mark.parametrize(
    'segmentation', [[[0, 0, 1e9, 0, 0, 1e9]], dict(size=[0, 0], counts=''), 'text']
)
def test_masks_of_an_annotation_file_are_checked(tmp_path, segmentation):
    file = tmp_path / 'a.json'
    file.write_text(
        json.dumps(
            dict(
                images=[dict(id=1, height=6, width=5)],
                categories=[dict(id=1, name='x')],
                annotations=[
                    dict(
                        id=1,
                        image_id=1,
                        category_id=1,
                        bbox=[0, 0, 1, 1],
                        area=1,
                        iscrowd=0,
                        segmentation=segmentation,
                    )
                ],
            )
        )
    )
    results = Results(
        tmp_path / 'a.pkl',
        [entry()],
        tasks()['detection'],
        dict(evaluator=[dict(ann_file=str(file))]),
    )
    with pytest.raises(ResultsError, match=r'a\.json.*mask'):
        analyze_results(results)


def classified(tmp_path: Path, images: list[str], number: int = 2, **origin: object) -> str:
    path = tmp_path / 'found.pkl'
    path.write_bytes(
        pickle.dumps(
            [
                dict(
                    img_path=image,
                    ori_shape=(8, 8),
                    pred_score=(torch.arange(number) == place).float(),
                    pred_label=torch.tensor([place]),
                    gt_label=torch.tensor([0]),
                )
                for place, image in enumerate(images)
            ],
            2,
        )
    )
    path.with_suffix('.json').write_text(json.dumps(origin))
    return str(path)


def test_address_in_the_results_is_not_asked(tmp_path, capsys):
    with socket.create_server(('127.0.0.1', 0)) as server:
        server.settimeout(0.2)
        place = f'127.0.0.1:{server.getsockname()[1]}/a.png'
        found = classified(
            tmp_path, [f'shard://http://{place}?offset=0&size=9#a', f'http://{place}']
        )
        assert analyze.main([found, '--out', str(tmp_path / 'out')]) == 0
        with pytest.raises(TimeoutError):
            server.accept()
    assert 'not drawn' in capsys.readouterr().out


@pytest.mark.parametrize('number', [20_000, 200_000])
def test_matrix_of_many_classes_is_not_made(tmp_path, number):
    for task in ('detection', 'segmentation'):
        results = Results(
            Path('a.pkl'),
            [
                entry(
                    gt_instances=instances(),
                    gt_sem_seg=dict(data=torch.zeros(1, 6, 5, dtype=torch.int64)),
                    pred_sem_seg=dict(data=torch.zeros(1, 6, 5, dtype=torch.int64)),
                )
            ],
            tasks()[task],
            dict(classes=list(map(str, range(number)))),
        )
        with pytest.raises(ResultsError, match=str(number)):
            analyze_results(results)
    found = classified(tmp_path, ['a.png', 'b.png'], 20_000, classes=list(map(str, range(number))))
    if number > 50_000:
        with pytest.raises(ResultsError, match=r'found\.json.*200000'):
            read_results(found)
        return
    analysis = analyze_results(read_results(found))
    assert analysis.summary['top-1 accuracy'] == 0.5
    assert 'confusion' not in analysis.figures
    assert analysis.notes
    assert [row[:3] for row in analysis.tables['confusions'].rows] == [('0', '1', 1)]


def test_long_names_and_formulas_are_drawn(tmp_path, capsys):
    found = classified(
        tmp_path, ['a.png', 'b.png'], classes=['US$ 5 or $10^\x1b[2J', 'x' * 100_000]
    )
    assert analyze.main([found, '--out', str(tmp_path / 'out')]) == 0
    printed = capsys.readouterr().out
    assert '$10^' in printed and '\x1b' not in printed and max(map(len, printed.splitlines())) < 200
    assert (tmp_path / 'out' / 'confusion.png').stat().st_size


def test_names_are_neither_formulas_nor_broken_text_in_tables(tmp_path):
    names = ["=cmd|' /C calc'!A0", 'a\ud800', '-0.5']
    found = classified(tmp_path, ['a.png', 'b.png', 'c.png'], 3, classes=names)
    assert analyze.main([found, '--out', str(tmp_path / 'out')]) == 0
    rows = read_csv(tmp_path / 'out' / 'classes.csv')
    assert {row['class'] for row in rows} == {names[0], 'a\\ud800', names[2]}
    assert f"\n'{names[0]}," in (tmp_path / 'out' / 'classes.csv').read_text()
