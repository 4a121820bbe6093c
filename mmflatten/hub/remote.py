"""Download of models from the Hugging Face hub, by the client `huggingface_hub`."""

import os
import re
import time
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

from mmflatten.console import error_text
from mmflatten.files import read_json
from mmflatten.hub.folder import facts_of, read_facts, read_published, shipped
from mmflatten.predict.predictor import Predictor
from mmflatten.untrusted.published import CONFIG, FACTS, LIMITS, WEIGHTS, FileFacts, HubError

SCHEME = 'hf://'
_REPOSITORY = re.compile(r'(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?', re.ASCII)
_COMMIT = re.compile('[0-9a-f]{40}')
_SILENCE, _SLOWEST = 10, 2**14  # seconds that a server may be silent, and bytes a second


class _Revision(TypedDict):
    """Field of the hub's answer on a revision."""

    sha: str


def is_published(name: str) -> bool:
    """Return True for an address on the hub, the name of a model in the package and the folder of a
    model.
    """
    return name.startswith(SCHEME) or name in shipped() or Path(name, FACTS).is_file()


def locate(name: str | Path) -> Path:
    """Return the folder of a published model, downloaded if it is on the hub.

    Args:
        name: a folder, the name of a model in the package (`shipped`), or `user/model` on the hub,
            also as `hf://user/model`; `@REVISION` may follow.

    Raises:
        HubError: there is no such model, or it cannot be downloaded.
    """
    name = str(name)
    if name in shipped() and not Path(name, FACTS).is_file():
        return shipped()[name]
    if Path(name).is_dir():
        return Path(name)
    parts = _REPOSITORY.fullmatch(name.removeprefix(SCHEME))
    if parts is None:
        raise HubError(
            f'model: expected a folder, user/model on the hub or one of {", ".join(shipped())}, got'
            f' {name}.'
        )
    return _download(parts[1], parts[2] or 'main')


def from_pretrained(name: str | Path, device: str | None = None) -> Predictor:
    """Load a published model, named as in `locate`:
    `from_pretrained('garment-classifier')('shoe.png').pred_score`.

    Raises HubError if the model is missing, damaged or not accepted.
    """
    published = read_published(locate(name))
    return Predictor(published.config, published.weights, device)


def _download(repository: str, revision: str) -> Path:
    """Download what a prediction needs, into a folder of the client's cache. An interrupted
    download continues.

    The client's own download would write to paths that the server's answers name. Here the commit
    is checked, and nothing else that a server says becomes part of a path.
    """
    client, address, place = _client(), f'{SCHEME}{repository}', quote(repository, safe='')
    try:
        answers = client.cached_assets_path('mmflatten', place, 'revisions')
        with client.utils.WeakFileLock(answers / '.lock'):
            answer = answers / quote(revision, safe='')
            if not client.constants.HF_HUB_OFFLINE:
                _fetch(
                    client,
                    f'{client.constants.ENDPOINT}/api/models/{repository}/revision/{answer.name}',
                    answer,
                )
            commit = read_json(answer, _Revision, ('sha',)).get('sha', '')
            if not _COMMIT.fullmatch(commit):
                raise HubError(
                    f'{address}: expected a commit of 40 hexadecimal digits, got {commit[:80]!r}. '
                    'A revision that was never downloaded requires a connection.'
                )
            folder = client.cached_assets_path('mmflatten', place, commit)
            for name in (FACTS, CONFIG, WEIGHTS):  # what a prediction needs
                file = None if name == FACTS else read_facts(folder).files.get(name)
                path = folder / name
                # hashed when it is read
                if not path.is_file() or file and path.stat().st_size != file.bytes:
                    _fetch(client, client.hf_hub_url(repository, name, revision=commit), path, file)
        return folder
    except HubError:
        raise
    except Exception as error:  # of several libraries: HTTP, cache, names
        cause = error.__cause__ or error
        raise HubError(
            f'{address}: cannot be downloaded: {type(cause).__name__}:'
            f' {error_text(cause)[:200].rstrip(".")}. Check the name and the connection; the next'
            ' call continues.'
        ) from error


def _fetch(client: Any, url: str, path: Path, file: FileFacts | None = None) -> None:
    """Write the answer of an address to a file that is complete or absent: at most its bytes, with
    its SHA-256.

    Raises:
        OSError: the answer is another one, is larger than declared, or comes too slowly.
    """
    part, size = path.with_name(f'{path.name}.part'), file.bytes if file else LIMITS[FACTS]
    start = part.stat().st_size if file and part.exists() else 0
    headers = client.utils.build_hf_headers() | {'Accept-Encoding': 'identity'}
    if 0 < start < size:
        headers['Range'] = f'bytes={start}-'
    end = time.monotonic() + 2 * _SILENCE + size / _SLOWEST
    with client.utils.get_session().stream(
        'GET', url, headers=headers, timeout=_SILENCE
    ) as response:
        if response.status_code not in (200, 206):
            raise OSError(f'{url}: the server answers {response.status_code}')
        with (
            open(
                part, 'ab' if response.status_code == 206 and 'Range' in headers else 'wb'
            ) as output,
            client.utils.tqdm(
                total=size, unit='B', unit_scale=True, desc=path.name, disable=None
            ) as bar,
        ):
            for chunk in response.iter_raw():
                if output.tell() + len(chunk) > size or time.monotonic() > end:
                    raise OSError(
                        f'{url}: the server sends more than {size} bytes, or less than {_SLOWEST} a'
                        ' second'
                    )
                bar.update(output.write(chunk))
    if file and (found := facts_of(part)) != file:
        if found.bytes == size:
            part.unlink()
        raise OSError(f'{url}: the server sends another file than {FACTS} declares')
    os.replace(part, path)


def _client() -> Any:
    # the client would send the versions of other libraries
    os.environ.setdefault('HF_HUB_DISABLE_TELEMETRY', '1')
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError(
            'huggingface_hub is required for models on the hub. Install mmflatten[hub].'
        ) from error
    return huggingface_hub
