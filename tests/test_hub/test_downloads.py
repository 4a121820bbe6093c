"""Models on a hub, which may be hostile: nothing that a server says becomes a path, and every
answer ends.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmflatten.apis import Predictor
from mmflatten.cli.predict import main as predict
from mmflatten.hub.folder import facts_of, read_published, shipped
from mmflatten.hub.remote import locate
from mmflatten.untrusted.published import CONFIG, FACTS, WEIGHTS, HubError

CLASSIFIER = 'flatten-swin-nano_digits'
MODEL = shipped()['digits-stereo']


def upload(hub, folder: Path, name: str = 'user/model') -> dict[str, bytes]:
    hub.repositories[name] = {path.name: path.read_bytes() for path in folder.iterdir()}
    return hub.repositories[name]


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob('*') if path.is_file()}


def test_hub_model_predicts_in_a_new_process(hub, published, image, tmp_path):
    run = published(CLASSIFIER)
    upload(hub, run.folder)
    variables = {**os.environ, 'HF_ENDPOINT': hub.url, 'HF_HOME': str(tmp_path / 'home')}
    command = [
        sys.executable,
        '-m',
        'mmflatten',
        'predict',
        'hf://user/model',
        str(image),
        '--out',
        'out',
        '--json',
    ]
    result = subprocess.run(
        command, cwd=tmp_path, env=variables, text=True, capture_output=True, timeout=240
    )
    assert result.returncode == 0, result.stderr
    label = json.loads(result.stdout)['label']
    assert label == Predictor(run.config, run.checkpoint, 'cpu')(image).pred_label.item()
    asked = {path.rpartition('/')[2] for method, path, _ in hub.requests if '/resolve/' in path}
    assert asked == {FACTS, CONFIG, WEIGHTS}
    assert not any(
        'torch' in headers.get('User-Agent', headers.get('user-agent', ''))
        for *_, headers in hub.requests
    )


def test_second_download_asks_for_the_commit_only_and_offline_for_nothing(hub, monkeypatch):
    upload(hub, MODEL)
    place = locate('user/model')
    hub.requests.clear()
    assert locate('user/model') == place
    assert [path for _, path, _ in hub.requests] == ['/api/models/user/model/revision/main']
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    hub.requests.clear()
    assert locate('user/model') == place and not hub.requests
    with pytest.raises(HubError, match='connection'):
        locate('user/model@other')


def test_interrupted_download_continues(hub):
    upload(hub, MODEL)
    hub.cut, hub.cuts = 1000, 1
    with pytest.raises(HubError, match='continues'):
        locate('user/model')
    assert facts_of(locate('user/model') / WEIGHTS) == facts_of(MODEL / WEIGHTS)
    assert [
        headers['range'] for *_, headers in map(lowered, hub.requests) if 'range' in headers
    ] == ['bytes=1000-']


def lowered(request: tuple) -> tuple:
    return (*request[:2], {key.lower(): value for key, value in request[2].items()})


def test_damaged_file_in_the_cache_is_downloaded_again(hub):
    upload(hub, MODEL)
    (locate('user/model') / WEIGHTS).write_bytes(b'damaged')
    assert facts_of(locate('user/model') / WEIGHTS) == facts_of(MODEL / WEIGHTS)


@pytest.mark.parametrize(
    'commit', ['../../evil', '/tmp/evil', 'C' * 40, 'c' * 39, '', None, 7, ['c' * 40]]
)
def test_wrong_commit_is_refused(commit, hub, tmp_path):
    upload(hub, MODEL)
    hub.commit = commit
    with pytest.raises(HubError, match='hf://user/model.*commit|hf://user/model.*sha'):
        locate('user/model')
    assert written(tmp_path) <= {'.lock', 'main'}


@pytest.mark.parametrize('etag', ['"../../../evil"', '/tmp/evil', ''])
def test_etag_is_not_used(etag, hub, tmp_path):
    upload(hub, MODEL).update(
        {'../../../evil': b'evil', 'evil.py': b'raise SystemExit', 'model.bin': b'\x80evil'}
    )
    hub.etag = etag
    place = locate('user/model')
    assert {path.name for path in place.iterdir()} == {FACTS, CONFIG, WEIGHTS}
    assert written(tmp_path) == {FACTS, CONFIG, WEIGHTS, '.lock', 'main'}


def test_token_is_not_sent_to_another_host(hub):
    upload(hub, MODEL)
    hub.location = hub.url.replace('127.0.0.1', 'localhost')
    read_published(locate('user/model'))
    requests = [headers for *_, headers in map(lowered, hub.requests)]
    hosts = {headers['host'].partition(':')[0]: 'authorization' in headers for headers in requests}
    assert hosts == {'127.0.0.1': True, 'localhost': False}


@pytest.mark.parametrize('name', [FACTS, CONFIG, WEIGHTS])
def test_answer_without_end_is_cut(name, hub, tmp_path):
    upload(hub, MODEL)
    hub.endless = name
    with pytest.raises(HubError, match=f'{name}.* bytes'):
        locate('user/model')
    assert hub.sent < 40 * 2**20 and name not in written(tmp_path)


@pytest.mark.parametrize('piece', [0, 1])
def test_silent_and_slow_servers_are_left(piece, hub, monkeypatch):
    monkeypatch.setattr('mmflatten.hub.remote._SILENCE', 0.2)
    monkeypatch.setattr('mmflatten.hub.remote._SLOWEST', 2**40)
    upload(hub, MODEL)
    hub.silence, hub.endless, hub.piece = 0 if piece else 1, CONFIG, piece
    start = time.monotonic()
    with pytest.raises(HubError, match='hf://user/model'):
        locate('user/model')
    assert time.monotonic() - start < 4


def test_file_other_than_declared_is_refused_and_forgotten(hub, tmp_path):
    files = upload(hub, MODEL)
    files[WEIGHTS] = files[WEIGHTS][:-1] + b'x'
    with pytest.raises(HubError, match='another file'):
        locate('user/model')
    assert not any(WEIGHTS in name for name in written(tmp_path))


def test_missing_repository_is_one_line(hub, capsys):
    assert predict(['hf://user/gone', 'a.png', '--out', 'out']) == 1
    assert 'hf://user/gone' in capsys.readouterr().err.splitlines()[-1]
