"""The Predictor and `mmflatten predict`: equality with `mmflatten test`, and errors."""

import csv
import json
import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.fileio import load
from pycocotools import mask as coco_mask

from mmflatten.apis import Predictor
from mmflatten.cli.predict import main as predict
from mmflatten.datasets.stereo.files import read_pfm
from mmflatten.engine.setup import load_config
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import PredictionError
from mmflatten.predict.results import ResultFolder


@pytest.fixture(scope='module')
def detector(train_on):
    return train_on('mask-rcnn_flatten-swin-nano_fpn_digits')


@pytest.fixture(scope='module')
def classifier(train_on):
    return train_on('flatten-swin-nano_digits')


@pytest.fixture(scope='module')
def segmentor(train_on):
    return train_on('semantic-fpn_flatten-swin-nano_digits')


@pytest.fixture
def photos(scenes) -> list[str]:
    return [str(path) for path in sorted((scenes / 'images' / 'validation').iterdir())]


def run(*words: object) -> int:
    return predict([str(word) for word in words])


def last_line(capsys) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize('batch', [1, 3])
def test_detections_equal_those_of_the_test_tool(detector, photos, tmp_path, batch):
    assert (
        run(
            detector.config,
            detector.checkpoint,
            Path(photos[0]).parent,
            '--out',
            tmp_path,
            '--score',
            0,
            '--batch',
            batch,
        )
        == 0
    )
    coco = json.loads((tmp_path / 'predictions.json').read_text())
    expected = {entry['img_path']: entry['pred_instances'] for entry in load(detector.results)}
    assert [image['file_name'] for image in coco['images']] == photos
    assert [category['name'] for category in coco['categories']] == list('0123456789')
    for image in coco['images']:
        found = [a for a in coco['annotations'] if a['image_id'] == image['id']]
        truth = expected[image['file_name']]
        boxes = torch.tensor([a['bbox'] for a in found])
        boxes[:, 2:] += boxes[:, :2]
        torch.testing.assert_close(boxes, truth['bboxes'], atol=1e-3, rtol=1e-4)
        assert [a['category_id'] for a in found] == truth['labels'].tolist()
        assert [a['score'] for a in found] == pytest.approx(truth['scores'].tolist(), abs=1e-5)
        for annotation, mask in zip(found, truth['masks']):
            assert (
                coco_mask.decode(annotation['segmentation']) != coco_mask.decode(mask)
            ).mean() < 1e-3
        assert cv2.imread(
            str(tmp_path / 'drawings' / f'{Path(image["file_name"]).stem}.png')
        ).shape == (160, 160, 3)


def test_classes_equal_those_of_the_test_tool(classifier, tmp_path, capsys):
    expected = load(classifier.results)[:3]
    files = [entry['img_path'] for entry in expected]
    assert run(classifier.config, classifier.checkpoint, *files, '--out', tmp_path, '--json') == 0
    # and nothing else is printed there
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with open(tmp_path / 'classes.csv', newline='') as file:
        header, *rows = csv.reader(file)
    assert header[:3] == ['file', 'class_1', 'score_1']
    for entry, line, row in zip(expected, lines, rows, strict=True):
        assert line['classes'][0]['label'] == line['label'] == entry['pred_label'].item()
        assert line['file'] == row[0] == entry['img_path']
        assert float(row[2]) == pytest.approx(entry['pred_score'].max().item(), abs=1e-5)


def test_label_maps_equal_those_of_the_test_tool(segmentor, photos, tmp_path):
    assert (
        run(
            segmentor.config,
            segmentor.checkpoint,
            f'{Path(photos[0]).parent}/*.png',
            '--out',
            tmp_path,
        )
        == 0
    )
    for entry in load(segmentor.results):
        found = cv2.imread(
            str(tmp_path / 'label_maps' / f'{Path(entry["img_path"]).stem}.png'),
            cv2.IMREAD_UNCHANGED,
        )
        expected = entry['pred_sem_seg']['data'][0].numpy()
        assert found.shape == expected.shape
        # batch sizes differ, so ties between classes may flip
        assert (found != expected).mean() <= 1e-3


def test_disparities_equal_those_of_the_model(stereo_run, tmp_path):
    left, right = stereo_run.pair
    assert run(stereo_run.config, stereo_run.checkpoint, left, right, '--out', tmp_path) == 0
    found = read_pfm(tmp_path / 'disparity' / f'{Path(left).stem}.pfm')
    sample = Predictor(stereo_run.config, stereo_run.checkpoint)(
        tuple(cv2.imread(str(path))[..., ::-1] for path in (left, right))
    )
    np.testing.assert_allclose(found, sample.pred_disparity.data[0], atol=1e-4)
    assert cv2.imread(str(tmp_path / 'drawings' / f'{Path(left).stem}.png')).std() > 0


def test_predictor_takes_rgb_arrays_and_rejects_others(detector, photos):
    predictor = Predictor(detector.config, detector.checkpoint, device='cpu')
    by_file, by_pixels = predictor(photos[0]), predictor(cv2.imread(photos[0])[..., ::-1])
    torch.testing.assert_close(by_file.pred_instances.bboxes, by_pixels.pred_instances.bboxes)
    with pytest.raises(PredictionError, match='float64'):
        predictor(np.zeros((8, 8, 3)))
    with pytest.raises(PredictionError, match='gone.png'):
        predictor('gone.png')


def test_image_is_drawn_from_the_pixels_of_its_prediction(detector, photos, tmp_path):
    predictor = Predictor(detector.config, detector.checkpoint, device='cpu')
    file = tmp_path / 'deleted.png'
    shutil.copy(photos[0], file)
    pixels = predictor.read(str(file))
    file.unlink()
    sample = predictor(pixels)
    with ResultFolder(tmp_path / 'out', predictor) as folder:
        folder.add(Input('deleted', str(file), str(file)), sample, pixels)
    assert (tmp_path / 'out' / 'drawings' / 'deleted.png').is_file()
    by_file = predictor(photos[0])
    torch.testing.assert_close(sample.pred_instances.bboxes, by_file.pred_instances.bboxes)


def test_images_that_the_pipeline_decodes_otherwise_are_left_to_it(detector, photos):
    cfg = load_config(detector.config)
    cfg.test_dataloader.dataset.pipeline[0].imdecode_backend = 'pillow'
    predictor = Predictor(cfg, detector.checkpoint, device='cpu')
    assert predictor.read(photos[0]) == photos[0]
    assert len(predictor(photos[0]).pred_instances)


def test_config_without_a_checkpoint_is_rejected(detector, photos, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        run(detector.config, photos[0], '--out', tmp_path)
    assert stop.value.code == 2 and 'checkpoint' in last_line(capsys)


def test_inputs_may_stand_behind_options(photos, tmp_path):
    assert run('garment-classifier', '--out', tmp_path, photos[0], photos[1]) == 0
    drawn = {path.stem for path in (tmp_path / 'drawings').iterdir()}
    assert drawn == {Path(photo).stem for photo in photos[:2]}


def test_failure_of_an_image_names_its_file(detector, photos, tmp_path, capsys):
    strip = tmp_path / 'strip.png'
    cv2.imwrite(str(strip), np.zeros((2, 8000, 3), dtype=np.uint8))
    words = (detector.config, detector.checkpoint, '--out', tmp_path / 'out', strip, photos[0])
    assert run(*words) == 1
    assert str(strip) in last_line(capsys)


def test_errors_name_damaged_and_narrow_images(detector, photos, tmp_path):
    predictor = Predictor(detector.config, detector.checkpoint, device='cpu')
    pixels = cv2.imread(photos[0])
    cut = {f'cut{suffix}': cv2.imencode(suffix, pixels)[1][:1000] for suffix in ('.png', '.jpg')}
    bits = cv2.imencode('.tif', pixels[..., 0].astype(np.float32))[1]
    # and no UTF-8
    files = {**cut, '32 bits.tif': bits, 'empty.png': b'', os.fsdecode(b'caf\xe9.png'): b'no image'}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(PredictionError, match=name):
            predictor(tmp_path / name)
    cv2.imwrite(str(tmp_path / 'strip.png'), strip := np.zeros((2, 8000, 3), dtype=np.uint8))
    for read, image, name in (
        (predictor, tmp_path / 'strip.png', 'strip.png'),
        (predictor.prepare, strip, 'image of'),
    ):
        with pytest.raises(PredictionError, match=f'{name}.*resize'):
            read(image)


def test_image_of_one_pixel_does_not_stop_a_run(segmentor, photos, tmp_path, capsys):
    cv2.imwrite(str(tmp_path / 'one.png'), np.zeros((1, 1, 3), dtype=np.uint8))
    assert (
        run(
            segmentor.config,
            segmentor.checkpoint,
            tmp_path / 'one.png',
            photos[0],
            '--out',
            tmp_path / 'out',
        )
        == 1
    )
    assert str(tmp_path / 'one.png') in last_line(capsys)  # mmseg's visualizer cannot draw it
    assert {path.stem for path in (tmp_path / 'out' / 'label_maps').iterdir()} == {
        'one',
        Path(photos[0]).stem,
    }


def test_video_is_drawn_as_a_video(detector, photos, tmp_path):
    film = tmp_path / 'film.avi'
    writer = cv2.VideoWriter(str(film), cv2.VideoWriter_fourcc(*'MJPG'), 5, (160, 160))
    for path in photos[:3]:
        writer.write(cv2.imread(path))
    writer.release()
    assert run(detector.config, detector.checkpoint, film, '--out', tmp_path / 'out') == 0
    drawn = cv2.VideoCapture(str(tmp_path / 'out' / 'drawings' / 'film.mp4'))
    assert drawn.get(cv2.CAP_PROP_FRAME_COUNT) == 3 and drawn.get(cv2.CAP_PROP_FPS) == 5
    images = json.loads((tmp_path / 'out' / 'predictions.json').read_text())['images']
    assert [image['frame'] for image in images] == ['film_000000', 'film_000001', 'film_000002']


def test_truncated_video_is_a_failure_and_keeps_its_frames(detector, photos, tmp_path, capsys):
    film = tmp_path / 'film.avi'
    writer = cv2.VideoWriter(str(film), cv2.VideoWriter_fourcc(*'MJPG'), 5, (160, 160))
    for path in photos[:2] * 3:
        writer.write(cv2.imread(path))
    writer.release()
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    assert run(detector.config, detector.checkpoint, film, '--out', tmp_path / 'out') == 1
    images = json.loads((tmp_path / 'out' / 'predictions.json').read_text())['images']
    shown = capsys.readouterr().err
    assert f'{len(images)} of {len(images)} predicted' in shown
    assert (
        'film.avi' in shown.splitlines()[-1]
        and f'frame {len(images)} of 6' in shown.splitlines()[-1]
    )


def test_output_folder_must_not_replace_inputs_or_be_a_file(detector, photos, tmp_path, capsys):
    own = tmp_path / 'drawings' / 'mine.png'
    own.parent.mkdir()
    shutil.copy(photos[0], own)
    assert run(detector.config, 'gone.pth', own.parent, '--out', tmp_path) == 1
    assert str(own) in last_line(capsys) and own.read_bytes() == Path(photos[0]).read_bytes()
    for out in (own, own / 'deeper'):
        with pytest.raises(SystemExit):
            run('gone.py', 'gone.pth', photos[0], '--out', out)
        assert (line := last_line(capsys)).count('--out') and str(own) in line


def test_damaged_image_is_reported_and_others_are_predicted(detector, photos, tmp_path, capsys):
    folder = tmp_path / 'photos'
    folder.mkdir()
    (folder / 'a.png').write_bytes(b'no image')
    for path in photos[:2]:
        shutil.copy(path, folder)
    assert (
        run(detector.config, detector.checkpoint, folder, '--out', tmp_path / 'out', '--batch', 2)
        == 1
    )
    assert str(folder / 'a.png') in last_line(capsys)
    assert len(json.loads((tmp_path / 'out' / 'predictions.json').read_text())['images']) == 2


def test_pipes_devices_and_links_are_failures_and_others_are_predicted(
    detector, photos, tmp_path, capfd
):
    folder = tmp_path / 'photos'
    folder.mkdir()
    (folder / 'self.png').symlink_to('self.png')
    (folder / 'zero.png').symlink_to('/dev/zero')
    (folder / 'gone.png').symlink_to('nowhere.png')
    (folder / 'script.png').write_bytes(b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n')
    os.mkfifo(folder / 'pipe.png')
    with open(folder / 'huge.png', 'wb') as sparse:
        sparse.truncate(2**40)
    for path in photos[:2]:
        shutil.copy(path, folder)
    for number in range(20):  # libpng has a line for each
        content = bytearray(Path(photos[0]).read_bytes())
        content[len(content) // 2 : len(content) // 2 + 20] = bytes(20)
        (folder / f'damaged{number}.png').write_bytes(content)
    before = set(os.listdir('/proc/self/fd'))
    assert (
        run(
            detector.config,
            detector.checkpoint,
            folder,
            tmp_path / 'missing.png',
            '--out',
            tmp_path / 'out',
            '--batch',
            3,
        )
        == 1
    )
    assert set(os.listdir('/proc/self/fd')) <= before
    lines = capfd.readouterr().err.splitlines()
    for name in ('self', 'zero', 'gone', 'script', 'pipe', 'huge', 'missing', 'damaged19'):
        assert (
            len([line for line in lines if line.startswith('  ') and f'{name}.png' in line]) == 1
        ), lines
    assert not any('libpng' in line for line in lines) and '27 failures' in lines[-1]
    assert len(json.loads((tmp_path / 'out' / 'predictions.json').read_text())['images']) == 2


def test_missing_inputs_create_no_output_folder(detector, tmp_path, capsys):
    assert (
        run(
            detector.config,
            detector.checkpoint,
            tmp_path / 'nothing.jpg',
            '--out',
            tmp_path / 'out',
        )
        == 1
    )
    assert 'nothing.jpg' in last_line(capsys) and not (tmp_path / 'out').exists()


def test_inputs_from_standard_input(detector, photos, tmp_path, monkeypatch):
    monkeypatch.setattr('sys.stdin', iter([f'{photos[1]}\n', '\n']))
    assert run(detector.config, detector.checkpoint, '-', '--out', tmp_path) == 0
    assert [path.stem for path in (tmp_path / 'drawings').iterdir()] == [Path(photos[1]).stem]


def test_checkpoint_of_another_model_is_rejected(detector, classifier, photos, tmp_path, capsys):
    assert run(detector.config, classifier.checkpoint, photos[0], '--out', tmp_path) == 1
    assert classifier.checkpoint in last_line(capsys)


def test_checkpoint_with_other_classes_is_rejected(detector, photos, tmp_path, capsys):
    config = tmp_path / 'letters.py'
    config.write_text(
        f"_base_ = ['{detector.config}']\n"
        "test_dataloader = dict(dataset=dict(metainfo=dict(classes=tuple('abcdefghij'))))\n"
    )
    assert run(config, detector.checkpoint, photos[0], '--out', tmp_path / 'out') == 1
    line = last_line(capsys)
    assert detector.checkpoint in line and 'a, b' in line and '0, 1' in line


def test_invalid_device_and_score_are_rejected(detector, photos, tmp_path, capsys):
    assert (
        run(
            detector.config,
            detector.checkpoint,
            photos[0],
            '--out',
            tmp_path,
            '--device',
            'cuda:99',
        )
        == 1
    )
    assert 'cuda:99' in last_line(capsys)
    with pytest.raises(SystemExit):
        run(detector.config, detector.checkpoint, photos[0], '--out', tmp_path, '--score', 2)
    assert '--score' in last_line(capsys)
