"""docs/examples/detect.html in a browser: the detections of ONNX Runtime on the same file."""

import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmflatten.cli.export import main as export
from mmflatten.runtime.files import ModelFile

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
# Folder of `npm install onnxruntime-web`.
PACKAGE = Path(os.environ.get('ONNXRUNTIME_WEB', ROOT / 'node_modules' / 'onnxruntime-web'))
SCORE = 0.05


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope='module')
def address(tmp_path_factory):
    """The page on a server of this machine, with ONNX Runtime Web beside it."""
    if not (PACKAGE / 'dist').is_dir():
        pytest.skip('no onnxruntime-web: npm install onnxruntime-web, or set ONNXRUNTIME_WEB')
    folder = tmp_path_factory.mktemp('page')
    shutil.copy(ROOT / 'docs' / 'examples' / 'detect.html', folder)
    (folder / 'node_modules').mkdir()
    (folder / 'node_modules' / 'onnxruntime-web').symlink_to(PACKAGE.resolve())
    server = ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/detect.html'
    server.shutdown()


@pytest.fixture(scope='module')
def detector(train_on, tmp_path_factory):
    """A Mask R-CNN of one epoch as a file."""
    run = train_on('mask-rcnn_flatten-swin-nano_fpn_digits')
    file = tmp_path_factory.mktemp('file') / 'model.onnx'
    assert export([run.config, run.checkpoint, '--dynamic', '--out', str(file)]) == 0
    return file


def wait_for(page, text):
    page.wait_for_timeout(100)
    for _ in range(600):
        state = page.locator('#state').text_content()
        if text in state:
            return
        page.wait_for_timeout(100)
    raise AssertionError(state)


def test_page_finds_what_onnx_runtime_finds(visit, address, detector, scenes):
    photo = min((scenes / 'images' / 'validation').iterdir())
    pixels = np.asarray(Image.open(photo).convert('RGB'), np.float32)
    outputs = ModelFile(detector)(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))
    certain = outputs['scores'][0] >= SCORE
    page = visit(address)
    page.fill('#score', str(SCORE))
    page.set_input_files('#model', str(detector))
    wait_for(page, 'Choose a photo')
    page.set_input_files('#photo', str(photo))
    wait_for(page, 'instances')
    rows = page.locator('#found tr')
    assert rows.count() == certain.sum() > 0
    cells = [row.locator('td').all_text_contents() for row in rows.all()]
    assert [name for name, _, _ in cells] == [str(label) for label in outputs['labels'][0][certain]]
    scores = [float(score) for _, score, _ in cells]
    np.testing.assert_allclose(scores, outputs['scores'][0][certain], atol=2e-3)
    boxes = [[float(side) for side in box.split(', ')] for _, _, box in cells]
    np.testing.assert_allclose(boxes, outputs['boxes'][0][certain], atol=0.2)
    folder = ROOT / 'work_dirs' / 'browser'
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / 'detect.png', full_page=True)


def test_page_names_a_file_that_is_no_model(visit, address, tmp_path):
    file = tmp_path / 'model.onnx'
    file.write_bytes(b'\x0a\x03abc')
    page = visit(address)
    page.set_input_files('#model', str(file))
    wait_for(page, 'no metadata')
