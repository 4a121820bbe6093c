"""`mmflatten app` in a browser: a picture goes up, a click moves the query, a wrong file has a
message.
"""

import functools
import http.server
import os
import shutil
import socket
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

pytestmark = pytest.mark.browser
pytest.importorskip('mmflatten_lab')
CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
NAMES = ('mask-rcnn_flatten-swin-nano_fpn_digits', 'flatten-swin-nano-mixed_digits')


@pytest.fixture(scope='module')
def url(tmp_path_factory):
    """A detector and a classifier with random weights, served."""
    from mmflatten.config import build_model
    from mmflatten.engine.setup import load_config
    from mmflatten_lab.app.server import serve
    from mmflatten_lab.app.trial import TriedModel

    folder, models = tmp_path_factory.mktemp('app'), []
    for name in NAMES:
        config = str(CONFIGS / f'{name}.py')
        torch.manual_seed(0)
        torch.save(
            dict(state_dict=build_model(load_config(config)).state_dict()), folder / f'{name}.pth'
        )
        models.append(TriedModel(config, str(folder / f'{name}.pth'), 'cpu'))
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    with serve(models, port) as page:
        yield page.local_url


@pytest.fixture
def photo(tmp_path) -> str:
    noise = np.random.default_rng(0).integers(0, 255, (8, 6, 3), dtype=np.uint8)
    cv2.imwrite(str(tmp_path / 'photo.png'), cv2.resize(noise, (120, 160)))
    return str(tmp_path / 'photo.png')


def upload(page, file: str) -> None:
    page.locator('input[type=file]').first.set_input_files(file)


def pixels(page, address: str) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(page.request.get(address).body(), np.uint8), cv2.IMREAD_COLOR)


def maps_when(page, what: str, changed_from: list[str]) -> list[str]:
    """Addresses of the maps, named by what is in them, once none is as before."""
    page.wait_for_function(
        '([what, before]) => { const shown = [...document.querySelectorAll(what)].map(image =>'
        ' image.src);return shown.length > 1 && shown.every(source => !before.includes(source)) }',
        arg=[what, changed_from],
    )
    return [image.get_attribute('src') for image in page.locator(what).all()]


@pytest.mark.parametrize(('width', 'theme'), [(1400, 'light'), (390, 'dark')])
def test_a_picture_is_predicted_and_a_click_moves_the_query(visit, url, photo, width, theme):
    page = visit(url, width, theme)
    upload(page, photo)
    maps = maps_when(page, '.map img', [])
    assert page.locator('.drawing img').count() == 2 and 'parameters' in page.content()
    assert page.evaluate('document.documentElement.scrollWidth') <= width  # nothing is cut off
    picture = page.locator('#picture img')
    box = picture.bounding_box()
    picture.click(position=dict(x=box['width'] / 4, y=box['height'] * 3 / 4))
    clicked = maps_when(page, '.map img', maps)
    for before, after in zip(maps, clicked):
        assert (pixels(page, before) != pixels(page, after)).any()
    # A pixel on the screen is at most 4 / 10 of one of the picture.
    assert float(page.get_by_label('x', exact=True).input_value()) == pytest.approx(30, abs=1)
    assert float(page.get_by_label('y', exact=True).input_value()) == pytest.approx(120, abs=1)
    page.get_by_label('Layer').first.click()
    page.get_by_role('option').nth(2).click()
    page.wait_for_function(
        'before => document.querySelector(".map img").src !== before', arg=clicked[0]
    )


def test_a_wrong_file_has_a_message_and_a_right_one_helps(visit, url, photo, tmp_path):
    letter = tmp_path / 'letter.png'
    letter.write_text('Dear reader')
    page = visit(url)
    page.get_by_role('button', name='Predict').click()
    page.get_by_role('alert').wait_for()
    upload(page, str(letter))
    page.get_by_role('alert').filter(has_text='letter.png').wait_for()
    assert page.locator('#picture').count() == 0
    page.get_by_label('Remove this file').or_(page.get_by_label('Clear')).first.click()
    upload(page, photo)
    maps_when(page, '.map img', [])
    assert page.get_by_role('alert').count() == 0


FOREIGN = """<iframe src="{url}"></iframe>
<form method=post action="{url}gradio_api/upload" target=_blank enctype="multipart/form-data">
<input name=files value=x><button>send</button></form>
<script>
const body = new FormData(); body.append('files', new Blob(['x']), 'a.png');
const attempts = [['{url}gradio_api/upload', {{method: 'POST', body, mode: 'no-cors'}}],
                  ['{url}', {{mode: 'no-cors'}}],
                  ['{url}config', {{}}]];
window.done = Promise.all(attempts.map(([url, options]) => fetch(url, options).then(
    answer => answer.text().then(text => [answer.status, text.length]), error => [0, 0])));
</script>"""


@pytest.fixture
def foreign(url, tmp_path):
    """Address of a page on another port, which tries to use the app."""
    (tmp_path / 'index.html').write_text(FOREIGN.format(url=url))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{other.server_port}/'
        other.shutdown()


def uploads() -> list[Path]:
    return [
        path
        for path in Path(os.environ['GRADIO_TEMP_DIR']).rglob('*')
        if path.name in ('a.png', 'x')
    ]


def test_page_of_another_origin_reads_and_uploads_nothing(browser, url, foreign):
    page = browser.new_context().new_page()
    page.goto(foreign)
    for status, length in page.evaluate('window.done'):  # unreadable, or the line of the refusal
        assert status == length == 0 or status == 403 and length < 100
    with page.context.expect_page() as sent:
        page.click('button')
    sent.value.wait_for_load_state()
    assert 'may not use' in sent.value.content() and uploads() == []
    frame = page.frames[1]
    assert 'mmflatten' not in frame.content()
    page.context.close()


def test_rebound_name_is_refused(browser, url):
    """A foreign site's name that now points to this computer: its pages count as one origin with
    the app.
    """
    rebound = browser.browser_type.launch(
        executable_path=shutil.which('chromium'),
        args=['--no-sandbox', '--host-resolver-rules=MAP evil.example 127.0.0.1'],
    )
    page = rebound.new_page()
    answer = page.goto(url.replace('127.0.0.1', 'evil.example'))
    assert answer.status == 400 and 'mmflatten' not in page.content()
    upload_there = """async () => {
        const body = new FormData();
        body.append('files', new Blob(['x']), 'a.png');
        return (await fetch('/gradio_api/upload', {method: 'POST', body})).status
    }"""
    assert page.evaluate(upload_there) == 400 and uploads() == []
    rebound.close()
