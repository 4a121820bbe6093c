"""Files of YAML."""

import os
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

import yaml

from mmflatten.untrusted.files import UnusableFile, read_text
from mmflatten.untrusted.json_files import MAX_DIGITS

MAX_BYTES = 2**20
MAX_VALUES = 100_000  # with aliases written out


def read_yaml(path: str | os.PathLike) -> Any:
    """Read YAML of at most `MAX_BYTES`, and of at most `MAX_VALUES` with its aliases written out.

    Raises UnusableFile; the message has the line, if it is known.
    """
    text = read_text(path, MAX_BYTES)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _num_values(node, {}) > MAX_VALUES:
            raise yaml.YAMLError(f'more than {MAX_VALUES} values, aliases included')
        return loader.construct_document(node)
    except RecursionError as error:
        raise UnusableFile(
            f'{path}: expected YAML, got values that are nested too deeply.'
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, 'problem_mark', None)
        where = f'{path}:{mark.line + 1}' if mark else path
        problem = str(getattr(error, 'problem', error))[:200]
        raise UnusableFile(f'{where}: expected YAML, got {problem}.') from error


def _num_values(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Count the values of a node, each alias as what it stands for.

    Args:
        known: numbers of the collections that were counted before.
    """
    if isinstance(node, yaml.ScalarNode):
        _require_short_number(node)
        return 1
    if node not in known:
        known[node] = 1 + sum(_num_values(part, known) for part in _parts(node))
    return known[node]


def _parts(node: yaml.CollectionNode) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return chain.from_iterable(node.value)
    return node.value


def _require_short_number(node: yaml.ScalarNode) -> None:
    """Python takes long to convert a number of very many digits."""
    is_text = node.tag.endswith(':str')
    if not is_text and len(node.value) > MAX_DIGITS:
        raise yaml.MarkedYAMLError(
            problem=f'a number of {len(node.value)} digits', problem_mark=node.start_mark
        )


class _Loader(yaml.SafeLoader):
    """YAML without repeated keys, where 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        names = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == '<<':
                continue
            if key.value in names:
                raise yaml.MarkedYAMLError(
                    problem=f'{key.value} is repeated', problem_mark=key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'), list('-+0123456789')
)
