"""The local server of the page, with several tabs, and the command."""

import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmflatten_lab.commands import app as command

app = command.main
gradio_client = pytest.importorskip('gradio_client')
httpx = pytest.importorskip('httpx')
own_folder = pytest.importorskip('mmflatten_lab.app.server').own_folder
CLASSIFIER = 'flatten-swin-nano-mixed_digits'


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        return taken.getsockname()[1]


@pytest.fixture(scope='module')
def server(tried):
    from mmflatten_lab.app.server import serve

    with serve([tried(CLASSIFIER)], free_port()) as page:
        yield page


@pytest.fixture
def tab(server, tmp_path):
    """Open the page in another tab."""
    return lambda: gradio_client.Client(
        server.local_url, verbose=False, analytics_enabled=False, download_files=str(tmp_path)
    )


def values(outputs) -> list:
    return [
        output.get('value') if isinstance(output, dict) and 'value' in output else output
        for output in outputs
    ]


def test_predict_endpoint_returns_drawings_and_tables(tab, picture):
    outputs = values(tab().predict(0.3, gradio_client.handle_file(picture()), api_name='/predict'))
    assert any('score' in output for output in outputs if isinstance(output, str))
    assert sum(str(output).endswith('.png') and Path(output).is_file() for output in outputs) == 3


def test_tabs_have_separate_states(tab, picture):
    wide, narrow = tab(), tab()
    for client, size in ((wide, (120, 96)), (narrow, (40, 30))):
        client.predict(
            0.3,
            gradio_client.handle_file(picture(f'{size[0]}.png', size, (9, 9))),
            api_name='/predict',
        )
    seen = [
        [
            output
            for output in values(client.predict(100, 5, 0, -1, api_name='/attend'))
            if isinstance(output, int)
        ]
        for client in (wide, narrow)
    ]
    assert 100 in seen[0] and 39 in seen[1] and 100 not in seen[1]


def test_server_listens_on_the_loopback_address_only(server):
    # another loopback address, on which a server for all addresses would answer
    with socket.socket() as other:
        assert other.connect_ex(('127.0.0.2', server.server_port)) != 0
    with socket.socket() as other:
        assert other.connect_ex(('127.0.0.1', server.server_port)) == 0
    assert server.share is False and not server.analytics_enabled


def test_port_in_use_is_named(server, weights_of, capsys):
    assert app([*weights_of(CLASSIFIER), '--device', 'cpu', '--port', str(server.server_port)]) == 1
    assert str(server.server_port) in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    'headers, status',
    [
        ({}, 200),
        ({'Host': 'localhost:{port}'}, 200),
        ({'Host': 'evil.example:{port}'}, 400),
        ({'Host': ''}, 400),
        ({'Origin': 'http://127.0.0.1:{port}'}, 200),
        ({'Origin': 'http://evil.example'}, 403),
        ({'Origin': 'null'}, 403),
        ({'Origin': 'http://127.0.0.1:1'}, 403),
        ({'Sec-Fetch-Site': 'cross-site'}, 403),
        (
            {
                'Sec-Fetch-Site': 'same-site',
                'Sec-Fetch-Mode': 'navigate',
                'Sec-Fetch-Dest': 'iframe',
            },
            403,
        ),
        (
            {
                'Sec-Fetch-Site': 'cross-site',
                'Sec-Fetch-Mode': 'navigate',
                'Sec-Fetch-Dest': 'document',
            },
            200,
        ),
    ],
)
def test_only_the_own_page_is_answered(server, headers, status):
    answer = httpx.get(
        server.local_url,
        headers={name: value.format(port=server.server_port) for name, value in headers.items()},
    )
    assert answer.status_code == status
    if status == 200:
        assert answer.headers['content-security-policy'] == "frame-ancestors 'none'"


def test_foreign_form_uploads_nothing(server):
    address, files = f'{server.local_url}gradio_api/upload', dict(files=('a.png', b'picture'))
    assert (
        httpx.post(address, files=files, headers={'Origin': 'http://evil.example'}).status_code
        == 403
    )
    assert (
        httpx.post(address, files=files, headers={'Sec-Fetch-Site': 'cross-site'}).status_code
        == 403
    )
    assert httpx.post(address, files=files).status_code == 200


@pytest.fixture
def usual_signals():
    usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {ending: signal.signal(ending, handler) for ending, handler in usual.items()}
    yield
    for ending, handler in before.items():
        signal.signal(ending, handler)


@pytest.mark.parametrize('ending', [signal.SIGINT, signal.SIGTERM])
def test_command_stops_on_signals_and_deletes_uploads(
    usual_signals, weights_of, picture, monkeypatch, capsys, ending
):
    port, uploads = free_port(), []

    def interrupt():
        with open(picture(), 'rb') as file:
            uploads.extend(
                httpx.post(
                    f'http://127.0.0.1:{port}/gradio_api/upload', files=dict(files=file)
                ).json()
            )
        assert Path(uploads[0]).is_file() and signal.getsignal(ending) != signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(ending)
        raise KeyboardInterrupt

    monkeypatch.setattr(
        command, 'threading', SimpleNamespace(Event=lambda: SimpleNamespace(wait=interrupt))
    )
    assert app([*weights_of(CLASSIFIER), '--device', 'cpu', '--port', str(port)]) == 130
    with socket.socket() as late:
        assert late.connect_ex(('127.0.0.1', port)) != 0
    assert not Path(uploads[0]).exists()
    assert f'http://127.0.0.1:{port}' in capsys.readouterr().out


@pytest.mark.parametrize('count', [1, 3, 6])
def test_number_of_models_is_checked(count, capsys):
    assert app(['word'] * count) == 1
    assert 'word' in capsys.readouterr().err.splitlines()[-1]


def test_stereo_with_another_task_is_rejected(weights_of, capsys):
    assert (
        app([*weights_of(CLASSIFIER), *weights_of('psmnet-tiny_digits-stereo'), '--device', 'cpu'])
        == 1
    )
    assert 'stereo' in capsys.readouterr().err.splitlines()[-1]


def test_missing_checkpoint_is_named(weights_of, capsys):
    assert app([weights_of(CLASSIFIER)[0], 'nowhere.pth']) == 1
    assert 'nowhere.pth' in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize('port', ['0', '65536', 'http'])
def test_invalid_port_exits_with_usage(port, capsys):
    with pytest.raises(SystemExit):
        app(['config.py', 'weights.pth', '--port', port])
    assert port in capsys.readouterr().err
