"""Local server of the page: who may ask, and where uploads lie."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import gradio as gr
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmflatten_lab.app.page import CSS, THEME, Page
from mmflatten_lab.app.trial import TriedModel

HOST = '127.0.0.1'
TABS = 8  # number of browser tabs whose trials stay in memory
WAITING = 16  # predictions that may wait
UPLOAD_BYTES = 100 * 2**20  # of one file; 16 million pixels with 16 bits have 96 MB
ALONE = ((b'content-security-policy', b"frame-ancestors 'none'"), (b'x-frame-options', b'DENY'))


@contextmanager
def serve(models: Sequence[TriedModel], port: int | None = None) -> Iterator[gr.Blocks]:
    """Serve the page in background threads, by default at the first free port from 7860, until the
    context ends.

    Only pages of this server may use it (`OwnPageOnly`), and uploads lie in a folder of its own
    (`own_folder`). Raises ValueError if the port is in use.
    """
    with own_folder():
        blocks = Page(models).blocks.queue(max_size=WAITING)
        try:
            blocks.launch(
                server_name=HOST,
                server_port=port,
                share=False,
                prevent_thread_lock=True,
                quiet=True,
                ssr_mode=False,
                enable_monitoring=False,
                footer_links=[],
                state_session_capacity=TABS,
                theme=THEME,
                css=CSS,
                max_file_size=UPLOAD_BYTES,
                app_kwargs=dict(
                    middleware=[
                        Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, 'localhost']),
                        Middleware(OwnPageOnly),
                    ]
                ),
            )
        except OSError as error:
            raise ValueError(f'--port: not available ({error}), got {port}.') from error
        try:
            yield blocks
        finally:
            blocks.close(verbose=False)


@contextmanager
def own_folder() -> Iterator[Path]:
    """Make a folder for all temporary files of this process, Gradio's too, and delete it at the
    end.
    """
    with tempfile.TemporaryDirectory(prefix='mmflatten-app-', ignore_cleanup_errors=True) as folder:
        try:
            tempfile.tempdir = os.environ['GRADIO_TEMP_DIR'] = folder
            yield Path(folder)
        finally:
            tempfile.tempdir = None
            os.environ.pop('GRADIO_TEMP_DIR', None)


class OwnPageOnly:
    """ASGI middleware that refuses what other sites ask through a browser.

    Browsers say in `Origin` and `Sec-Fetch-Site` which page asks. Programs on this computer need
    not, so that `gradio_client` works. The page cannot be shown inside another one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope['type'] == 'lifespan':
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        problem = self._refusal(headers, scope.get('method', ''))
        if scope['type'] == 'websocket':  # Gradio uses none
            return await send({'type': 'websocket.close', 'code': 1008})
        if problem:
            return await PlainTextResponse(problem, 403)(scope, receive, send)

        async def send_alone(message: Message) -> None:
            if message['type'] == 'http.response.start':
                message['headers'] = [*message['headers'], *ALONE]
            await send(message)

        return await self.app(scope, receive, send_alone)

    def _refusal(self, headers: Headers, method: str) -> str:
        """Return a reason, which is '' for a request that may pass."""
        if (
            headers.get('origin', f'http://{headers.get("host")}')
            != f'http://{headers.get("host")}'
        ):
            return f'A page of {headers["origin"]} may not use this server.'
        opened = (headers.get('sec-fetch-mode'), headers.get('sec-fetch-dest')) == (
            'navigate',
            'document',
        )
        if headers.get('sec-fetch-site', 'none') not in ('same-origin', 'none') and not (
            opened and method == 'GET'
        ):
            return 'Another page may not use this server.'
        return ''
