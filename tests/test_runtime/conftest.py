"""Exported files of each task, made of a few ONNX operators, so that every result is known."""

import json

import numpy as np
import onnx
import pytest

MODEL = '<ir_version: 8, opset_import: ["" : 18]>\n'
# The score of a class is the mean of a channel.
MEANS = """
    axes = Constant <value_ints = [2, 3]> ()
    mean = ReduceMean <keepdims = 0> (image, axes)
    white = Constant <value = float {255.0}> ()
    means = Div (mean, white)
"""
GRAPHS = {
    'classification': 'model (float[B,3,H,W] image) => (float[B,3] probabilities) {'
    + MEANS
    + 'probabilities = Identity (means) }',
    # The class of a pixel is its brightest channel.
    'segmentation': 'model (float[B,3,H,W] image) => (float[B,3,H,W] logits) {'
    'logits = Identity (image) }',
    'stereo': 'model (float[B,3,H,W] left, float[B,3,H,W] right) => (float[B,H,W] disparity) {'
    'axes = Constant <value_ints = [1]> () difference = Sub (left, right)'
    'disparity = ReduceMean <keepdims = 0> (difference, axes) }',
    # The number of a pixel's segment is its red value.
    'panoptic': 'model (float[B,3,H,W] image) => (int64[B,H,W] segments) {'
    'first = Constant <value_int = 0> () red = Gather <axis = 1> (image, first)'
    'segments = Cast <to = 7> (red) }',
    # Two instances, whose masks are where red and green are bright, and a row of padding.
    'detection': 'model (float[B,3,H,W] image) =>'
    '(float[B,3,4] boxes, float[B,3] scores, int64[B,3] labels, bool[B,3,H,W] masks) {'
    + MEANS
    + """
    zero = Sub (means, means)
    shape = Constant <value_ints = [-1, 3, 1]> ()
    column = Reshape (zero, shape)
    corners = Constant <value = float[1,3,4]
        {10.0, 20.0, 50.0, 60.0, 30.0, -4.0, 700.0, 40.0, 0.0, 0.0, 0.0, 0.0}> ()
    boxes = Add (corners, column)
    factors = Constant <value = float[1,3] {1.0, 1.0, 0.0}> ()
    scores = Mul (means, factors)
    classes = Constant <value = int64[1,3] {2, 0, -1}> ()
    none = Cast <to = 7> (zero)
    labels = Add (classes, none)
    half = Constant <value = float {127.0}> ()
    masks = Greater (image, half)
    }""",
}
OUTPUTS = {
    'classification': ['probabilities'],
    'segmentation': ['logits'],
    'stereo': ['disparity'],
    'detection': ['boxes', 'scores', 'labels', 'masks'],
    'panoptic': ['segments'],
    'features': ['probabilities'],
}


@pytest.fixture
def write_file(tmp_path):
    """Function that writes a file of a task, with changes of its metadata, and returns its path."""

    def write(task='classification', name='model.onnx', **changes):
        metadata = dict(
            format=1,
            mmflatten='0.2.0',
            task=task,
            config='model.py',
            checkpoint=None,
            classes=[] if task == 'stereo' else ['red', 'green', 'blue'],
            palette=None if task == 'stereo' else [[255, 0, 0], [0, 255, 0], [0, 0, 255]],
            inputs=['left', 'right'] if task == 'stereo' else ['image'],
            outputs=OUTPUTS[task],
            precision='float32',
            batch=[1, 4],
            size=[64, 64],
            sides=[33, 4096],
            divisor=1,
            input='RGB',
            mean=[123.675, 116.28, 103.53],
            std=[58.395, 57.12, 57.375],
            transforms={},
            difference=None,
        )
        metadata.update(changes)
        graph = GRAPHS['classification' if task == 'features' else task]
        model = onnx.parser.parse_model(MODEL + graph)
        onnx.helper.set_model_props(model, dict(mmflatten=json.dumps(metadata)))
        file = tmp_path / name
        onnx.save(model, str(file))
        return str(file)

    return write


@pytest.fixture
def photo():
    """RGB pixels (48, 80, 3): the left half is red, and the upper half green too."""
    pixels = np.zeros((48, 80, 3), np.uint8)
    pixels[:, :40, 0] = 200
    pixels[:24, :, 1] = 250
    pixels[..., 2] = 30
    return pixels
