"""`lab/scripts/attention_figures.py` on small models with random weights: pictures, numbers and
errors.
"""

import importlib.util
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from mmflatten.apis import Predictor
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.explain.attention import effective_rank, singular_values
from mmflatten.explain.maps import probe_image

ROOT = Path(__file__).parents[3]
TOOL = ROOT / 'lab' / 'scripts' / 'attention_figures.py'
CONFIG = """
_base_ = ['{base}']
model = dict(backbone=dict({backbone}, out_indices=(1,)), head=dict(in_channels=16))
test_dataloader = dict(dataset=dict(pipeline=[
    dict(type='LoadImageFromFile'), dict(type='Resize', scale=(32, 32)), dict(type='PackInputs')]))
"""
ARCH = 'arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 2)), img_size=32'
BACKBONES = {
    'swin': f"type='mmflatten.FLattenSwin', {ARCH}, attn_types='LS', softmax_window=4",
    'focal': (
        f"type='mmflatten.FocalTransformer', {ARCH}, window_size=4, focal_windows=(3, 3),"
        ' expand_size=1'
    ),
    'fa': (
        "type='mmflatten.AttentionResNet', depth=18, base_channels=8, stem_channels=8,"
        " norm_eval=False, attention_after=(1, 2), attention=dict(type='FactorizedAttention',"
        ' basis_channels=4)'
    ),
}
ALL = [
    'distribution',
    'focusing',
    'matrices',
    'rank',
    'maps',
    'concentration',
    'receptive-field',
    'levels',
    'biases',
    'basis',
]


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """Arguments MODEL by label, and two images."""
    folder, models = tmp_path_factory.mktemp('models'), {}
    for label, backbone in BACKBONES.items():
        path = folder / f'{label}.py'
        path.write_text(
            CONFIG.format(
                base=ROOT / 'configs/_base_/recipes/classifier_digits.py', backbone=backbone
            )
        )
        torch.manual_seed(0)
        torch.save(
            dict(state_dict=build_model(load_config(str(path))).state_dict()),
            folder / f'{label}.pth',
        )
        models[label] = f'{label}={path},{folder / label}.pth'
    noise = np.random.default_rng(0).integers(0, 255, (2, 8, 10, 3), dtype=np.uint8)
    images = [str(folder / f'{number}.png') for number in range(2)]
    for image, pixels in zip(images, noise):
        cv2.imwrite(image, cv2.resize(pixels, (50, 40)))
    return models, images


@pytest.fixture(scope='module')
def figures():
    spec = importlib.util.spec_from_file_location('figures_tool', TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.fixture(scope='module')
def drawn(figures, files, tmp_path_factory):
    """Every figure of three models and two images."""
    models, images = files
    out = tmp_path_factory.mktemp('figures')
    assert figures([*models.values(), '--images', *images, '--out', str(out)]) == 0
    return out, json.loads((out / 'figures.json').read_text())


def test_figures_draw_every_picture(drawn):
    out, _ = drawn
    pictures = {path.stem: cv2.imread(str(path)) for path in out.glob('*.png')}
    assert set(pictures) == {*ALL} - {'maps', 'biases', 'basis'} | {
        'maps_0',
        'maps_1',
        'biases_focal',
        'basis_fa',
    }
    for name, picture in pictures.items():
        assert picture.shape[0] > 150 and picture.shape[1] > 250 and picture.std() > 10, name


def test_figures_write_the_numbers_of_the_layers(drawn, files):
    _, numbers = drawn
    models, images = files
    assert numbers['figures']['basis']['fa']['module'] == 'backbone.layer1.attention'
    assert set(numbers) == {'models', 'images', 'figures'} and list(numbers['figures']) == ALL
    assert numbers['images'] == images and list(numbers['models']) == list(models)
    config, checkpoint = models['swin'].removeprefix('swin=').split(',')
    assert numbers['models']['swin'] == [config, checkpoint]
    ranks = numbers['figures']['rank']['models']['swin']
    assert [record['layer'] for record in ranks] == [
        f'backbone.stages.{i}.blocks.0.attn.fn' for i in (0, 1)
    ]
    predictor = Predictor(config, checkpoint)
    expected = [
        effective_rank(singular_values(probe_image(predictor, image)[0].layers[0], 'both'))
        .mean()
        .item()
        for image in images
    ]
    assert ranks[0]['both']['effective_rank'] == pytest.approx(np.mean(expected), rel=1e-3)
    assert 'both' not in ranks[1] and numbers['figures']['rank']['share'] == 0.01
    assert numbers['figures']['distribution']['models']['focal'][0]['held'][-1] == pytest.approx(1)
    for record in numbers['figures']['levels']['focal']:
        assert sum(record['shares'].values()) == pytest.approx(1, abs=1e-5)
    assert list(numbers['figures']['focusing']) == ['swin'] and list(
        numbers['figures']['basis']
    ) == ['fa']
    assert {
        label: len(fields) for label, fields in numbers['figures']['receptive-field'].items()
    } == dict(swin=2, focal=2, fa=4)
    assert np.shape(numbers['figures']['biases']['focal']['layer 0, level 1, head 0']) == (3, 3)
    assert len(numbers['figures']['basis']['fa']['masks']) == 4


def test_one_figure_of_one_layer_and_query(figures, files, tmp_path, capsys):
    models, images = files
    assert (
        figures(
            [
                models['swin'],
                '--images',
                images[0],
                '--figure',
                'maps',
                '--layer',
                '1',
                '--query',
                '3,28',
                '--out',
                str(tmp_path / 'new'),
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.splitlines() == [f'maps: {tmp_path / "new"}']
    assert sorted(path.name for path in (tmp_path / 'new').iterdir()) == [
        'figures.json',
        'maps_0.png',
    ]
    found = json.loads((tmp_path / 'new' / 'figures.json').read_text())['figures']
    assert found['maps']['maps_0']['query'] == [3, 28] and found['maps']['maps_0']['layer'] == 1
    assert list(found['maps']['maps_0']['largest']) == ['swin']


@pytest.mark.parametrize(
    'figure, needs', [('levels', 'FocalAttention'), ('basis', 'FactorizedAttention')]
)
def test_figure_without_a_suitable_model_is_rejected(
    figures, files, tmp_path, capsys, figure, needs
):
    models, images = files
    arguments = ['--images', images[0], '--figure', figure, '--out', str(tmp_path)]
    assert figures([models['swin'], *arguments]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert figure in error and needs in error and 'swin' in error


def test_invalid_arguments_are_rejected(figures, files, tmp_path, capsys):
    models, images = files
    rest = ['--images', images[0], '--out', str(tmp_path)]

    def error(*arguments: str) -> str:
        assert figures(arguments) == 1
        return capsys.readouterr().err.splitlines()[-1]

    config = models['swin'].removeprefix('swin=').split(',')[0]
    assert str(tmp_path / 'none.pth') in error(f'swin={config},{tmp_path / "none.pth"}', *rest)
    assert 'swin, swin' in error(models['swin'], models['swin'], *rest)
    assert 'got 7' in error(models['swin'], '--layer', '7', '--figure', 'maps', *rest)
    assert '[4]' in error(models['fa'], '--masks', '4', '--figure', 'basis', *rest)
    assert '900,3' in error(models['swin'], '--query', '900,3', '--figure', 'maps', *rest)
    assert 'none.png' in error(
        models['swin'], '--images', str(tmp_path / 'none.png'), '--out', str(tmp_path)
    )
    for arguments, word in (
        ([models['swin'], '--figure', 'ranks'], 'ranks'),
        (['swin=only.py'], 'swin=only.py'),
        ([models['swin'], '--query', '3'], '3'),
        ([models['swin'], '--layer', '-1'], '-1'),
    ):
        with pytest.raises(SystemExit):
            figures([*arguments, *rest])
        assert word in capsys.readouterr().err


def test_figure_of_basis_draws_the_selected_module_and_masks(figures, files, tmp_path):
    models, images = files
    assert (
        figures(
            [
                models['fa'],
                '--images',
                images[0],
                '--figure',
                'basis',
                '--module',
                'backbone.layer2.attention',
                '--masks',
                '3',
                '1',
                '--out',
                str(tmp_path / 'basis'),
            ]
        )
        == 0
    )
    basis = json.loads((tmp_path / 'basis' / 'figures.json').read_text())['figures']['basis']['fa']
    assert (basis['module'], basis['masks']) == ('backbone.layer2.attention', [3, 1])


def test_matrices_behind_local_concentration_are_drawn(figures, files, tmp_path, monkeypatch):
    """A column of the matrix is a map that the module turns into gelu(x), if its kernels only keep
    the centre.
    """
    folder, (_, images) = tmp_path / 'model', files
    folder.mkdir()
    backbone = (
        f"type='mmflatten.L2ViT', {ARCH}, block_order=('W', 'L'), window_size=4, lcm_kernel=3"
    )
    config, checkpoint = folder / 'l2vit.py', folder / 'l2vit.pth'
    config.write_text(
        CONFIG.format(base=ROOT / 'configs/_base_/recipes/classifier_digits.py', backbone=backbone)
    )
    model = build_model(load_config(str(config)))
    lcm = model.backbone.stages[1].blocks[0].lcm.fn
    for conv in (lcm.conv1, lcm.conv2):
        torch.nn.init.dirac_(conv.weight, groups=conv.groups)
        torch.nn.init.zeros_(conv.bias)
    torch.save(dict(state_dict=model.state_dict()), checkpoint)
    assert (
        figures(
            [
                f'l2={config},{checkpoint}',
                '--images',
                images[0],
                '--figure',
                'matrices',
                '--layer',
                '1',
                '--out',
                str(tmp_path / 'out'),
            ]
        )
        == 0
    )
    found = json.loads((tmp_path / 'out' / 'figures.json').read_text())['figures']['matrices']
    probe, _ = probe_image(Predictor(str(config), str(checkpoint)), images[0])
    largest = torch.nn.functional.gelu(probe.layers[1].matrix().mean(0)).max().item()
    assert list(found) == ['l2', 'l2, after local concentration']
    assert found['l2, after local concentration']['largest'] == pytest.approx(
        largest / (1 + 1e-5) ** 0.5, rel=1e-4
    )
