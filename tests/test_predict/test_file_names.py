"""File names that FFmpeg would take for addresses are read as files."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from mmflatten.predict.inputs import Inputs
from mmflatten.predict.videos import DrawnVideo

FRAMES = 3


@pytest.fixture
def server() -> Iterator[SimpleNamespace]:
    """A server that records the paths of requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(404)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(('127.0.0.1', 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(port=server.server_port, requests=requests)
        server.shutdown()


def write_video(path: Path) -> None:
    """Write a video through a plain name, as OpenCV would take others for addresses."""
    plain = path.absolute().with_name('plain.avi')
    writer = cv2.VideoWriter(str(plain), cv2.VideoWriter_fourcc(*'MJPG'), 5, (64, 48))
    for seed in range(FRAMES):
        writer.write(np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8))
    writer.release()
    plain.rename(path.absolute())


NAMES = [
    'http:127.0.0.1:PORT?leak=1',
    'tcp:127.0.0.1:PORT',
    'concat:a|b',
    'file:a',
    'data:a',
    'subfile,,start,0,end,0,,:a',
    'pipe:0',
    '-x',
    '-',
    'a%02d',
    '0',
]


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('by', ['word', 'glob'])
def test_video_is_read_as_a_file(name, by, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = f'{name.replace("PORT", str(server.port))}.mp4'
    write_video(Path(file))
    items = [*Inputs([file if by == 'word' else '*.mp4'])]
    assert len(items) == FRAMES and {item.source for item in items} == {file}
    assert not server.requests


def test_file_that_is_no_video_sends_no_request(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    playlist = f'#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:{server.port}/a.ts\n#EXT-X-ENDLIST\n'
    for name in (f'http:127.0.0.1:{server.port}.mp4', 'playlist.mp4'):
        Path(name).write_text(playlist)
        with pytest.raises(ValueError, match=name):
            Inputs([name])
    assert not server.requests


@pytest.mark.parametrize('name', NAMES)
def test_video_is_written_as_a_file(name, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path(f'http:127.0.0.1:{server.port}')
    folder.mkdir()
    file = folder / f'{name.replace("PORT", str(server.port))}.mp4'
    video = DrawnVideo(file, rate=5.0, size=(64, 48))
    for _ in range(FRAMES):
        video.add(np.zeros((48, 64, 3), np.uint8))
    video.close()
    assert cv2.VideoCapture(str(file.absolute())).get(cv2.CAP_PROP_FRAME_COUNT) == FRAMES
    assert not server.requests


def test_images_are_read_as_files(server, predictor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    expected = predictor(pixels[..., ::-1]).pred_score
    for name in NAMES:
        file = Path(f'{name.replace("PORT", str(server.port))}.png')
        file.write_bytes(cv2.imencode('.png', pixels)[1])
        (item,) = Inputs([str(file)])
        assert item.source == str(file)
        assert predictor(item.image).pred_score.equal(expected)
    assert not server.requests
