"""`mmflatten cam`: drawings, cam.json and errors."""
import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.apis import Predictor
from mmflatten.cli.main import main
from mmflatten.explain.cam import cam

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope='module')
def classifier(model_of):
    return model_of('flatten-swin-nano_digits')


@pytest.fixture(scope='module')
def photos(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp('photos')
    files = [str(folder / name) for name in ('first.png', 'second.png')]
    for number, file in enumerate(files):
        noise = np.random.default_rng(number).integers(0, 255, (8, 12, 3), dtype=np.uint8)
        cv2.imwrite(file, cv2.resize(noise, (96, 64)))
    return files


def run(*words: object) -> int:
    return main(['cam', *map(str, words)])


def last_line(capsys) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_cam_of_regions_writes_drawings_and_entries(model_of, photos, tmp_path, capsys):
    model = model_of('semantic-fpn_flatten-swin-nano_digits')
    words = [*model, Path(photos[0]).parent, '--method', 'hirescam', '--layer', 1]
    assert run(*words, '--out', tmp_path / 'new' / 'out') == 0
    entries = json.loads((tmp_path / 'new' / 'out' / 'cam.json').read_text())
    assert all(entry['file'] in capsys.readouterr().out for entry in entries[:1])
    assert {entry['image'] for entry in entries} == set(photos)
    assert all((tmp_path / 'new' / 'out' / entry['file']).stat().st_size for entry in entries)
    activations = cam(Predictor(*model), photos[0], layer=1, method='hirescam')[1]
    for entry, activation in zip(entries, activations):
        assert (entry['label'], entry['class'], entry['score']) == (activation.label, activation.name, activation.score)
        assert (entry['layer'], entry['method']) == ('backbone.stages.1.blocks.0', 'hirescam')


def test_cam_of_a_class_by_name(model_of, photos, tmp_path, capsys):
    assert run(*model_of('flatten-swin-nano_digits'), photos[0], '--target', '4', '--out', tmp_path) == 0
    shown = capsys.readouterr().out
    entry, = json.loads((tmp_path / 'cam.json').read_text())
    assert entry['class'] == '4' and entry['file'] in shown and 'gradcam' in shown
    assert cv2.imread(str(tmp_path / entry['file'])) is not None


def test_cam_reports_unreadable_images_and_draws_the_others(model_of, photos, tmp_path, capsys):
    (tmp_path / 'broken.png').write_text('no picture')
    words = model_of('flatten-swin-nano_digits')
    assert run(*words, tmp_path / 'broken.png', photos[0], '--target', '4', '--out', tmp_path / 'out') == 1
    assert str(tmp_path / 'broken.png') in last_line(capsys)
    assert [entry['image'] for entry in json.loads((tmp_path / 'out' / 'cam.json').read_text())] == [photos[0]]
    assert run(*words, tmp_path / 'broken.png', '--out', tmp_path / 'none') == 1
    assert str(tmp_path / 'broken.png') in last_line(capsys) and not (tmp_path / 'none').exists()


def test_unknown_class_is_named(classifier, photos, tmp_path, capsys):
    assert run(*classifier, photos[0], '--target', 'dog', '--out', tmp_path / 'out') == 1
    line = last_line(capsys)
    assert all(word in line for word in ('class', 'dog', '0')) and not (tmp_path / 'out').exists()


def test_missing_package_error_has_its_pip_line(classifier, photos, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pytorch_grad_cam', None)
    assert run(*classifier, photos[0], '--out', tmp_path) == 1
    line = last_line(capsys)
    required = (ROOT / 'requirements' / 'report.txt').read_text()
    assert 'pip install' in line and line.split("'")[-2] in required.splitlines()


def test_cam_rejects_stereo(model_of, photos, tmp_path, capsys):
    assert run(*model_of('psmnet-tiny_digits-stereo'), *photos, '--out', tmp_path) == 1
    assert 'PSMNet' in last_line(capsys)


def test_unknown_method_exits_with_usage(capsys):
    with pytest.raises(SystemExit):
        run('config.py', 'weights.pth', 'photo.png', '--method', 'scorecam')
    assert 'scorecam' in capsys.readouterr().err
