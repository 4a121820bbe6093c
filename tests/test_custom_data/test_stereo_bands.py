"""Stereo pairs of other bands than three colours: from files to a config, training, prediction,
FLOPs and export.
"""

from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
import torch

from mmflatten.apis import from_pretrained
from mmflatten.cli.init import main
from mmflatten.cli.predict import main as predict
from mmflatten.config import build_model
from mmflatten.datasets.bands import BandsError, read_drawable
from mmflatten.datasets.stereo import (
    LoadStereoPair,
    StereoDataError,
    StereoPhotometricJitter,
    write_pfm,
)
from mmflatten.engine.setup import load_config
from mmflatten.export.export import export_model
from mmflatten.hub.publish import publish
from mmflatten.measure.flops.model_cost import count_config
from mmflatten.predict.predictor import Predictor
from mmflatten.runtime.files import ModelFile
from tests.test_custom_data.test_init_command import CONFIGS, train

BASE = str(CONFIGS / 'digits' / 'psmnet-tiny_digits-stereo.py')
INIT = ['--task', 'stereo', '--images', 'pairs', '--base', BASE, '--out', 'mine.py', '--bands']
HEIGHT, WIDTH, SHIFT = 96, 160, 4  # pixels


def bands_of(number: int, seed: int) -> np.ndarray:
    """Bands of 12 bits, (H, W, C), of which the last one is much larger."""
    values = np.random.default_rng(seed).integers(0, 4096, (HEIGHT, WIDTH + SHIFT, number))
    values[..., -1] += 20000
    return values.astype(np.uint16)


def write(folder: Path, name: str, image: np.ndarray) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if name.endswith('.npy'):
        np.save(folder / name, image)
    elif name.endswith('.tif'):
        tifffile.imwrite(folder / name, image, photometric='minisblack', planarconfig='contig')
    else:
        cv2.imwrite(str(folder / name), image)
    return folder / name


def write_pairs(root: Path, bands: int, suffix: str, count: int = 4) -> None:
    for index in range(count):
        scene = bands_of(bands, index)
        write(root / 'left', f'{index}{suffix}', scene[:, :-SHIFT])
        write(root / 'right', f'{index}{suffix}', scene[:, SHIFT:])
        (root / 'disparity').mkdir(exist_ok=True)
        write_pfm(root / 'disparity' / f'{index}.pfm', np.full((HEIGHT, WIDTH), SHIFT, np.float32))


def disparities(predictor: Predictor) -> np.ndarray:
    pair = ('pairs/left/0.tif', 'pairs/right/0.tif')
    return predictor(pair).pred_disparity.data.numpy()


@pytest.mark.parametrize('bands, suffix', [(1, '.png'), (6, '.npy')])
def test_pairs_of_bands_train_and_predict(bands, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / 'pairs', bands, suffix)
    assert main(INIT) == 0
    cfg = load_config('mine.py')
    norms = cfg.model.data_preprocessor
    assert cfg.model.in_channels == bands and not norms.bgr_to_rgb
    assert norms.mean[-1] == pytest.approx(20000 + 4095 / 2, rel=0.01)
    pipeline = cfg.train_dataloader.dataset.pipeline
    assert 'Jitter' not in str(pipeline) and pipeline[0].bands == 'all'
    train(tmp_path / 'mine.py')
    checkpoint = next((tmp_path / 'run').glob('epoch_*.pth'))
    command = ['mine.py', str(checkpoint), 'pairs/left', 'pairs/right', '--out', 'found']
    assert predict(command) == 0
    assert len(list((tmp_path / 'found' / 'drawings').iterdir())) == 4
    assert count_config('mine.py').params > count_config(BASE).params or bands < 3


def test_exported_and_published_models_predict_as_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / 'pairs', 4, '.tif')
    assert main(INIT) == 0
    torch.manual_seed(0)
    model = build_model(load_config('mine.py'))
    torch.save(dict(state_dict=model.state_dict(), meta={}), 'model.pth')
    expected = disparities(Predictor('mine.py', 'model.pth', 'cpu'))
    assert np.ptp(expected) > 1e-3

    (_, inputs, *_) = export_model('mine.py', 'model.pth', 'model.onnx', size=(HEIGHT, WIDTH))
    assert '4 bands' in inputs
    with pytest.raises(ValueError, match='expected shape .* 4, '):
        ModelFile('model.onnx')(*[np.zeros((1, 3, HEIGHT, WIDTH), np.float32)] * 2)
    for predictor in (Predictor('model.onnx'), Predictor('mine.py', 'model.onnx')):
        np.testing.assert_allclose(disparities(predictor), expected, atol=0.05)

    publish('model.pth', 'published', 'mine.py', onnx='model.onnx')
    published = from_pretrained('published', device='cpu')
    np.testing.assert_allclose(disparities(published), expected, atol=1e-5)


def test_weights_of_three_bands_start_a_training_of_four(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / 'pairs', 4, '.tif')
    assert main(INIT) == 0
    torch.save(dict(state_dict=build_model(load_config(BASE)).state_dict()), 'rgb.pth')
    train(tmp_path / 'mine.py', load_from='rgb.pth')


def test_chosen_bands_are_read_in_order(tmp_path):
    image = bands_of(5, 0)
    files = [str(write(tmp_path / side, 'a.npy', image)) for side in ('left', 'right')]
    sample = dict(img_path=files[0], right_path=files[1])
    loaded = LoadStereoPair(bands=[3, 0])(sample)
    for side in ('left', 'right'):
        np.testing.assert_array_equal(loaded[side], image[..., [3, 0]].astype(np.float32))
    with pytest.raises(BandsError, match=r'left/a.npy.*\[5\]'):
        LoadStereoPair(bands=[5])(sample)
    for bands in ('first', [], [-1], [0.5]):
        with pytest.raises(ValueError, match='^bands: .*got'):
            LoadStereoPair(bands=bands)


def test_faults_of_pairs_of_bands_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    left = write(tmp_path / 'left', 'a.npy', bands_of(5, 0))
    right = write(tmp_path / 'right', 'a.npy', bands_of(4, 0))
    sample = dict(img_path=str(left), right_path=str(right))
    with pytest.raises(StereoDataError, match=r'right/a.npy.*5 bands.*left/a.npy.*4'):
        LoadStereoPair(bands='all')(sample)
    loaded = LoadStereoPair(bands='all')(sample | dict(right_path=str(left)))
    with pytest.raises(StereoDataError, match='StereoPhotometricJitter.*5 bands of float32'):
        StereoPhotometricJitter()(loaded)
    write_pairs(tmp_path / 'pairs', 4, '.tif')
    write(tmp_path / 'pairs' / 'right', '0.tif', bands_of(3, 0)[:, SHIFT:])
    assert main(INIT) == 1
    assert '--bands' in capsys.readouterr().err and not Path('mine.py').exists()


@pytest.mark.parametrize('suffix', ['.npy', '.tif'])
def test_bands_are_drawable(suffix, tmp_path):
    file = write(tmp_path, f'a{suffix}', bands_of(6, 0))
    drawn = read_drawable(str(file))
    assert (
        drawn.shape == (HEIGHT, WIDTH + SHIFT, 3)
        and drawn.dtype == np.uint8
        and np.ptp(drawn) == 255
    )
    (tmp_path / f'b{suffix}').write_bytes(b'no image')
    with pytest.raises(ValueError, match=f'b{suffix}'):
        read_drawable(str(tmp_path / f'b{suffix}'))
