"""Controls of a study: levels without attention, which show whether a task needs any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

NONE = 'none'
CONTROLS = {NONE: 'NoAttention', 'mean': 'MeanAttention'}
# fields that hold the config of a mixer
ATTENTION = re.compile(r'.*\.(linear_attention|mixer|mixers\.[A-Z])')


def add_controls(
    levels: dict[str, dict[str, Any]], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Add the controls that the levels of the first factor lack. A level of a control's name takes
    its place.

    Raises:
        ValueError: the levels do not all set an attention, so that none can be left out.
    """
    missing = [name for name in names if name not in levels]
    if not missing:
        return levels
    first, *others = [attention_fields(options) for options in levels.values()]
    in_all = set(first).intersection(*others)
    shared = [field for field in first if field in in_all]
    if not shared:
        raise ValueError(
            'controls: expected levels that all set an attention'
            f' (model.backbone.linear_attention), got {", ".join(levels)}. Add levels'
            f' {" and ".join(missing)}, or write in `controls` why there are none.'
        )
    controlled = dict(levels)
    for name in missing:
        controlled[name] = {shared[0]: {'_delete_': True, 'type': CONTROLS[name]}}
    return controlled


def attention_fields(options: Mapping[str, Any], prefix: str = '') -> list[str]:
    """Fields of the config with an attention, the outer ones first."""
    found = []
    for name, value in options.items():
        if not isinstance(value, Mapping):
            continue
        path = prefix + name
        if ATTENTION.fullmatch(path) and 'type' in value:
            found.append(path)
        found += attention_fields(value, f'{path}.')
    return found
