"""`mmflatten export` of the digit models: predictions equal those of PyTorch, and errors name the
option.
"""

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from PIL import Image

from mmflatten.apis import Predictor
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.export import comparison
from mmflatten.export import export as exporting
from mmflatten.export.export import export_model
from mmflatten.export.onnx_files import OnnxFile
from mmflatten.export.openvino_core import openvino_core
from mmflatten.export.wrappers import ExportedModel

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / 'configs' / 'digits'
spec = importlib.util.spec_from_file_location('export_tool', ROOT / 'tools' / 'export.py')
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


# One block instead of five, because the families are tested elsewhere.
BACKBONE = (
    "backbone=dict(arch=dict(embed_dims=32, depths=(1,), num_heads=(2,)), attn_types='L',"
    ' out_indices=(0,))'
)
BASES = {'upernet-of-a-vit': 'upernet_flatten-swin-nano_digits'}
CHANGES = {
    'flatten-swin-nano_digits': f'{BACKBONE}, head=dict(in_channels=32)',
    'psmnet-tiny_digits-stereo': '',
    'upernet_flatten-swin-nano_digits': (
        f'{BACKBONE}, decode_head=dict(in_channels=[32], in_index=[0]),'
        ' auxiliary_head=dict(in_channels=32, in_index=0)'
    ),
    # The map of a plain ViT is padded to whole patches, and halved in the pyramid.
    'upernet-of-a-vit': (
        "backbone=dict(_delete_=True, type='mmflatten.ViT', patch_size=14, img_size=28,"
        " out_indices=(0,), out_type='featmap', arch=dict(embed_dims=32, depth=1, num_heads=2)),"
        " neck=dict(type='mmflatten.SimpleFeaturePyramid', in_channels=32, out_channels=16),"
        ' decode_head=dict(in_channels=[16] * 4), auxiliary_head=dict(in_channels=16, in_index=2)'
    ),
    **dict.fromkeys(
        ('mask-rcnn_flatten-swin-nano_fpn_digits', 'semantic-fpn_flatten-swin-nano_digits'),
        f'{BACKBONE}, neck=dict(in_channels=[32])',
    ),
}


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
    """Function that builds the model of a digit config with `CHANGES` and its checkpoint, once for
    each config.
    """
    folder, models = tmp_path_factory.mktemp('checkpoints'), {}

    def save(name):
        if name not in models:
            config, file = folder / f'{name}.py', folder / f'{name}.pth'
            base = DIGITS / f'{BASES.get(name, name)}.py'
            config.write_text(f"_base_ = ['{base}']\nmodel = dict({CHANGES[name]})\n")
            torch.manual_seed(0)
            model = build_model(load_config(str(config), work_dir=str(folder))).eval()
            torch.save(
                dict(
                    state_dict=model.state_dict(),
                    meta=dict(dataset_meta=dict(classes=list('0123456789'))),
                ),
                file,
            )
            models[name] = model, str(config), str(file)
        return models[name]

    return save


def export(saved, name, *options):
    model, config, checkpoint = saved(name)
    assert tool.main([config, checkpoint, *map(str, options)]) == 0
    return model


def openvino_file(file):
    """Function like `OnnxFile` that runs a file in OpenVINO."""
    names = OnnxFile(file).metadata['outputs']
    model = openvino_core().compile_model(str(file), 'CPU', dict(INFERENCE_PRECISION_HINT='f32'))
    return lambda *images: dict(
        zip(names, map(np.array, model(list(images)).values()), strict=True)
    )


def photo(*size):
    return np.random.default_rng(1).uniform(0, 255, (1, 3, *size)).astype(np.float32)


def test_classifier_probabilities_at_an_open_size(saved, tmp_path, capsys):
    model = export(
        saved, 'flatten-swin-nano_digits', '--dynamic', '--out', tmp_path / 'digits.onnx'
    )
    assert 'sides from 5 to' in capsys.readouterr().out
    # Files are given to others, who need no paths of this machine.
    assert str(ROOT).encode() not in (tmp_path / 'digits.onnx').read_bytes()
    engine, image = OnnxFile(tmp_path / 'digits.onnx'), photo(75, 90)
    assert engine.metadata['classes'] == list('0123456789')
    assert engine.metadata['task'] == 'classification'
    assert engine.metadata['mean'] == pytest.approx([123.675, 116.28, 103.53])
    # mmpretrain takes BGR
    data = model.data_preprocessor(dict(inputs=torch.from_numpy(image).flip(1)))
    with torch.no_grad():
        expected = model(data['inputs'], mode='tensor').softmax(-1).numpy()
    np.testing.assert_allclose(engine(image)['probabilities'], expected, atol=1e-5)


def test_segmentor_logits_have_the_size_of_the_image(saved, tmp_path):
    model = export(
        saved,
        'semantic-fpn_flatten-swin-nano_digits',
        '--size',
        70,
        91,
        '--out',
        tmp_path / 'map.onnx',
    )
    expect_segmentor_logits(model, openvino_file(tmp_path / 'map.onnx'), photo(70, 91))


def test_pyramid_pooling_agrees_at_open_sizes(saved, tmp_path):
    file = tmp_path / 'map.onnx'
    model = export(saved, 'upernet_flatten-swin-nano_digits', '--dynamic', '--out', file)
    for engine in (OnnxFile(file), openvino_file(file)):
        # Maps of 5 x 4 and 9 x 13 tokens, whose cells differ in size.
        for size in [(19, 16), (35, 50)]:
            expect_segmentor_logits(model, engine, photo(*size))


def test_pyramid_of_a_plain_map_agrees_at_open_sizes(saved, tmp_path):
    file = tmp_path / 'map.onnx'
    model = export(saved, 'upernet-of-a-vit', '--dynamic', '--out', file)
    for engine in (OnnxFile(file), openvino_file(file)):
        for size in [(40, 60), (71, 43)]:  # of 3 x 5 and 6 x 4 patches
            expect_segmentor_logits(model, engine, photo(*size))


def expect_segmentor_logits(model, engine, image):
    shape = image.shape[-2:]
    preprocessor = model.data_preprocessor
    with torch.no_grad():
        inputs = (torch.from_numpy(image) - preprocessor.mean) / preprocessor.std
        expected = model.encode_decode(inputs, [dict(img_shape=shape, ori_shape=shape)]).numpy()
    logits = engine(image)['logits']
    np.testing.assert_allclose(logits, expected, atol=1e-4 * np.abs(expected).max())


def test_segmentor_with_one_output_predicts_as_its_threshold(saved, tmp_path):
    model, base, _ = saved('semantic-fpn_flatten-swin-nano_digits')
    config, file = tmp_path / 'one.py', tmp_path / 'one.pth'
    head = 'num_classes=2, out_channels=1, threshold={}'
    config.write_text(f"_base_ = ['{base}']\nmodel = dict(decode_head=dict({head.format(0.5)}))\n")
    torch.manual_seed(0)
    model = build_model(load_config(str(config))).eval()
    pixels = photo(64, 64)[0].transpose(1, 2, 0).astype(np.uint8)
    torch.save(dict(state_dict=model.state_dict(), meta={}), file)
    scores = Predictor(config, file)(pixels).seg_logits.data  # after the sigmoid
    # Half of the pixels are above the threshold.
    config.write_text(config.read_text().replace('threshold=0.5', f'threshold={scores.median()}'))
    expected = Predictor(config, file)(pixels).pred_sem_seg.data
    assert 0.4 < expected.float().mean() < 0.6
    export_model(str(config), str(file), str(tmp_path / 'one.onnx'), size=(160, 160))
    found = Predictor(config, tmp_path / 'one.onnx')(pixels).pred_sem_seg.data
    assert (found == expected).float().mean() > 0.999


def test_stereo_disparities_of_a_padded_image(saved, tmp_path):
    model = export(
        saved, 'psmnet-tiny_digits-stereo', '--size', 90, 180, '--out', tmp_path / 'stereo.onnx'
    )
    left, right = photo(90, 180), photo(90, 180)[:, :, ::-1].copy()
    sides = {
        name: [torch.from_numpy(image[0]).flip(0)]
        for name, image in (('left', left), ('right', right))
    }
    with torch.no_grad():
        expected = model.predict(**model.data_preprocessor(dict(inputs=sides, data_samples=None)))
    disparity = OnnxFile(tmp_path / 'stereo.onnx')(left, right)['disparity']
    assert disparity.shape == (1, 90, 180)
    # The prediction without samples keeps the padding above and to the right.
    # An untrained PSMNet has large scores, so that float32 is as inexact in PyTorch.
    np.testing.assert_allclose(
        disparity[0], expected[0].pred_disparity.data[0, -90:, :180], atol=0.05
    )


@pytest.mark.full
def test_stereo_disparities_at_open_sizes(saved, tmp_path, capsys):
    export(
        saved,
        'psmnet-tiny_digits-stereo',
        '--size',
        96,
        128,
        '--dynamic',
        '--out',
        tmp_path / 'stereo.onnx',
    )
    assert 'sides from 49 to' in capsys.readouterr().out
    engine = OnnxFile(tmp_path / 'stereo.onnx')
    assert engine(photo(75, 91), photo(75, 91))['disparity'].shape == (1, 75, 91)


def test_features_of_a_two_stage_detector(saved, tmp_path):
    name, file = 'mask-rcnn_flatten-swin-nano_fpn_digits', tmp_path / 'maps.onnx'
    export(saved, name, '--features', '--size', 64, '--out', file)
    maps = OnnxFile(file)(photo(64, 64))
    assert [x.shape[-1] for x in maps.values()] == sorted(
        (x.shape[-1] for x in maps.values()), reverse=True
    )


BAD = {
    'suffix': ('flatten-swin-nano_digits', ['--out', 'model.xml'], 'model.xml'),
    'folder': ('flatten-swin-nano_digits', ['--out', 'nowhere/model.onnx'], 'nowhere'),
    'size': ('flatten-swin-nano_digits', ['--size', '0'], '--size'),
    'images': ('flatten-swin-nano_digits', ['--images', 'nowhere.png'], 'nowhere.png'),
    'small': (
        'mask-rcnn_flatten-swin-nano_fpn_digits',
        ['--dynamic', '--size', '4'],
        'got 4x4',
    ),
    'no photos': ('flatten-swin-nano_digits', ['--int8'], '--images'),
    'two images': ('psmnet-tiny_digits-stereo', ['--images', 'a.png'], 'left, right'),
}


@pytest.mark.parametrize('case', BAD)
def test_bad_option_is_named(saved, tmp_path, monkeypatch, capsys, case):
    name, options, word = BAD[case]
    _, config, checkpoint = saved(name)
    monkeypatch.chdir(tmp_path)
    assert tool.main([config, checkpoint, *options]) == 1
    assert word in capsys.readouterr().err.splitlines()[-1]


def test_file_that_disagrees_replaces_nothing(saved, tmp_path, monkeypatch, capsys):
    _, config, checkpoint = saved('flatten-swin-nano_digits')
    (tmp_path / 'm.onnx').write_text('mine')
    (tmp_path / '.m.onnx.killed.part').mkdir()  # what a killed export leaves
    wrong = dict(probabilities=np.zeros((1, 10), np.float32))
    monkeypatch.setattr(exporting, 'OnnxFile', lambda file: lambda image: wrong)
    assert tool.main([config, checkpoint, '--out', str(tmp_path / 'm.onnx')]) == 1
    assert str(tmp_path / 'm.onnx') in capsys.readouterr().err
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {'m.onnx': 'mine'}


@pytest.mark.parametrize('place', [0, 1])
def test_nan_in_any_output_does_not_agree(place):
    class Two(torch.nn.Module):
        inputs, outputs, scales = ('image',), ('0', '1'), [1.0, 1.0]
        errors, outliers = ExportedModel.errors, ExportedModel.outliers
        bands, mean = None, torch.zeros(3, 1, 1)
        value_range = ExportedModel.value_range

        def forward(self, image):
            return tuple(scale * image.mean()[None] for scale in self.scales)

    def engine(image):
        outputs = [image.mean()[None], image.mean()[None]]
        outputs[place] = np.full(1, np.nan)
        return dict(zip('01', outputs))

    module = Two()
    case = comparison.noise_case(module, (8, 8))
    with pytest.raises(ValueError, match='m.onnx.*8x8.*nan'):
        comparison.compare('m.onnx', module, engine, case)
    module.scales[place] = float('nan')
    with pytest.raises(ValueError, match='m.onnx.*8x8.*nan'):
        comparison.compare('m.onnx', module, engine, case)


def test_missing_package_is_named_with_its_pip_command(saved, monkeypatch, capsys):
    _, config, checkpoint = saved('flatten-swin-nano_digits')
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        'find_spec',
        lambda name, *rest: None if name == 'onnxscript' else find(name, *rest),
    )
    assert tool.main([config, checkpoint]) == 1
    assert 'pip install onnx onnxscript' in capsys.readouterr().err


def test_checkpoint_of_another_model_is_named(saved, capsys, tmp_path):
    checkpoint = saved('psmnet-tiny_digits-stereo')[2]
    config = saved('flatten-swin-nano_digits')[1]
    assert tool.main([config, checkpoint, '--out', str(tmp_path / 'x.onnx')]) == 1
    assert checkpoint in capsys.readouterr().err


# Exports a model in a process that is killed where the written file is compared.
KILLED = """
import os, signal, sys
from mmflatten.export import export as exporting

exporting.compare = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
exporting.export_model(*sys.argv[1:])
"""


@pytest.mark.full
def test_killed_export_leaves_the_old_file(saved, tmp_path):
    _, config, checkpoint = saved('flatten-swin-nano_digits')
    file = tmp_path / 'm.onnx'
    file.write_text('mine')
    command = [sys.executable, '-c', KILLED, config, checkpoint, str(file)]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    # The new one was being written beside it.
    assert len(list(tmp_path.iterdir())) == 2
    assert file.read_text() == 'mine'


@pytest.mark.full
def test_int8_is_refused_above_the_largest_drift(saved, tmp_path, capsys):
    _, config, checkpoint = saved('flatten-swin-nano_digits')
    photos = tmp_path / 'photos'
    photos.mkdir()
    for number in range(5):
        pixels = np.random.default_rng(number).integers(0, 256, (28, 28, 3), np.uint8)
        Image.fromarray(pixels).save(photos / f'{number}.png')
    file = tmp_path / 'm.onnx'
    file.write_text('mine')
    words = [config, checkpoint, '--images', str(photos), '--int8', '--out', str(file)]
    assert tool.main([*words, '--max-drift', '1e-9']) == 1
    assert '--max-drift' in capsys.readouterr().err.splitlines()[-1]
    assert file.read_text() == 'mine'
    assert tool.main(words) == 0
    metadata = OnnxFile(file).metadata
    assert metadata['precision'] == 'int8'
    # Of five photos two are compared. Rounding to int8 cannot be exact.
    assert metadata['difference']['images'] == 2
    assert 1e-9 < metadata['difference']['mean'] < 0.05
    types = {tensor.data_type for tensor in onnx.load(str(file)).graph.initializer}
    assert onnx.TensorProto.INT8 in types
