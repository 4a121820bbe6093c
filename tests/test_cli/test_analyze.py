"""`mmflatten analyze` on results of `mmflatten test`: metrics, files and errors."""

import json
import os
import pickle
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from mmflatten.cli import analyze
from mmflatten.cli.main import main

METRICS = dict(  # metric of the test, metric of the analysis, ratio of their units
    classification=('accuracy/top1', 'top-1 accuracy', 100),
    segmentation=('mIoU', 'mIoU', 100),
    detection=('coco/bbox_mAP', 'bbox_mAP', 1),
)
CONFIGS = dict(
    classification='flatten-swin-nano_digits',
    segmentation='semantic-fpn_flatten-swin-nano_digits',
    detection='mask-rcnn_flatten-swin-nano_fpn_digits',
)


@pytest.mark.parametrize('task', CONFIGS)
def test_analysis_agrees_with_the_test_and_draws_the_worst(train_on, tmp_path, capsys, task):
    run = train_on(CONFIGS[task])
    out = tmp_path / 'out'
    assert analyze.main([run.results, '--out', str(out), '--worst', '3']) == 0
    tested, analyzed, ratio = METRICS[task]
    measured = json.loads(Path(run.results).with_suffix('.json').read_text())
    content = json.loads((out / 'analysis.json').read_text())
    assert content['summary'][analyzed] == pytest.approx(
        measured['metrics'][tested] / ratio, abs=6e-4
    )
    assert content['task'] == task and content['source']['config'] == run.config
    assert f'{content["images"]} images' in capsys.readouterr().out
    files = [
        *(table['file'] for table in content['tables'].values()),
        *content['figures'].values(),
        *(item['file'] for item in content['worst']),
    ]
    assert files and all((out / file).stat().st_size for file in files)
    assert 0 < len(content['worst']) <= 3 and Path(content['worst'][0]['image']).is_file()
    values = [item['value'] for item in content['worst']]
    assert values == sorted(values, reverse=task != 'segmentation')


def test_config_that_the_results_name_is_never_executed(train_on, tmp_path):
    run, ran = train_on(CONFIGS['classification']), tmp_path / 'ran'
    (tmp_path / 'evil.py').write_text(f"open({str(ran)!r}, 'w')\n")
    results = Path(shutil.copy(run.results, tmp_path / 'results.pkl'))
    origin = json.loads(Path(run.results).with_suffix('.json').read_text())
    results.with_suffix('.json').write_text(
        json.dumps({**origin, 'config': str(tmp_path / 'evil.py')})
    )
    assert analyze.main([str(results), '--out', str(tmp_path / 'out')]) == 0 and not ran.exists()


@pytest.fixture
def disparities(tmp_path) -> Path:
    """Predictions of two pairs, one wrong by 6 px."""
    cv2.imwrite(str(tmp_path / 'left.png'), np.full((20, 30, 3), 90, np.uint8))
    true = dict(data=torch.full((1, 20, 30), 8.0), valid=torch.ones(1, 20, 30, dtype=torch.bool))
    entries = [
        dict(
            img_path=str(tmp_path / 'left.png'),
            ori_shape=(20, 30),
            gt_disparity=true,
            pred_disparity=dict(data=true['data'] + error),
        )
        for error in (0.0, 6.0)
    ]
    (tmp_path / 'pairs.pkl').write_bytes(pickle.dumps(entries, 2))
    return tmp_path


def test_stereo_results_are_analyzed_without_a_config(disparities):
    assert analyze.main([str(disparities / 'pairs.pkl'), '--out', str(disparities / 'out')]) == 0
    content = json.loads((disparities / 'out' / 'analysis.json').read_text())
    assert content['summary']['epe'] == 3 and content['summary']['d1'] == 50
    assert [item['value'] for item in content['worst']] == [6, 0]
    assert (
        cv2.imread(str(disparities / 'out' / content['worst'][0]['file'])).shape[0] == 20 * 10 + 20
    )


def test_missing_images_are_noted(disparities, capsys):
    (disparities / 'left.png').unlink()
    assert analyze.main([str(disparities / 'pairs.pkl'), '--out', str(disparities / 'out')]) == 0
    content = json.loads((disparities / 'out' / 'analysis.json').read_text())
    assert content['worst'][0]['file'] is None and 'left.png' in content['notes'][0]
    assert 'left.png' in capsys.readouterr().out


def test_unreadable_image_is_named_and_the_others_are_drawn(disparities, capsys):
    entries = pickle.loads((disparities / 'pairs.pkl').read_bytes())
    (disparities / 'broken.png').write_text('no picture')
    entries[1]['img_path'] = str(disparities / 'broken.png')
    (disparities / 'pairs.pkl').write_bytes(pickle.dumps(entries, 2))
    assert analyze.main([str(disparities / 'pairs.pkl'), '--out', str(disparities / 'out')]) == 1
    assert 'broken.png' in capsys.readouterr().err.splitlines()[-1]
    content = json.loads((disparities / 'out' / 'analysis.json').read_text())
    assert [item['file'] for item in content['worst']] == [None, 'worst/001_left.png']
    assert 'broken.png cannot be decoded' in content['notes'][0]


def test_image_with_a_name_outside_utf_8_is_drawn(disparities):
    name = os.fsdecode(b'left\xff.png')
    (disparities / 'left.png').rename(disparities / name)
    entries = pickle.loads((disparities / 'pairs.pkl').read_bytes())
    (disparities / 'pairs.pkl').write_bytes(
        pickle.dumps([{**item, 'img_path': str(disparities / name)} for item in entries], 2)
    )
    assert analyze.main([str(disparities / 'pairs.pkl'), '--out', str(disparities / 'out')]) == 0
    content = json.loads((disparities / 'out' / 'analysis.json').read_text())
    assert content['worst'][0]['file'] == f'worst/000_{name}'
    assert cv2.imread(os.fsencode(disparities / 'out' / 'worst' / f'000_{name}')) is not None


@pytest.mark.parametrize('command', ['analyze', 'attention'])
def test_output_folder_that_is_a_file_is_an_error(tmp_path, capsys, command):
    (tmp_path / 'ok.json').write_text('{}')
    with pytest.raises(SystemExit):
        main([command, 'one', 'two', 'three', '--out', str(tmp_path / 'ok.json' / 'deeper')])
    error = capsys.readouterr().err.splitlines()[-1]
    assert '--out' in error and str(tmp_path / 'ok.json') in error


def test_config_option_replaces_the_recorded_config(disparities, capsys):
    config = disparities / 'stereo.py'
    name = Path(__file__).parents[2] / 'configs' / 'digits' / 'psmnet-tiny_digits-stereo.py'
    config.write_text(f"_base_ = ['{name}']\ntest_evaluator = dict(max_disp=4)\n")
    assert (
        analyze.main(
            [
                str(disparities / 'pairs.pkl'),
                '--out',
                str(disparities / 'out'),
                '--config',
                str(config),
            ]
        )
        == 1
    )
    error = capsys.readouterr().err
    assert 'max_disp' in error and ' 4' in error  # all true disparities are 8 px


def test_config_of_another_task_is_an_error(disparities, capsys):
    name = 'retinanet_flatten-swin-nano_fpn_digits'
    assert (
        analyze.main(
            [str(disparities / 'pairs.pkl'), '--out', str(disparities / 'out'), '--config', name]
        )
        == 1
    )
    error = capsys.readouterr().err.splitlines()[-1]
    assert name in error and 'detection' in error and 'stereo' in error


@pytest.mark.parametrize(
    'content, word',
    [
        (b'', 'made.pkl'),
        (pickle.dumps([], 2), 'empty'),
        (pickle.dumps([dict(img_path='a')], 2), 'img_path'),
    ],
)
def test_invalid_results_are_an_error(tmp_path, capsys, content, word):
    (tmp_path / 'made.pkl').write_bytes(content)
    assert analyze.main([str(tmp_path / 'made.pkl'), '--out', str(tmp_path / 'out')]) == 1
    assert word in capsys.readouterr().err and not (tmp_path / 'out').exists()


def test_label_maps_without_colours_are_analyzed_but_not_drawn(tmp_path):
    maps = dict(data=torch.zeros(1, 4, 4, dtype=torch.uint8))
    (tmp_path / 'maps.pkl').write_bytes(
        pickle.dumps([dict(img_path='a.png', gt_sem_seg=maps, pred_sem_seg=maps)], 2)
    )
    assert analyze.main([str(tmp_path / 'maps.pkl'), '--out', str(tmp_path / 'out')]) == 0
    content = json.loads((tmp_path / 'out' / 'analysis.json').read_text())
    assert content['summary']['mIoU'] == 1 and '--config' in content['notes'][0]


def test_analysis_in_another_folder_finds_relative_paths(disparities, monkeypatch):
    entries = pickle.loads((disparities / 'pairs.pkl').read_bytes())
    results = [{**entry, 'img_path': 'left.png'} for entry in entries]
    (disparities / 'pairs.pkl').write_bytes(pickle.dumps(results, 2))
    (disparities / 'pairs.json').write_text(json.dumps(dict(folder=str(disparities))))
    elsewhere = disparities / 'elsewhere'
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert analyze.main(['../pairs.pkl', '--out', 'out']) == 0
    assert any((elsewhere / 'out' / 'worst').iterdir())
