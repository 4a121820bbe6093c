"""Operators of exported detectors against references and in runtimes, and files of int8."""

import json

import numpy as np
import onnx
import pytest
import torch
from mmengine.model import BaseModel
from onnx import TensorProto, helper, numpy_helper

from mmflatten.export.comparison import Case
from mmflatten.export.detection.boxes import Candidates, Suppression, results, suppress
from mmflatten.export.detection.regions import RegionFeatures, paste
from mmflatten.export.detection.reppoints import DeformableConvolution, RunningMaximum
from mmflatten.export.detection.suppression import ABSENT, translations
from mmflatten.export.metadata import read_metadata
from mmflatten.export.onnx_files import METADATA, OnnxFile, write
from mmflatten.export.openvino_core import openvino_core
from mmflatten.export.precision import drift, float_layers, quantise
from mmflatten.export.wrappers import ExportedModel


class Empty(BaseModel):
    """A model without layers, for its data preprocessor."""

    def forward(self, inputs):
        return inputs


class Steps(ExportedModel):
    """Candidates from the pixels of an image, suppression, RoIAlign and pasting."""

    outputs = ('boxes', 'scores', 'labels', 'masks')

    def __init__(self):
        from mmdet.models.roi_heads.roi_extractors import SingleRoIExtractor

        super().__init__(Empty())
        layer = dict(type='RoIAlign', output_size=4, sampling_ratio=0)
        extractor = SingleRoIExtractor(
            layer, out_channels=1, featmap_strides=[1, 2], finest_scale=20
        )
        self.regions = RegionFeatures(extractor)

    def translations(self):
        return translations()

    def forward(self, image):
        size = image.shape[-2:]
        # Each column of the first channel is a box.
        values = image[:, 0, :5].transpose(1, 2)
        corner = values[..., :2] / 255 * 40
        boxes = torch.cat((corner, corner + 1 + values[..., 2:4] / 4), dim=-1)
        scores = values[..., 4] / 255
        scores = torch.where(scores > 0.2, scores, ABSENT)
        labels = (values[..., 4] % 2).long()
        found = results(suppress(Candidates(boxes, scores, labels), Suppression(0.3, 9, False)))
        maps = (image[:, :1], image[:, :1, ::2, ::2])
        masks = self.regions(maps, found.boxes).unflatten(0, found.scores.shape)[:, :, 0]
        return *found, paste(masks, found.boxes, size)


def openvino_engine(file, names):
    """Function like `OnnxFile` that runs a file in OpenVINO."""
    model = openvino_core().compile_model(str(file), 'CPU', dict(INFERENCE_PRECISION_HINT='f32'))
    return lambda image: dict(zip(names, map(np.array, model([image]).values()), strict=True))


def test_boxes_and_regions_agree_in_both_runtimes(tmp_path):
    module, file = Steps().eval(), tmp_path / 'steps.onnx'
    metadata = dict(outputs=list(module.outputs), size=[40, 48], sides=[33, 64])
    write(module, file, metadata)
    generator = np.random.default_rng(0)
    images = generator.uniform(0, 255, (3, 3, 40, 51)).astype(np.float32)
    images[2, 0, 4] = 0  # an image without boxes, whose rows of padding have no area
    for batch in (images, images[2:]):
        with torch.no_grad():
            expected = [output.numpy() for output in module(torch.from_numpy(batch))]
        assert (expected[2] >= 0).sum() == (0 if len(batch) == 1 else 18)
        for engine in (OnnxFile(file), openvino_engine(file, module.outputs)):
            for name, value in zip(module.outputs, expected):
                np.testing.assert_allclose(
                    engine(batch)[name], value, atol=1e-3, rtol=0, err_msg=name
                )


def test_pasted_mask_agrees_with_grid_sampling():
    generator = torch.Generator().manual_seed(0)
    masks = torch.rand(1, 2, 7, 5, generator=generator)
    boxes = torch.tensor([[[3.0, 2, 17, 20], [-4, 5.5, 8.25, 9]]])
    pasted = paste(masks, boxes, (24, 31))
    y = torch.arange(24) + 0.5
    x = torch.arange(31) + 0.5
    for number, (left, top, right, bottom) in enumerate(boxes[0]):
        grid_y = (y - top) / (bottom - top) * 2 - 1
        grid_x = (x - left) / (right - left) * 2 - 1
        grid = torch.stack(torch.broadcast_tensors(grid_x, grid_y[:, None]), dim=-1)
        expected = torch.nn.functional.grid_sample(
            masks[:, number : number + 1], grid[None], align_corners=False
        )
        torch.testing.assert_close(pasted[:, number], expected[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize('mode', ['top', 'bottom', 'left', 'right'])
def test_running_maximum_agrees_with_corner_pooling(mode):
    from mmcv.ops import CornerPool

    x = torch.randn(2, 3, 7, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(RunningMaximum(mode)(x), CornerPool(mode)(x), rtol=0, atol=0)


def test_samples_agree_with_deformable_convolution():
    from mmcv.ops import DeformConv2d

    generator = torch.Generator().manual_seed(0)
    conv = DeformConv2d(4, 6, kernel_size=3, padding=1)
    x = torch.randn(2, 4, 7, 9, generator=generator)
    offset = torch.randn(2, 18, 7, 9, generator=generator) * 3
    with torch.no_grad():
        torch.testing.assert_close(
            DeformableConvolution(conv)(x, offset), conv(x, offset), rtol=0, atol=1e-4
        )


CHANNELS = 8


def write_attention(file, metadata):
    """Projection, a product of two activations, a second projection and a last layer."""
    generator = np.random.default_rng(0)

    def weight(name, *shape):
        return numpy_helper.from_array(generator.normal(0, 0.4, shape).astype(np.float32), name)

    nodes = [
        helper.make_node('Conv', ['image', 'w0'], ['features'], 'embed', kernel_shape=[1, 1]),
        helper.make_node('Reshape', ['features', 'shape'], ['tokens']),
        helper.make_node('Transpose', ['tokens'], ['rows'], perm=[0, 2, 1]),
        helper.make_node('MatMul', ['tokens', 'rows'], ['sums'], 'sums_of_tokens'),
        helper.make_node('MatMul', ['sums', 'w1'], ['mixed'], 'projection'),
        helper.make_node('MatMul', ['mixed', 'w2'], ['logits'], 'last'),
        helper.make_node('Softmax', ['logits'], ['probabilities']),
    ]
    graph = helper.make_graph(
        nodes,
        'attention',
        [helper.make_tensor_value_info('image', TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info('probabilities', TensorProto.FLOAT, None)],
        [
            weight('w0', CHANNELS, 3, 1, 1),
            weight('w1', CHANNELS, CHANNELS),
            weight('w2', CHANNELS, 5),
            numpy_helper.from_array(np.array([1, CHANNELS, 16]), 'shape'),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=10)
    helper.set_model_props(model, {METADATA: json.dumps(metadata)})
    onnx.save(model, str(file))
    return model


class File:
    """A float32 file in the place of a module."""

    errors = ExportedModel.errors
    outputs = ('probabilities',)

    def __init__(self, file):
        self.engine = OnnxFile(file)

    def __call__(self, image):
        return (torch.from_numpy(self.engine(image.numpy())['probabilities']),)


def noise(number):
    generator = np.random.default_rng(1)
    images = generator.uniform(-1, 1, (number, 1, 3, 4, 4)).astype(np.float32)
    return [Case(str(place), (image,)) for place, image in enumerate(images)]


def test_products_of_activations_and_last_layers_stay_in_float(tmp_path):
    model = write_attention(tmp_path / 'model.onnx', dict(outputs=['probabilities']))
    assert float_layers(model) == ['sums_of_tokens', 'last']


def test_int8_file_keeps_metadata_and_drifts_little(tmp_path, caplog):
    file, small = tmp_path / 'model.onnx', tmp_path / 'int8.onnx'
    metadata = dict(format=1, inputs=['image'], outputs=['probabilities'], precision='float32')
    write_attention(file, metadata)
    assert quantise(file, small, noise(8), {**metadata, 'precision': 'int8'}) == 2
    assert not caplog.records  # ONNX Runtime warns about a graph that it has not simplified
    assert read_metadata(small) == {**metadata, 'precision': 'int8'}
    types = {tensor.data_type for tensor in onnx.load(str(small)).graph.initializer}
    assert TensorProto.INT8 in types
    mean = drift('int8.onnx', File(file), OnnxFile(small), noise(4), limit=0.1)
    assert 0 < mean < 0.1
    with pytest.raises(ValueError, match='--max-drift.*int8.onnx'):
        drift('int8.onnx', File(file), OnnxFile(small), noise(4), limit=mean / 2)


@pytest.mark.parametrize(
    ('content', 'word'), [(b'no model', METADATA), (None, 'metadata'), (dict(format=9), 'got 9')]
)
def test_foreign_file_is_named(tmp_path, content, word):
    file = tmp_path / 'model.onnx'
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        model = write_attention(file, content)
        if content is None:
            del model.metadata_props[:]
            onnx.save(model, str(file))
    with pytest.raises(ValueError, match=word) as caught:
        read_metadata(file)
    assert str(file) in str(caught.value)
