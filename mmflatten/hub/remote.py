"""Models on the Hugging Face hub: download and upload, by the client `huggingface_hub`."""
import os
import re
from pathlib import Path
from typing import Any

from mmflatten.console import error_text
from mmflatten.hub.config_data import HubError
from mmflatten.hub.folder import CARD, FACTS, NEEDED, read_published, shipped

SCHEME = 'hf://'
_REPOSITORY = re.compile(r'(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?')


def is_published(name: str) -> bool:
    """Return True for an address on the hub, the name of a model in the package and the folder of a model."""
    return name.startswith(SCHEME) or name in shipped() or Path(name, FACTS).is_file()


def locate(name: str | Path) -> Path:
    """Return the folder of a published model, downloaded if it is on the hub.

    Args:
        name: a folder, the name of a model in the package (`shipped`), or `user/model` on the hub, also as
            `hf://user/model`; `@REVISION` may follow.

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
        raise HubError(f'model: expected a folder, user/model on the hub or one of {", ".join(shipped())}, got {name}.')
    return _download(parts[1], parts[2])


def _download(repository: str, revision: str | None) -> Path:
    """Download what a prediction needs into the client's cache. An interrupted download continues."""
    client = _client()
    try:
        return Path(client.snapshot_download(repository, revision=revision, allow_patterns=list(NEEDED)))
    except Exception as error:  # of several libraries: HTTP, cache, names
        raise HubError(f'{SCHEME}{repository}: cannot be downloaded: {_reason(error)}. Check the name and the '
                       'connection; the next call continues.') from error


def push_to_hub(folder: str | Path, repository: str, private: bool = False) -> str:
    """Upload a published model, after a check of its files. Returns the address of the commit.

    The token is that of `hf auth login` or `HF_TOKEN`.

    Args:
        repository: `user/model`, which is created if it does not exist.
        private: create it as a private one.

    Raises:
        HubError: the folder is not a published model, or the upload failed.
    """
    names = [FACTS, CARD, *read_published(folder).facts['files']]
    if _REPOSITORY.fullmatch(repository) is None or '@' in repository:
        raise HubError(f'repository: expected user/model, got {repository}.')
    hub = _client().HfApi()
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        return str(hub.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=names,
                                     commit_message='Publish with mmflatten'))
    except Exception as error:
        raise HubError(f'{SCHEME}{repository}: cannot be uploaded: {_reason(error)}. Check the token (hf auth login) '
                       'and the connection.') from error


def _client() -> Any:
    os.environ.setdefault('HF_HUB_DISABLE_TELEMETRY', '1')  # the client would send the versions of other libraries
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError('huggingface_hub is required for models on the hub. Install mmflatten[hub].') from error
    return huggingface_hub


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    return f'{type(cause).__name__}: {error_text(cause)[:200].rstrip(".")}'
