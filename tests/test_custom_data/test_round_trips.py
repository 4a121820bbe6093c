"""What a training reads is compared with what a file says: bits, orientation and ids."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from mmflatten.apis import from_pretrained
from mmflatten.cli.init import main
from mmflatten.cli.predict import main as predict
from mmflatten.config import build_model
from mmflatten.custom_data.images import picture_problems, read_pictures, turned_images
from mmflatten.custom_data.segmentation import _count
from mmflatten.datasets.used import ids_changed_by_evaluation
from mmflatten.engine.setup import load_config
from mmflatten.export.export import export_model
from mmflatten.export.wrappers import ExportError
from mmflatten.hub.publish import publish
from mmflatten.predict.predictor import Predictor
from mmflatten.runtime.files import ModelFile
from tests.test_custom_data.small_data import SIZE, coco, found, read_detection, write_image
from tests.test_custom_data.test_init_command import CONFIGS, train

PIXELS = np.random.default_rng(0).integers(0, 4096, SIZE, np.uint16)
CHANGED_ID = "id that COCO's evaluation changes"
BASE = str(CONFIGS / 'digits' / 'flatten-swin-nano_digits.py')
# of `mmflatten init`, for the images of `bands_of_classes`
OF_BANDS = ['--task', 'cls', '--images', 'images', '--base', BASE, '--out', 'mine.py']


@pytest.mark.parametrize('name', ['a.png', 'a.tif', 'a.ppm'])
def test_values_that_training_loses_are_stated(name, tmp_path):
    deep = np.dstack([PIXELS] * 3) if name == 'a.ppm' else PIXELS
    cv2.imwrite(str(tmp_path / name), deep)
    picture = read_pictures([tmp_path / name])[tmp_path / name]
    levels = len(np.unique(PIXELS))
    assert picture.depth == f'{levels} values up to {PIXELS.max()} become 16 up to 15'
    (problem,) = picture_problems({tmp_path / name: picture}, [tmp_path / name], [])
    assert not problem.stops and '16 bits' in problem.name


def test_files_of_eight_bits_lose_nothing(tmp_path):
    for name in ('a.png', 'a.jpg', 'a.tif', 'a.bmp', 'a.webp', 'a.ppm'):
        picture = read_pictures([write_image(tmp_path / name, 0)])[tmp_path / name]
        assert picture.depth == '' and picture.turned == 0, name


@pytest.mark.parametrize('mode', ['RGBA', 'LA', 'P'])
def test_hidden_colours_that_training_reads_are_stated(mode, tmp_path):
    path = tmp_path / 'a.png'
    image = Image.new('RGBA', (8, 8), (200, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 8, 2))
    options = {}
    if mode == 'P':
        image = image.convert('RGB').quantize(2)
        options = dict(transparency=image.getpixel((0, 0)))
    image.convert(mode).save(path, **options)
    pictures = read_pictures([path])
    assert pictures[path].transparent == 0.25
    (problem,) = picture_problems(pictures, [path], [])
    assert not problem.stops and '25%' in problem.where[0]


def test_opaque_alpha_is_no_problem(tmp_path):
    path = tmp_path / 'a.png'
    Image.new('RGBA', (8, 8), (200, 0, 0, 255)).save(path)
    assert picture_problems(read_pictures([path]), [path], []) == []


def turned(path, orientation, size):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(orientation).integers(0, 256, (*size, 3), np.uint8)
    Image.fromarray(pixels).save(path, exif=exif, quality=95)
    return path


@pytest.mark.parametrize('orientation', range(1, 9))
@pytest.mark.parametrize('size', [(48, 64), (48, 48)])
def test_orientations_that_a_size_does_not_show_are_reported(orientation, size, tmp_path):
    file = turned(tmp_path / 'a.jpg', orientation, size)
    pictures = read_pictures([file])
    assert pictures[file].turned == (orientation if orientation > 1 else 0)
    is_hidden = orientation in (2, 3, 4) or (orientation > 4 and size[0] == size[1])
    assert bool(turned_images(pictures, 'boxes')) == is_hidden
    # Normalised boxes, as YOLO's, do not show a quarter turn either.
    assert bool(turned_images(pictures, 'boxes', sizes_are_listed=False)) == (orientation > 1)


def test_boxes_of_turned_images_are_a_warning(folder):
    for number in range(2):
        image = turned(folder / 'images' / 'new.jpg', 3, SIZE)
        image.rename(folder / 'images' / f'{number}.png')
    assert found(read_detection(folder, coco()))['image turned by EXIF'] is False


@pytest.mark.parametrize(
    'ids, changed',
    [
        ([1, 2**53 + 1], []),
        ([2**62 + 1, 5], []),
        ([2**63 + 5, 2**63 + 9], []),
        ([2**63 + 5, 12], [2**63 + 5]),
        ([-3, 2**63 + 5], [2**63 + 5]),
        (['a', 1], [1]),
    ],
)
def test_ids_that_numpy_changes(ids, changed):
    assert ids_changed_by_evaluation(ids) == changed


def hashes(content: dict) -> dict:
    """Replace the ids of images by 64-bit hashes."""
    numbers = {0: 2**63 + 2**20 + 1, 1: 12}
    for image in content['images']:
        image['id'] = numbers.get(image['id'], image['id'])
    for annotation in content['annotations']:
        annotation['image_id'] = numbers.get(annotation['image_id'], annotation['image_id'])
    return content


def test_ids_that_the_evaluation_changes_are_renumbered(folder):
    data = read_detection(folder, hashes(coco()))
    plain = read_detection(folder, coco())
    assert found(data) == {**found(plain), CHANGED_ID: False}
    assert data.counts == plain.counts
    written = ''.join(data.lists.values())
    assert str(2**63 + 2**20 + 1) not in written


def bands_of_classes(root):
    """Two classes that differ in the last of six bands alone."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(('dry', 'wet')):
        (root / name).mkdir(parents=True)
        for index in range(6):
            array = rng.integers(0, 4000, (32, 32, 6), dtype=np.uint16)
            array[..., 5] = 100 + 900 * label
            np.save(root / name / f'{index}.npy', array)


def test_init_reads_bands_that_train_and_predict(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bands_of_classes(tmp_path / 'images')
    assert main([*OF_BANDS, '--batch', '4']) == 1  # arrays need --bands
    assert not (tmp_path / 'mine.py').exists()
    assert main([*OF_BANDS, '--batch', '4', '--bands']) == 0
    cfg = load_config('mine.py')
    assert cfg.model.backbone.in_channels == 6
    step = cfg.train_dataloader.dataset.pipeline[0]
    assert step.type == 'mmflatten.LoadBands'
    assert step.mean[5] == pytest.approx(550) and step.std[5] == pytest.approx(450)
    train(tmp_path / 'mine.py')
    capsys.readouterr()
    checkpoint = next((tmp_path / 'run').glob('epoch_*.pth'))
    arguments = ['mine.py', str(checkpoint), 'images/wet', '--out', 'predictions']
    assert predict(arguments) == 0
    drawings = sorted(path.name for path in (tmp_path / 'predictions' / 'drawings').iterdir())
    assert drawings == [f'{index}.png' for index in range(6)]


def scores_of(predictor, files):
    return np.array([predictor(file).pred_score.numpy() for file in files])


def test_exported_and_published_models_of_bands_predict_as_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bands_of_classes(tmp_path / 'images')
    assert main([*OF_BANDS, '--bands']) == 0
    torch.manual_seed(0)
    model = build_model(load_config('mine.py'))
    torch.save(dict(state_dict=model.state_dict(), meta={}), 'model.pth')
    files = [f'images/{name}/{index}.npy' for name in ('dry', 'wet') for index in (0, 1)]
    expected = scores_of(Predictor('mine.py', 'model.pth', 'cpu'), files)
    assert np.ptp(expected[:, 0]) > 1e-3  # the files differ

    (line, pixels, *_) = export_model(
        'mine.py', 'model.pth', 'model.onnx', size=(64, 64), images=['images/dry']
    )
    assert 'image, 6 bands' in pixels
    for predictor in (Predictor('model.onnx'), Predictor('mine.py', 'model.onnx')):
        np.testing.assert_allclose(scores_of(predictor, files), expected, atol=1e-5)
    with pytest.raises(ExportError, match='expected shape .B, 6, H, W.'):
        ModelFile('model.onnx')(np.zeros((1, 3, 32, 32), np.float32))
    steps = "[dict(type='LoadImageFromFile'), dict(type='PackInputs')]"
    Path('colours.py').write_text(
        f"_base_ = ['mine.py']\ntest_dataloader = dict(dataset=dict(pipeline={steps}))\n"
    )
    with pytest.raises(ExportError, match='expected a config that reads bands'):
        Predictor('colours.py', 'model.onnx')

    publish('model.pth', 'published', 'mine.py', onnx='model.onnx')
    published = from_pretrained('published', device='cpu')
    np.testing.assert_allclose(scores_of(published, files), expected, atol=1e-6)
    assert '(B, 6, H, W)' in (tmp_path / 'published/README.md').read_text()


def test_config_of_bands_is_removed_with_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bands_of_classes(tmp_path / 'images')
    np.save(tmp_path / 'images' / 'dry' / '7.npy', np.ones((32, 32, 5)))
    assert main([*OF_BANDS, '--bands']) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ['images']


def test_checkpoints_of_three_bands_start_a_training_of_six(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bands_of_classes(tmp_path / 'images')
    assert main([*OF_BANDS, '--bands']) == 0
    torch.save(dict(state_dict=build_model(load_config(BASE)).state_dict()), 'rgb.pth')
    train(tmp_path / 'mine.py', load_from='rgb.pth')


@pytest.mark.parametrize('compression', [None, 'tiff_lzw'])
def test_orientation_of_a_tiff_is_reported(compression, tmp_path):
    file = tmp_path / 'a.tif'
    exif = Image.Exif()
    exif[0x0112] = 3
    pixels = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
    Image.fromarray(pixels).save(file, exif=exif, compression=compression)
    assert read_pictures([file])[file].turned == 3
    shape, _, orientation = _count(file)
    assert shape == (*SIZE, 3) and orientation == 3
