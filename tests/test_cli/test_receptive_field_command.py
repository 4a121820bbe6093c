"""`mmflatten receptive-field`: figures of each stage, one drawing, and words for what cannot be done."""
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from mmflatten.apis import Predictor
from mmflatten.building import build_model
from mmflatten.cli.main import main
from mmflatten.engine.setup import load_config
from mmflatten.explain.receptive_field import receptive_field

DIGITS = Path(__file__).parents[2] / 'configs' / 'digits'


@pytest.fixture(scope='module')
def model(tmp_path_factory) -> list[str]:
    """Config and checkpoint of a classifier with random weights."""
    config, file = DIGITS / 'flatten-swin-nano_digits.py', tmp_path_factory.mktemp('weights') / 'random.pth'
    torch.manual_seed(0)
    torch.save(dict(state_dict=build_model(load_config(str(config))).state_dict()), file)
    return [str(config), str(file)]


@pytest.fixture(scope='module')
def photos(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp('photos')
    for number, size in enumerate([(120, 96), (64, 80)]):
        noise = np.random.default_rng(number).integers(0, 255, (8, 10, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f'{number}.png'), cv2.resize(noise, size))
    return str(folder)


def run(*words: object) -> int:
    return main(['receptive-field', *map(str, words)])


def test_a_folder_gives_figures_of_every_stage_and_a_drawing(model, photos, tmp_path, capsys):
    assert run(*model, photos, '--out', tmp_path / 'new', '--json') == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / 'new' / 'receptive_field.json').read_text())
    assert len(printed['layers']) == 4 and printed['size'] == [64, 64]
    assert cv2.imread(str(tmp_path / 'new' / 'receptive_field.png')) is not None
    predictor = Predictor(*model)
    images = [predictor.prepare(file)['inputs'][0] for file in sorted(Path(photos).iterdir())]
    last = receptive_field(predictor.model.backbone, images)
    assert {name: printed['layers'][-1][name] for name in last.figures()} == pytest.approx(last.figures())


def test_noise_of_any_size_and_chosen_layers(model, tmp_path, capsys):
    last = 'backbone.stages.2.blocks.0'
    assert run(*model, '--noise', 2, '--size', 64, 96, '--layer', '1', last, '--out', tmp_path) == 0
    shown = capsys.readouterr().out
    content = json.loads((tmp_path / 'receptive_field.json').read_text())
    assert content['size'] == [64, 96] and content['noise'] == 2
    assert [entry['layer'] for entry in content['layers']] == ['backbone.stages.1.blocks.0', last]
    assert all(entry['layer'] in shown for entry in content['layers'])


def test_images_of_several_sizes_are_refused_with_the_option_that_helps(tmp_path, capsys):
    config = DIGITS / 'semantic-fpn_flatten-swin-nano_digits.py'
    torch.save(dict(state_dict=build_model(load_config(str(config))).state_dict()), tmp_path / 'random.pth')
    files = [tmp_path / f'{number}.png' for number in range(2)]
    for file, size in zip(files, [(160, 64), (64, 160)]):
        cv2.imwrite(str(file), np.zeros((*size, 3), np.uint8))
    assert run(config, tmp_path / 'random.pth', *files, '--out', tmp_path / 'out') == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert all(word in line for word in ('160 x 64', '64 x 160', '--size'))


@pytest.mark.parametrize(('words', 'said'), [
    ([], ('IMAGE', '--noise')), (['--noise', '3'], ('--noise (3)', '--size')), (['gone.png'], ('gone.png',)),
    (['--noise', '1', '--size', '32', '32', '--layer', '9'], ('layer (9)', '3'))])
def test_what_cannot_be_done_is_said(model, tmp_path, capsys, words, said):
    assert run(*model, *words, '--out', tmp_path / 'out') == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert all(word in line for word in said) and not (tmp_path / 'out').exists()
