"""Trials: predictions, and positions of image pixels in the network input."""

import cv2
import numpy as np
import pytest
import torch

from mmflatten.apis import Predictor
from mmflatten_lab.app.trial import MEAN, attention_view, network_pixel, result_table

# Config, size of the network input for an image of 120 x 96, number of layers, and a word of the
# results table.
CASES = {
    'flatten-swin-nano-mixed_digits': ((64, 64), 5, 'score'),
    'mask-rcnn_flatten-swin-nano_fpn_digits': ((160, 128), 5, 'instance'),
    'semantic-fpn_flatten-swin-nano-mixed_digits': ((160, 128), 5, 'fraction'),
    'psmnet-tiny-fa_digits-stereo': ((128, 96), 1, 'isparity'),
    'psmnet-tiny_digits-stereo': ((128, 96), 0, 'isparity'),
}


def files_for(model, picture, **kwargs):
    return [
        picture(f'{side}.png', **kwargs)
        for side in (('left', 'right') if model.task.pairs else ('scene',))
    ]


@pytest.mark.parametrize('name', CASES)
def test_trial_of_every_task_has_drawing_and_numbers(tried, picture, name):
    model, (size, layers, word) = tried(name), CASES[name]
    trial = model.try_on(files_for(model, picture))
    assert (
        trial.size == (120, 96)
        and trial.network_input.shape[1::-1] == size
        and len(trial.layers) == layers
    )
    assert model.attends == bool(layers)
    assert trial.drawing.dtype == np.uint8 and trial.drawing.ndim == 3 and np.ptp(trial.drawing) > 0
    assert word in result_table(model, trial)


@pytest.mark.parametrize('name', [name for name, case in CASES.items() if case[1]])
@pytest.mark.parametrize(('size', 'middle'), [((120, 96), (70, 30)), ((90, 150), (40, 100))])
def test_image_pixel_maps_to_the_network_input(tried, picture, name, size, middle):
    model = tried(name)
    trial = model.try_on(files_for(model, picture, size=size, middle=middle))
    x, y = network_pixel(trial, *middle)
    rows, columns = np.nonzero(trial.network_input.min(-1) > 128)
    assert (x - 0.5, y - 0.5) == pytest.approx((columns.mean(), rows.mean()), abs=0.75)


def test_pixel_outside_of_the_crop_has_no_map(tried, weights_of, picture):
    """Classifiers crop the centre of a non-square image."""
    model = tried('flatten-swin-nano-mixed_digits')
    trial = model.try_on([picture()])
    meta = dict(img_shape=(64, 64), scale_factor=(64 / 96, 64 / 96))
    trial.sample.set_metainfo(meta)  # shorter side resized to 64, then centre crop
    assert network_pixel(trial, 60, 48) == pytest.approx((32 + 1 / 3, 32 + 1 / 3))
    assert network_pixel(trial, 3, 48) is None
    drawn, said = attention_view(trial, trial.layers[0], MEAN, 3, 48, 64)
    assert drawn.shape == (64, 64, 3) and 'not see' in said


def test_attention_view_draws_the_weights_of_the_layer(tried, picture):
    model = tried('flatten-swin-nano-mixed_digits')
    trial = model.try_on([picture()])
    layer = trial.layers[1]
    drawn = {head: attention_view(trial, layer, head, 60, 48, 128) for head in (MEAN, 0, 1)}
    x, y = network_pixel(trial, 60, 48)
    row = layer.row(layer.token_at(x, y, (64, 64)))
    for head, weights in ((MEAN, row.mean(0)), (1, row[1])):
        assert f'{float(weights.sum()):.3g}' in drawn[head][1]
        strongest = int(weights.abs().argmax())
        col, line = strongest % layer.kv_hw[1], strongest // layer.kv_hw[1]
        pixel = drawn[head][0][
            int((line + 0.5) * 128 / layer.kv_hw[0]), int((col + 0.5) * 128 / layer.kv_hw[1])
        ]
        assert np.ptp(pixel.astype(int)) > 64  # a colour, not the grey of the picture
    assert not np.array_equal(drawn[0][0], drawn[1][0])


def test_trial_prediction_equals_the_predictor(tried, weights_of, picture):
    name = 'semantic-fpn_flatten-swin-nano-mixed_digits'
    file = picture()
    trial = tried(name).try_on([file])
    labels = Predictor(*weights_of(name), 'cpu')(file).pred_sem_seg.data
    assert torch.equal(trial.sample.pred_sem_seg.data, labels)
    assert trial.record['shares'] == [
        dict(
            label=i,
            name=tried(name).classes[i],
            share=pytest.approx(float((labels == i).float().mean())),
        )
        for i in labels.unique().tolist()
    ]


def test_greyscale_and_16_bit_images_are_predicted(tried, tmp_path):
    for number, pixels in enumerate(
        (
            np.full((40, 50), 90, np.uint8),
            np.full((40, 50, 3), 9000, np.uint16),
            np.full((40, 50, 4), 90, np.uint8),
        )
    ):
        cv2.imwrite(str(tmp_path / f'{number}.png'), pixels)
        trial = tried('flatten-swin-nano-mixed_digits').try_on([str(tmp_path / f'{number}.png')])
        assert trial.size == (50, 40) and len(trial.record['classes']) == 5
