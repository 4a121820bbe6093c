"""A hub on the loopback, and published models of the four tasks with random weights."""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
import torch

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.hub.publish import publish

CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
COMMIT = 'c' * 40
TINY = 'arch=dict(embed_dims=16, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1))'
CHANGES = {
    'flatten-swin-nano_digits': f'model = dict(backbone=dict({TINY}), head=dict(in_channels=128))',
    'retinanet_flatten-swin-nano_fpn_digits': (
        f'model = dict(backbone=dict({TINY}), neck=dict(in_channels=[32, 64, 128]))'
    ),
    'semantic-fpn_flatten-swin-nano_digits': (
        f'model = dict(backbone=dict({TINY}), neck=dict(in_channels=[16, 32, 64, 128]))'
    ),
    'dino-4scale_flatten-swin-nano_digits': (
        f'model = dict(backbone=dict({TINY}), neck=dict(in_channels=[32, 64, 128]))'
    ),
    'mask2former_flatten-swin-nano_digits': (
        f'model = dict(backbone=dict({TINY}), panoptic_head=dict(in_channels=[16, 32, 64, 128]))'
    ),
    'mask2former_flatten-swin-nano_digits-semantic': (
        f'model = dict(backbone=dict({TINY}), decode_head=dict(in_channels=[16, 32, 64, 128]))'
    ),
    'encoder-mask_flatten-swin-nano_digits': (
        f'model = dict(backbone=dict({TINY}), panoptic_head=dict(in_channels=[16, 32, 64, 128]))'
    ),
    'encoder-mask_vit-nano_digits-semantic': (
        'model = dict(backbone=dict(arch=dict(embed_dims=32, depth=4, num_heads=2, mlp_ratio=1.0,'
        ' patch_size=8, img_size=160)), decode_head=dict(in_channels=[32]))'
    ),
    'psmnet-tiny_digits-stereo': (
        'model = dict(max_disp=16, base_channels=4, depths=(1, 1, 1, 1), pool_sizes=(4, 2))'
    ),
}


@pytest.fixture(scope='session')
def published(tmp_path_factory, scenes) -> Callable[[str], SimpleNamespace]:
    """Publish a digit config with random weights; the result has `config`, `checkpoint` and
    `folder`.
    """

    @cache
    def make(name: str) -> SimpleNamespace:
        folder = tmp_path_factory.mktemp('run')
        config, checkpoint = folder / f'{name}.py', folder / 'epoch_1.pth'
        data = (
            ''
            if 'stereo' in name
            else f"test_dataloader = dict(dataset=dict(data_root='{scenes}/'))\n"
        )
        config.write_text(f"_base_ = ['{CONFIGS / name}.py']\n{data}{CHANGES[name]}\n")
        torch.manual_seed(0)
        model = build_model(load_config(str(config)))
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        torch.save(
            dict(state_dict=model.state_dict(), meta=dict(seed=3, epoch=1, iter=2)), checkpoint
        )
        results = dict(checkpoint=str(checkpoint), folder='', metrics={'accuracy/top1': 12.5})
        (folder / 'results.json').write_text(json.dumps(results))
        out = tmp_path_factory.mktemp('published') / 'model'
        notes = publish(checkpoint, out)
        return SimpleNamespace(
            config=str(config), checkpoint=str(checkpoint), folder=out, notes=notes
        )

    return make


@pytest.fixture
def image(scenes) -> Path:
    return sorted((scenes / 'images' / 'validation').iterdir())[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_: object) -> None:
        pass

    def _answer(
        self,
        content: bytes,
        status: int = 200,
        head: bool = False,
        sent: int | None = None,
        **headers: str,
    ) -> None:
        self.send_response(status)
        for key, value in {'Content-Length': str(len(content)), **headers}.items():
            self.send_header(key.replace('_', '-'), value)
        self.end_headers()
        if not head:
            self.wfile.write(content[:sent])
        if sent is not None:
            self.close_connection = True

    def do_GET(self, head: bool = False) -> None:
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        hub.requests.append((self.command, path, dict(self.headers)))
        user, model, *rest = path.removeprefix('/api/models').strip('/').split('/')
        files = hub.repositories.get(f'{user}/{model}')
        if files is None:
            return self._answer(
                b'{"error": "Repository not found"}', 404, head, X_Error_Code='RepoNotFound'
            )
        time.sleep(hub.silence)
        if path.startswith('/api/models'):
            info = dict(
                id=f'{user}/{model}',
                modelId=f'{user}/{model}',
                sha=hub.commit,
                private=False,
                tags=[],
                siblings=[dict(rfilename=name) for name in files],
            )
            return self._answer(
                json.dumps(info).encode(), head=head, Content_Type='application/json'
            )
        content = files.get('/'.join(rest[2:]))  # resolve/REVISION/NAME
        if content is None:
            return self._answer(b'', 404, head, X_Error_Code='EntryNotFound')
        if hub.location and self.headers['Host'].startswith('127.'):
            return self._answer(b'', 302, head, Location=f'{hub.location}{path}')
        if rest[-1] == hub.endless:
            return self._send_without_end()
        headers = dict(
            X_Repo_Commit=hub.commit,
            ETag=hub.etag or f'"{hashlib.sha256(content).hexdigest()}"',
            Accept_Ranges='bytes',
        )
        start = int(self.headers.get('Range', 'bytes=0-').removeprefix('bytes=').split('-')[0])
        cut = hub.cut if not head and rest[-1].endswith('.safetensors') else None
        if cut is not None:
            hub.cuts -= 1
            hub.cut = None if hub.cuts == 0 else cut
        if start:
            headers['Content_Range'] = f'bytes {start}-{len(content) - 1}/{len(content)}'
        self._answer(content[start:], 206 if start else 200, head, cut, **headers)

    def _send_without_end(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client has gone
            for _ in range(200):
                self.server.hub.sent += self.wfile.write(bytes(self.server.hub.piece))
                time.sleep(0.02 * (self.server.hub.piece == 1))

    def do_HEAD(self) -> None:
        self.do_GET(head=True)


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[SimpleNamespace]:
    """A hub, as `HF_ENDPOINT`: `repositories` by name, `requests`, and `cuts` downloads that end
    after `cut` bytes.

    A hostile one names another `commit`, `etag` or `location`, is silent, or sends the file
    `endless` in `piece`s.
    """
    server = ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
    server.hub = SimpleNamespace(
        url=f'http://127.0.0.1:{server.server_port}',
        repositories={},
        requests=[],
        cut=None,
        cuts=0,
        commit=COMMIT,
        etag=None,
        location='',
        endless='',
        sent=0,
        piece=2**20,
        silence=0,
    )
    for name, value in dict(
        ENDPOINT=server.hub.url,
        HF_HUB_CACHE=str(tmp_path / 'cache'),
        HF_HUB_DISABLE_XET=True,
        HUGGINGFACE_CO_URL_TEMPLATE=server.hub.url + '/{repo_id}/resolve/{revision}/{filename}',
    ).items():
        # they are read once, at import
        monkeypatch.setattr(f'huggingface_hub.constants.{name}', value)
    monkeypatch.setattr(
        'huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE', str(tmp_path / 'cache' / 'assets')
    )
    monkeypatch.setenv('HF_TOKEN', 'hf_test')
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server.hub
    server.shutdown()
    server.server_close()
    thread.join()
