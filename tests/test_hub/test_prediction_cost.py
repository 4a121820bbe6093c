"""Memory of a prediction is estimated from shapes, and what would take too much is refused before
it is made.
"""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.apis import from_pretrained
from mmflatten.cli.predict import main as predict
from mmflatten.hub.cost import LIMIT_VARIABLE, CostCheck
from mmflatten.hub.folder import facts_of, read_published
from mmflatten.measure.speed.memory import peak_memory
from mmflatten.predict.predictor import PredictionError
from mmflatten.untrusted.published import CONFIG, FACTS, HubError

CLASSIFIER, DETECTOR = 'flatten-swin-nano_digits', 'retinanet_flatten-swin-nano_fpn_digits'
QUERIES = (
    'dino-4scale_flatten-swin-nano_digits',
    'mask2former_flatten-swin-nano_digits',
    'mask2former_flatten-swin-nano_digits-semantic',
    'encoder-mask_flatten-swin-nano_digits',
    'encoder-mask_vit-nano_digits-semantic',
)
SEGMENTOR, STEREO = 'semantic-fpn_flatten-swin-nano_digits', 'psmnet-tiny_digits-stereo'


def edge(scale: int, which: str) -> dict:
    return dict(resize=None, resize_edge=dict(scale=scale, edge=which))


@pytest.fixture
def folder(published, tmp_path):
    """`folder(name, part=..., **values)`: a published model of which a part of the config has other
    values.
    """

    def make(name: str, part: str = 'model', **values: object) -> Path:
        copy = tmp_path / 'model'
        copy.mkdir()
        for file in published(name).folder.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        config, facts = (json.loads((copy / file).read_text()) for file in (CONFIG, FACTS))
        config[part].update(values)
        (copy / CONFIG).write_text(json.dumps(config))
        facts['files'][CONFIG] = facts_of(copy / CONFIG).model_dump()
        (copy / FACTS).write_text(json.dumps(facts))
        return copy

    return make


def picture(path: Path, height: int, width: int) -> str:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    assert cv2.imwrite(str(path), pixels)
    return str(path)


@pytest.mark.parametrize(
    'name, part, values, size, field',
    [
        (STEREO, 'model', dict(max_disp=512), (480, 640), 'model.max_disp'),
        (CLASSIFIER, 'input', edge(4096, 'short'), (4, 4000), 'input.resize_edge'),
        (CLASSIFIER, 'input', edge(4096, 'long'), (480, 640), 'model'),
    ],
)
def test_what_takes_too_much_is_refused(
    name, part, values, size, field, folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv(LIMIT_VARIABLE, '.5')
    images = [picture(tmp_path / f'{side}.png', *size) for side in ('left', 'right')]
    if name != STEREO:
        images.pop()
    assert (
        predict([str(folder(name, part, **values)), *images, '--out', str(tmp_path / 'out')]) == 1
    )
    line = capsys.readouterr().err.splitlines()[-1]
    assert 'left.png' in line and f'{CONFIG}: {field}:' in line, line
    assert not list((tmp_path / 'out').rglob('*.*'))


@pytest.mark.parametrize('stride', [[1, 1], [64, 1], [8, 0], [8], [8.0, 8.0], None])
def test_windows_that_overlap_much_are_refused(stride, folder):
    test = dict(mode='slide', crop_size=[64, 64], stride=stride)
    with pytest.raises(HubError, match=f'{CONFIG}.*stride'):
        read_published(folder(SEGMENTOR, test_cfg=test))


def test_windows_are_counted_for_each_image(folder, tmp_path):
    test = dict(mode='slide', crop_size=[2, 2], stride=[1, 1])
    predictor = from_pretrained(folder(SEGMENTOR, test_cfg=test), 'cpu')
    with pytest.raises(PredictionError, match=r'model\.test_cfg\.stride.*4096'):
        predictor(picture(tmp_path / 'a.png', 160, 160))


@pytest.mark.parametrize('name', [CLASSIFIER, DETECTOR, SEGMENTOR, STEREO, *QUERIES])
def test_estimate_is_near_the_measured_peak(name, published, tmp_path):
    predictor = from_pretrained(published(name).folder, 'cpu')
    _, step, *_ = predictor.cfg.test_dataloader.dataset.pipeline
    check = CostCheck(**{key: value for key, value in step.items() if key != 'type'})
    image = picture(tmp_path / 'a.png', 192, 256)
    measured = peak_memory(lambda: predictor((image, image) if name == STEREO else image))
    assert 0.5 < check.estimate(192, 256) / measured < 2
