"""Download of models from the Hugging Face hub, by the client `huggingface_hub`."""

import os
import re
import time
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

from mmflatten.console import error_text
from mmflatten.hub.folder import facts_of, read_facts, read_published, shipped
from mmflatten.predict.predictor import Predictor
from mmflatten.untrusted.json_files import read_json
from mmflatten.untrusted.published import CONFIG, FACTS, LIMITS, WEIGHTS, FileFacts, HubError

SCHEME = 'hf://'
_REPOSITORY = re.compile(r'(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?', re.ASCII)
_COMMIT = re.compile('[0-9a-f]{40}')
_SILENCE = 10  # seconds without data after which a download aborts
_SLOWEST = 2**14  # bytes a second, below which it aborts
_OK, _PARTIAL_CONTENT = 200, 206  # status of an answer


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
    """Download the files that a prediction needs into a folder of the client's cache. An
    interrupted download continues.

    The client's own download writes to paths that the server's answers contain. Here the only part
    of a path from the server is the commit, which is checked.
    """
    client = _client()
    address, place = f'{SCHEME}{repository}', quote(repository, safe='')
    try:
        answers = client.cached_assets_path('mmflatten', place, 'revisions')
        # One download of a repository at a time, because partial files have fixed names.
        with client.utils.WeakFileLock(answers / '.lock'):
            commit = _commit_of(client, repository, answers / quote(revision, safe=''))
            folder = client.cached_assets_path('mmflatten', place, commit)
            for name in (FACTS, CONFIG, WEIGHTS):
                file = None if name == FACTS else read_facts(folder).files.get(name)
                if not _is_complete(folder / name, file):
                    url = client.hf_hub_url(repository, name, revision=commit)
                    _fetch(client, url, folder / name, file)
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


def _commit_of(client: Any, repository: str, answer: Path) -> str:
    """Return the commit of a revision.

    Args:
        answer: file for the hub's answer, whose name is the quoted revision. Offline, the last
            answer is used.
    """
    if not client.constants.HF_HUB_OFFLINE:
        revisions = f'{client.constants.ENDPOINT}/api/models/{repository}/revision'
        _fetch(client, f'{revisions}/{answer.name}', answer)
    commit = read_json(answer, _Revision, ('sha',)).get('sha', '')
    if not _COMMIT.fullmatch(commit):
        raise HubError(
            f'{SCHEME}{repository}: expected a commit of 40 hexadecimal digits, got'
            f' {commit[:80]!r}. A revision that was never downloaded requires a connection.'
        )
    return commit


def _is_complete(path: Path, file: FileFacts | None) -> bool:
    """Compare the size alone: `read_published` compares the SHA-256."""
    if not path.is_file():
        return False
    return file is None or path.stat().st_size == file.bytes


def _fetch(client: Any, url: str, path: Path, file: FileFacts | None = None) -> None:
    """Download an address to a file, which is complete or absent afterwards.

    Args:
        file: declared size and SHA-256. None for at most `LIMITS[FACTS]` bytes of any content.

    Raises:
        OSError: the content differs from the declared one, is larger, or comes too slowly.
    """
    part = path.with_name(f'{path.name}.part')
    limit = LIMITS[FACTS] if file is None else file.bytes
    _write_part(client, url, part, limit, continues=file is not None, label=path.name)
    if file is not None:
        found = facts_of(part)
        if found != file:
            if found.bytes == file.bytes:  # continuing it cannot mend it
                part.unlink()
            raise OSError(f'{url}: the server sends another file than {FACTS} declares')
    os.replace(part, path)


def _write_part(
    client: Any, url: str, part: Path, limit: int, *, continues: bool, label: str
) -> None:
    """Download an address to a partial file.

    Args:
        limit: most bytes of the file.
        continues: ask for what follows the present content of the file.
        label: of the progress bar.
    """
    headers = client.utils.build_hf_headers() | {'Accept-Encoding': 'identity'}
    start = part.stat().st_size if continues and part.exists() else 0
    if 0 < start < limit:
        headers['Range'] = f'bytes={start}-'
    end = time.monotonic() + 2 * _SILENCE + limit / _SLOWEST
    session = client.utils.get_session()
    with session.stream('GET', url, headers=headers, timeout=_SILENCE) as response:
        if response.status_code not in (_OK, _PARTIAL_CONTENT):
            raise OSError(f'{url}: the server answers {response.status_code}')
        # A server may ignore the range and send the whole file.
        appends = response.status_code == _PARTIAL_CONTENT and 'Range' in headers
        bar = client.utils.tqdm(total=limit, unit='B', unit_scale=True, desc=label, disable=None)
        with open(part, 'ab' if appends else 'wb') as output, bar:
            for chunk in response.iter_raw():
                if output.tell() + len(chunk) > limit or time.monotonic() > end:
                    raise OSError(
                        f'{url}: the server sends more than {limit} bytes, or less than {_SLOWEST}'
                        ' a second'
                    )
                bar.update(output.write(chunk))


def _client() -> Any:
    # Otherwise the client sends the versions of installed libraries.
    os.environ.setdefault('HF_HUB_DISABLE_TELEMETRY', '1')
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError(
            'huggingface_hub is required for models on the hub. Install mmflatten[hub].'
        ) from error
    return huggingface_hub
