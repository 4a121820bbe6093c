"""`mmflatten attention` in every task: table, drawings and errors."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.apis import Predictor
from mmflatten.cli.attention import main as attention
from mmflatten.explain.attention import AttentionProbe

DIGITS = Path(__file__).parents[2] / 'configs' / 'digits'
# Config, number of images, layers, and size of the network input for an image of 96 x 120. The
# first layers of dense tasks have 1,280 tokens, whose ranks take seconds.
CASES = {
    'classification': ('flatten-swin-nano-mixed_digits', 1, [0, 1, 2, 3, 4], (64, 64)),
    'detection': ('mask-rcnn_flatten-swin-nano_fpn_digits', 1, [3, 4], (128, 160)),
    'segmentation': ('semantic-fpn_flatten-swin-nano-mixed_digits', 1, [3, 4], (128, 160)),
    'stereo': ('psmnet-tiny-fa_digits-stereo', 2, [0], (96, 128)),
}
CLASS_TOKEN = """
_base_ = ['{base}']
model = dict(
    backbone=dict(_delete_=True, type='mmflatten.FLattenDeiT', img_size=64, patch_size=16,
                  attn_types='LS', arch=dict(embed_dims=16, depth=2, num_heads=2)),
    neck=None,
    head=dict(in_channels=16))
"""


@pytest.fixture(scope='module')
def photo(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp('photo') / 'photo.png'
    noise = np.random.default_rng(0).integers(0, 255, (8, 10, 3), dtype=np.uint8)
    cv2.imwrite(str(path), cv2.resize(noise, (120, 96)))
    return str(path)


@pytest.fixture(scope='module')
def classifier(model_of):
    return model_of(CASES['classification'][0])


def last_line(capsys) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize('task', CASES)
def test_attention_of_every_task_writes_table_and_drawings(model_of, photo, tmp_path, capsys, task):
    name, images, layers, size = CASES[task]
    config, checkpoint = model_of(name)
    out = tmp_path / 'new' / 'out'
    options = ['--queries', '8', '--out', str(out), '--layer', *map(str, layers)]
    assert attention([config, checkpoint, *[photo] * images, *options]) == 0
    shown = capsys.readouterr().out
    content = json.loads((out / 'attention.json').read_text())
    assert [layer['number'] for layer in content['layers']] == layers
    assert content['picture'] == list(size)
    assert content['query'] == [size[1] // 2, size[0] // 2]
    for layer in content['layers']:
        assert layer['layer'] in shown and layer['attention'] in shown
        assert len(layer['heads']) == layer['num_heads']
        assert cv2.imread(str(out / layer['file'])) is not None
    if task == 'classification':  # its windows have no padding, so softmax rows sum to 1
        softmax = []
        for layer in content['layers']:
            if layer['attention'].startswith('Softmax'):
                softmax += layer['heads']
        assert softmax
        for head in softmax:
            assert head['row_sum_min'] == pytest.approx(1, abs=1e-5)


def test_statistics_equal_those_of_the_probe(classifier, photo, tmp_path, capsys):
    assert attention([*classifier, photo, '--out', str(tmp_path), '--layer', '1']) == 0
    printed = json.loads((tmp_path / 'attention.json').read_text())
    assert capsys.readouterr().out.startswith('no.')  # and nothing else is printed there
    predictor = Predictor(*classifier)
    with AttentionProbe(predictor.model) as probe:
        predictor(photo)
    (layer,) = printed['layers']
    found = probe.layer(layer['layer'])
    assert layer['map'] == list(found.hw) and layer['number'] == 1
    means = found.matrix().sum(-1).mean(-1)
    assert [head['row_sum'] for head in layer['heads']] == pytest.approx(means.tolist(), abs=1e-5)


def test_query_head_and_part_change_the_drawing(classifier, photo, tmp_path):
    drawings = {}
    for number, options in enumerate(
        ([], ['--query', '3,60'], ['--head', '1'], ['--part', 'local'])
    ):
        out = tmp_path / str(number)
        assert (
            attention(
                [
                    *classifier,
                    photo,
                    '--out',
                    str(out),
                    '--layer',
                    'stages.1.blocks.0.attn.fn',
                    *options,
                ]
            )
            == 0
        )
        (file,) = out.glob('*.png')
        assert file.name == '01_backbone.stages.1.blocks.0.attn.fn.png'
        drawings[tuple(options)] = file.read_bytes()
    assert len(set(drawings.values())) == 4


def test_query_of_the_class_token(model_of, photo, tmp_path, capsys):
    config = tmp_path / 'deit.py'
    config.write_text(CLASS_TOKEN.format(base=DIGITS / f'{CASES["classification"][0]}.py'))
    words = [*model_of(config), photo, '--out', str(tmp_path / 'out')]
    assert attention([*words, '--query', 'class']) == 0
    content = json.loads((tmp_path / 'out' / 'attention.json').read_text())
    assert [layer['prefix'] for layer in content['layers']] == [1, 1]
    assert content['query'] == 'class'
    for layer in content['layers']:
        assert all(head['prefix'] > 0 for head in layer['heads'])


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (['--query', '64,3'], ('64,3', '63')),
        (['--query', 'class'], ('class', 'stages.0')),
        (['--layer', '1', '--head', '4'], ('head', '4', '3')),
    ],
)
def test_errors_name_value_and_range(classifier, photo, tmp_path, capsys, options, words):
    assert attention([*classifier, photo, '--out', str(tmp_path / 'out'), *options]) == 1
    line = last_line(capsys)
    assert all(word in line for word in words) and not (tmp_path / 'out').exists()


def test_image_errors_name_the_file(classifier, photo, tmp_path, capsys):
    assert attention([*classifier, 'missing.png', '--out', str(tmp_path)]) == 1
    assert 'missing.png' in last_line(capsys)
    assert attention([*classifier, photo, photo, '--out', str(tmp_path)]) == 1
    assert photo in last_line(capsys)


@pytest.mark.parametrize(
    'words', [['--query', 'middle'], ['--query', '3'], ['--query', '3,x'], ['--head', 'all']]
)
def test_invalid_options_exit_with_usage(words, capsys):
    with pytest.raises(SystemExit):
        attention(['config.py', 'weights.pth', 'photo.png', *words])
    assert words[1] in capsys.readouterr().err


def test_attention_rejects_models_without_attention(model_of, photo, tmp_path, capsys):
    words = [*model_of('psmnet-tiny_digits-stereo'), photo, photo, '--out', str(tmp_path)]
    assert attention(words) == 1
    assert 'PSMNet' in last_line(capsys)
