"""The page of docs/run_files.md that runs an exported detector in a browser."""

import json
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

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
PAGE = ROOT / 'docs' / 'examples' / 'detect.html'
SCREENSHOTS = ROOT / 'work_dirs' / 'browser'
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
        pass


@pytest.fixture(scope='module')
def page_url(tmp_path_factory):
    """The address of the page beside the npm package that it names."""
    folder = tmp_path_factory.mktemp('page')
    shutil.copy(PAGE, folder)
    if shutil.which('npm') is None:
        pytest.skip('npm is not installed')
    version = re.search(r"VERSION = '(.+)'", PAGE.read_text(encoding='utf-8')).group(1)
    subprocess.run(['npm', 'install', f'onnxruntime-web@{version}'], cwd=folder, check=True)
    server = ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/{PAGE.name}'
    server.shutdown()


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


def wait_for_state(page, text):
    page.wait_for_function('text => state.textContent.includes(text)', arg=text)


def pixel(page, x, y):
    """Red, green and blue of the drawing."""
    read = '([x, y]) => [...drawing.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3)'
    return page.evaluate(read, [x, y])


def test_page_draws_the_instances_above_the_score(visit, page_url, write_file, photo):
    page = visit(page_url)
    page.set_input_files('#model', write_file())
    wait_for_state(page, 'Choose a photo.')
    page.set_input_files('#photo', photo)
    wait_for_state(page, '1 instances, 160 x 96 pixels')
    # Corners in pixels of the photo, which has twice the sides of the graph's image.
    row = page.locator('#found tr')
    assert row.locator('td').all_text_contents() == ['three', '0.900', '20.0, 40.0, 100.0, 120.0']
    assert pixel(page, 140, 100) != [250, 0, 0]  # in the mask
    assert pixel(page, 300, 100) == [0, 0, 0]
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / 'detect.png')
    page.fill('#score', '0.2')
    page.dispatch_event('#score', 'change')
    wait_for_state(page, '2 instances')


def test_page_names_a_file_of_another_task(visit, page_url, write_file):
    page = visit(page_url)
    page.set_input_files('#model', write_file(task='stereo'))
    wait_for_state(page, 'stereo')
