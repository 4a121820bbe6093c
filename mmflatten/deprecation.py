"""Old names that still work, with a warning that gives the new name.

A change of a public name adds an entry to `RENAMED`. It stays for one minor release at least:
docs/compatibility.md has the rules. `tools/maintain/public_names.py` rejects entries that have
ended.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal['class', 'config', 'command', 'option', 'function']


@dataclass(frozen=True)
class Renamed:
    """The new name of something public.

    Attributes:
        name: new name.
        until: the version that removes the old name, such as `0.4.0`.
    """

    name: str
    until: str


# Old name -> new name. Classes are those of the registries, without scope; functions are those of
# `mmflatten.apis`; the key of an option is `COMMAND --OPTION`, its new name `--OPTION`.
RENAMED: Mapping[Kind, dict[str, Renamed]] = {
    'class': {},
    'config': {},
    'command': {},
    'option': {},
    'function': {},
}


def current_name(kind: Kind, name: str) -> str:
    """Return the new name of a renamed thing, with a `FutureWarning`; other names are unchanged."""
    entry = RENAMED[kind].get(name)
    if entry is None:
        return name
    warnings.warn(
        f'{kind} {name}: renamed to {entry.name}. Use the new name; the old one works until'
        f' mmflatten {entry.until}.',
        FutureWarning,
        stacklevel=3,
    )
    return entry.name


def current_options(command: str, words: Sequence[str]) -> list[str]:
    """Return the words of a command line with the new names of its options."""
    current = []
    for word in words:
        option, equals, value = word.partition('=')
        key = f'{command} {option}'
        if key in RENAMED['option']:
            option = current_name('option', key)
        current.append(f'{option}{equals}{value}')
    return current
