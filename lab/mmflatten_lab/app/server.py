"""Local server of the page: who may ask, how much, and where uploads lie."""
import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import gradio as gr
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
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
UPLOAD_SECONDS = 120.
FOLDER_BYTES = 2**30  # of all uploads and drawings
PREFIX = 'mmflatten-app-'
ALONE = ((b'content-security-policy', b"frame-ancestors 'none'"), (b'x-frame-options', b'DENY'))


@contextmanager
def serve(models: Sequence[TriedModel], port: int | None = None) -> Iterator[gr.Blocks]:
    """Serve the page in background threads, by default at the first free port from 7860, until the context ends.

    Only pages of this server may use it (`OwnPageOnly`), and uploads lie in a folder of its own (`own_folder`).

    Raises:
        ValueError: the port is in use.
    """
    with own_folder() as folder:
        blocks = Page(models).blocks.queue(max_size=WAITING)
        try:
            blocks.launch(server_name=HOST, server_port=port, share=False, prevent_thread_lock=True, quiet=True,
                          ssr_mode=False, enable_monitoring=False, footer_links=[], state_session_capacity=TABS,
                          theme=THEME, css=CSS, max_file_size=UPLOAD_BYTES, app_kwargs=dict(middleware=[
                              Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, 'localhost']),
                              Middleware(OwnPageOnly, folder=folder)]))
        except OSError as error:
            raise ValueError(f'--port: not available ({error}), got {port}.') from error
        try:
            yield blocks
        finally:
            blocks.close(verbose=False)


@contextmanager
def own_folder() -> Iterator[Path]:
    """Make a folder for all temporary files of this process, Gradio's too, and delete it at the end.

    A lock beside it ends with the process. Folders without a locked lock belong to killed processes and are deleted.
    """
    descriptor, lock = tempfile.mkstemp('.lock', PREFIX)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # before the folder exists
    folder = Path(lock).with_suffix('')
    before = tempfile.tempdir, os.environ.get('GRADIO_TEMP_DIR')
    try:
        _delete_left(folder.parent)
        folder.mkdir(mode=0o700)
        tempfile.tempdir = os.environ['GRADIO_TEMP_DIR'] = str(folder)
        yield folder
    finally:
        tempfile.tempdir = before[0]
        os.environ.pop('GRADIO_TEMP_DIR', None)
        if before[1] is not None:
            os.environ['GRADIO_TEMP_DIR'] = before[1]
        shutil.rmtree(folder, ignore_errors=True)
        os.unlink(lock)
        os.close(descriptor)


def _delete_left(root: Path) -> None:
    for folder in filter(Path.is_dir, root.glob(f'{PREFIX}*')):
        lock = folder.with_suffix('.lock')
        with suppress(OSError), open(lock, 'rb') as file:  # of another user, or just deleted
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink()


class OwnPageOnly:
    """ASGI middleware that refuses what other sites ask through a browser, and uploads that are too large or slow.

    Browsers say in `Origin` and `Sec-Fetch-Site` which page asks. Programs on this computer need not, so that
    `gradio_client` works. The page cannot be shown inside another one.
    """

    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self.app, self.folder = app, folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope['type'] == 'lifespan':
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        status, problem = self._refusal(headers, scope.get('method', ''))
        if scope['type'] == 'websocket':  # Gradio uses none
            return await send({'type': 'websocket.close', 'code': 1008})
        if problem:
            return await PlainTextResponse(problem, status)(scope, receive, send)

        async def send_alone(message: Message) -> None:
            if message['type'] == 'http.response.start':
                message['headers'] = [*message['headers'], *ALONE]
            await send(message)

        return await self.app(scope, _limited(receive), send_alone)

    def _refusal(self, headers: Headers, method: str) -> tuple[int, str]:
        """Return a status and a reason, which is '' for a request that may pass."""
        if headers.get('origin', f'http://{headers.get("host")}') != f'http://{headers.get("host")}':
            return 403, f'A page of {headers["origin"]} may not use this server.'
        opened = (headers.get('sec-fetch-mode'), headers.get('sec-fetch-dest')) == ('navigate', 'document')
        if headers.get('sec-fetch-site', 'none') not in ('same-origin', 'none') and not (opened and method == 'GET'):
            return 403, 'Another page may not use this server.'
        length = headers.get('content-length', '0')
        if not length.isdecimal() or int(length) > UPLOAD_BYTES:
            return 413, f'Expected at most {UPLOAD_BYTES // 2**20} MiB.'
        if method == 'POST' and _bytes_in(self.folder) > FOLDER_BYTES:
            return 507, f'Uploads have more than {FOLDER_BYTES // 2**20} MiB. Restart the command to delete them.'
        return 200, ''


def _bytes_in(folder: Path) -> int:
    """Add up the files of a folder, of which some may just be deleted."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _limited(receive: Receive) -> Receive:
    """Limit the bytes of a request, whatever its header says, and the time until it is complete."""
    end, left, complete = asyncio.get_running_loop().time() + UPLOAD_SECONDS, UPLOAD_BYTES, False

    async def receive_limited() -> Message:
        nonlocal left, complete
        if complete:  # what follows is the end of the connection
            return await receive()
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408) from error
        left -= len(message.get('body', b''))
        complete = not message.get('more_body', False)
        if left < 0:
            raise HTTPException(413)
        return message

    return receive_limited
