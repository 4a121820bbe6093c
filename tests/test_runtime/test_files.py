"""Exported files in both runtimes, and errors that name field and value."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from mmflatten.export.wrappers import ExportError
from mmflatten.runtime import RUNTIMES
from mmflatten.runtime.files import ModelFile


def images(*shape):
    return np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)


@pytest.mark.parametrize('runtime', RUNTIMES)
def test_outputs_by_name(write_file, runtime):
    file = ModelFile(write_file(), runtime)
    batch = images(3, 3, 40, 51)
    outputs = file(batch)
    assert list(outputs) == ['probabilities']
    np.testing.assert_allclose(outputs['probabilities'], batch.mean((2, 3)) / 255, rtol=1e-5)
    first = outputs['probabilities'].copy()
    file(images(1, 3, 64, 64))
    np.testing.assert_array_equal(outputs['probabilities'], first)


SIGNAL_AFTER_TWO_FILES = """
import gc, signal, sys
from mmflatten.runtime.files import ModelFile

signal.signal(signal.SIGTERM, lambda *_: print('handled'))
first, second = ModelFile(sys.argv[1], 'openvino'), ModelFile(sys.argv[1], 'openvino')
del first
gc.collect()
del second
gc.collect()
signal.raise_signal(signal.SIGTERM)
"""


def test_signals_are_handled_after_two_files_in_openvino(write_file):
    command = [sys.executable, '-c', SIGNAL_AFTER_TWO_FILES, str(write_file())]
    result = subprocess.run(command, text=True, capture_output=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, 'handled\n'), result.stderr


METADATA = {
    'format': (dict(format=2), r'format: expected 1, got 2'),
    'precision': (dict(precision='int4'), r'precision.*int4'),
    'size': (dict(size=[0, 64]), r'size.*got 0'),
    'sides': (dict(sides=[33]), r'sides.*'),
    'classes': (dict(classes='red'), r'classes.*got red'),
    'mean': (dict(mean=[1.0, 'a', 2.0]), r'mean.*got a'),
    'transforms': (dict(transforms=dict(rotate={})), r'transforms\.rotate'),
}


@pytest.mark.parametrize('name', METADATA)
def test_metadata_out_of_bounds_are_named(write_file, name):
    changes, message = METADATA[name]
    with pytest.raises(ExportError, match=rf'model\.onnx: {message}'):
        ModelFile(write_file(**changes))


def test_file_without_metadata_is_named(write_file, tmp_path):
    file = write_file()
    model = onnx.load(file)
    del model.metadata_props[:]
    onnx.save(model, file)
    with pytest.raises(ExportError, match=r'model\.onnx.*mmflatten export'):
        ModelFile(file)
    (tmp_path / 'text.onnx').write_text('not a model')
    with pytest.raises(ExportError, match=r'text\.onnx.*mmflatten export'):
        ModelFile(tmp_path / 'text.onnx')
    with pytest.raises(ExportError, match=r'nowhere\.onnx'):
        ModelFile(tmp_path / 'nowhere.onnx')


def test_missing_file_of_the_weights_is_named(write_file, tmp_path):
    file = write_file()
    model = onnx.load(file)
    weight = onnx.numpy_helper.from_array(np.zeros((32, 64), np.float32), 'weight')
    model.graph.initializer.append(weight)
    onnx.save(model, file, save_as_external_data=True, location='weights.data', size_threshold=1)
    ModelFile(file)
    (tmp_path / 'weights.data').unlink()
    with pytest.raises(ExportError, match=r"model\.onnx: weights: .*'weights\.data'"):
        ModelFile(file)


def test_incomplete_file_is_named(write_file, tmp_path):
    content = Path(write_file()).read_bytes()
    file = tmp_path / 'half.onnx'
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(ExportError, match=r'half\.onnx: .*not complete'):
        ModelFile(file)


@pytest.mark.parametrize('runtime', RUNTIMES)
def test_graph_that_a_runtime_rejects_is_named(write_file, runtime):
    file = write_file()
    model = onnx.load(file)
    model.graph.node[-1].op_type = 'Nothing'
    onnx.save(model, file)
    with pytest.raises(ExportError, match=rf'model\.onnx: {runtime} .*Export'):
        ModelFile(file, runtime)


BAD_IMAGES = {
    'number': ({}, [(1, 3, 64, 64)] * 2, 'expected 1 inputs.*got 2'),
    'shape': ({}, [(1, 64, 64, 3)], r'image:.*\(1, 64, 64, 3\)'),
    'small': ({}, [(1, 3, 64, 20)], 'size:.*33 to 4096.*64 x 20'),
    'large': (dict(sides=[33, 128]), [(1, 3, 129, 64)], 'size:.*33 to 128.*129 x 64'),
    'fixed': (dict(sides=None), [(1, 3, 64, 65)], 'size:.*64 x 64.*64 x 65.*--dynamic'),
    'batch': ({}, [(5, 3, 64, 64)], 'batch:.*1 to 4.*got 5'),
    'single': (dict(batch=None), [(2, 3, 64, 64)], 'batch:.*1 image.*got 2.*--dynamic'),
}


@pytest.mark.parametrize('name', BAD_IMAGES)
def test_images_that_a_file_does_not_take_are_named(write_file, name):
    changes, shapes, message = BAD_IMAGES[name]
    file = ModelFile(write_file(**changes))
    with pytest.raises(ExportError, match=message):
        file(*(images(*shape) for shape in shapes))


def test_images_of_a_pair_have_one_size_and_type(write_file):
    file = ModelFile(write_file('stereo'))
    with pytest.raises(ExportError, match=r'right:.*64, 64.*64, 65'):
        file(images(1, 3, 64, 64), images(1, 3, 64, 65))
    with pytest.raises(ExportError, match=r'right:.*float64'):
        file(images(1, 3, 64, 64), images(1, 3, 64, 64).astype(np.float64))


def test_bfloat16_requires_openvino(write_file):
    file = write_file(precision='bfloat16')
    with pytest.raises(ExportError, match='runtime:.*bfloat16.*openvino.*onnxruntime'):
        ModelFile(file, 'onnxruntime')
    with pytest.raises(ExportError, match='runtime:.*tensorrt'):
        ModelFile(file, 'tensorrt')
