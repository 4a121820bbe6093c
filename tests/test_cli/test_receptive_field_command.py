"""`mmflatten receptive-field`: numbers of each stage, drawing and errors."""
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.apis import Predictor
from mmflatten.cli.main import main
from mmflatten.explain.receptive_field import receptive_field


@pytest.fixture(scope='module')
def model(model_of) -> list[str]:
    return model_of('flatten-swin-nano_digits')


@pytest.fixture(scope='module')
def photos(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp('photos')
    for number, size in enumerate([(120, 96), (64, 80)]):
        noise = np.random.default_rng(number).integers(0, 255, (8, 10, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f'{number}.png'), cv2.resize(noise, size))
    return str(folder)


def run(*words: object) -> int:
    return main(['receptive-field', *map(str, words)])


def test_folder_of_images_gives_all_stages_and_a_drawing(model, photos, tmp_path, capsys):
    assert run(*model, photos, '--out', tmp_path / 'new') == 0
    printed = json.loads((tmp_path / 'new' / 'receptive_field.json').read_text())
    assert printed['layers'][-1]['layer'] in capsys.readouterr().out
    assert len(printed['layers']) == 4 and printed['size'] == [64, 64]
    assert cv2.imread(str(tmp_path / 'new' / 'receptive_field.png')) is not None
    predictor = Predictor(*model)
    images = [predictor.prepare(file)['inputs'][0] for file in sorted(Path(photos).iterdir())]
    last = receptive_field(predictor.model.backbone, images)
    assert {name: printed['layers'][-1][name] for name in last.figures()} == pytest.approx(last.figures())


def test_size_and_chosen_layers(model, photos, tmp_path, capsys):
    last = 'backbone.stages.2.blocks.0'
    assert run(*model, photos, '--size', 64, 96, '--layer', '1', last, '--out', tmp_path) == 0
    shown = capsys.readouterr().out
    content = json.loads((tmp_path / 'receptive_field.json').read_text())
    assert content['size'] == [64, 96]
    assert [entry['layer'] for entry in content['layers']] == ['backbone.stages.1.blocks.0', last]
    assert all(entry['layer'] in shown for entry in content['layers'])


def test_images_of_several_sizes_require_size(model_of, tmp_path, capsys):
    model = model_of('semantic-fpn_flatten-swin-nano_digits')
    files = [tmp_path / f'{number}.png' for number in range(2)]
    for file, size in zip(files, [(160, 64), (64, 160)]):
        cv2.imwrite(str(file), np.zeros((*size, 3), np.uint8))
    assert run(*model, *files, '--out', tmp_path / 'out') == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert all(word in line for word in ('160 x 64', '64 x 160', '--size'))


@pytest.mark.parametrize(('options', 'words'), [
    (['gone.png'], ('gone.png',))])
def test_errors_name_the_option(model, tmp_path, capsys, options, words):
    assert run(*model, *options, '--out', tmp_path / 'out') == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert all(word in line for word in words) and not (tmp_path / 'out').exists()
