"""docs/examples/detect.html in a browser: what it shows of a trained detector, and of files whose
results are known.
"""

import json
import os
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from mmflatten.cli.export import main as export
from mmflatten.runtime.files import ModelFile

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
PAGE = ROOT / 'docs' / 'examples' / 'detect.html'
SCREENSHOTS = ROOT / 'work_dirs' / 'browser'
# Folder of `npm install onnxruntime-web`; without it, npm installs the version of the page.
PACKAGE = Path(os.environ.get('ONNXRUNTIME_WEB', ROOT / 'node_modules' / 'onnxruntime-web'))
SCORE = 0.05
# An instance of 0.9 whose mask is where red is bright, one of 0.3, and a row of padding.
GRAPH = """<ir_version: 8, opset_import: ["" : 18]>
model (float[1,3,H,W] image) =>
    (float[1,3,4] boxes, float[1,3] scores, int64[1,3] labels, bool[1,3,H,W] masks) {
    boxes = Constant <value = float[1,3,4]
        {10.0, 20.0, 50.0, 60.0, 30.0, 4.0, 70.0, 40.0, 0.0, 0.0, 0.0, 0.0}> ()
    scores = Constant <value = float[1,3] {0.9, 0.3, 0.0}> ()
    labels = Constant <value = int64[1,3] {2, 0, -1}> ()
    half = Constant <value = float {127.0}> ()
    masks = Greater (image, half)
}"""
FACTS = dict(
    task='detection',
    classes=['one', 'two', 'three'],
    transforms=dict(resize=dict(scale=[160, 96], keep_ratio=True)),
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope='module')
def address(tmp_path_factory):
    """The page on a server of this machine, with ONNX Runtime Web beside it."""
    folder = tmp_path_factory.mktemp('page')
    shutil.copy(PAGE, folder)
    _add_onnxruntime_web(folder)
    server = ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/{PAGE.name}'
    server.shutdown()


def _add_onnxruntime_web(folder):
    if (PACKAGE / 'dist').is_dir():
        (folder / 'node_modules').mkdir()
        (folder / 'node_modules' / 'onnxruntime-web').symlink_to(PACKAGE.resolve())
        return
    if shutil.which('npm') is None:
        pytest.skip('no onnxruntime-web: install npm, or set ONNXRUNTIME_WEB')
    version = re.search(r"VERSION = '(.+)'", PAGE.read_text(encoding='utf-8')).group(1)
    subprocess.run(['npm', 'install', f'onnxruntime-web@{version}'], cwd=folder, check=True)


@pytest.fixture(scope='module')
def detector(train_on, tmp_path_factory):
    """A Mask R-CNN of one epoch as a file."""
    run = train_on('mask-rcnn_flatten-swin-nano_fpn_digits')
    file = tmp_path_factory.mktemp('file') / 'model.onnx'
    assert export([run.config, run.checkpoint, '--dynamic', '--out', str(file)]) == 0
    return file


@pytest.fixture
def write_file(tmp_path):
    """Function that writes a detector of known results with changes of its metadata."""

    def write(**changes):
        model = onnx.parser.parse_model(GRAPH)
        onnx.helper.set_model_props(model, dict(mmflatten=json.dumps(FACTS | changes)))
        onnx.save(model, str(tmp_path / 'model.onnx'))
        return tmp_path / 'model.onnx'

    return write


@pytest.fixture
def photo(tmp_path):
    """A photo (192, 320) whose left half is red."""
    pixels = np.zeros((192, 320, 3), np.uint8)
    pixels[:, :160, 0] = 250
    Image.fromarray(pixels).save(tmp_path / 'photo.png')
    return tmp_path / 'photo.png'


def wait_for(page, text):
    """Wait until the page's state contains a text."""
    page.wait_for_function('text => state.textContent.includes(text)', arg=text, timeout=60_000)


def pixel(page, x, y):
    """Red, green and blue of the drawing."""
    read = '([x, y]) => [...drawing.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3)'
    return page.evaluate(read, [x, y])


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
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / 'detect.png', full_page=True)


def test_page_names_a_file_that_is_no_model(visit, address, tmp_path):
    file = tmp_path / 'model.onnx'
    file.write_bytes(b'\x0a\x03abc')
    page = visit(address)
    page.set_input_files('#model', str(file))
    wait_for(page, 'no metadata')


def test_page_draws_the_instances_above_the_score(visit, address, write_file, photo):
    page = visit(address)
    page.set_input_files('#model', write_file())
    wait_for(page, 'Choose a photo.')
    page.set_input_files('#photo', photo)
    wait_for(page, '1 instances, 160 x 96 pixels')
    # Corners in pixels of the photo, which has twice the sides of the graph's image.
    row = page.locator('#found tr')
    assert row.locator('td').all_text_contents() == ['three', '0.900', '20.0, 40.0, 100.0, 120.0']
    assert pixel(page, 140, 100) != [250, 0, 0]  # in the mask
    assert pixel(page, 300, 100) == [0, 0, 0]
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / 'detect_known.png')
    page.fill('#score', '0.2')
    page.dispatch_event('#score', 'change')
    wait_for(page, '2 instances')


def test_page_names_a_file_of_another_task(visit, address, write_file):
    page = visit(address)
    page.set_input_files('#model', write_file(task='stereo'))
    wait_for(page, 'stereo')
