"""Python source of changes to a config that another one inherits."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WIDTH = 100
INDENT = 4
ABSENT = object()  # a field that the base does not have


class PythonSource(str):
    """Python expression in a config."""


class Edit(dict):
    """Changes inside a value of the base: new values, or further edits, by key or index."""

    def set(self, place: Sequence[str | int], value: Any) -> None:
        """Set the value at a place; the edits on the way to it are created."""
        edit = self
        for part in place[:-1]:
            edit = edit.setdefault(part, Edit())
        edit[place[-1]] = value

    def find(self, place: Sequence[str | int]) -> Any:
        """Return what was set at a place, `ABSENT` if nothing was."""
        found: Any = self
        for part in place:
            found = found.get(part, ABSENT) if isinstance(found, Edit) else ABSENT
        return found


class New(dict):
    """Fields that replace a dictionary of the base as a whole.

    Attributes:
        comments: text beside a field, by its name.
    """

    comments: Mapping[str, str] = {}


@dataclass
class Call:
    """An expression of several parts, such as `dict(a=1, b=2)`.

    Attributes:
        parts: (prefix such as `a=`, expression, comment) of each part.
        loop: of a comprehension, which has one part.
    """

    opening: str
    closing: str
    parts: list[tuple[str, Any, str]] = field(default_factory=list)
    loop: str = ''


def field_name(place: Sequence[str | int]) -> str:
    """Format a place in a config: `model.roi_head.bbox_head[0].num_classes`."""
    text = ''
    for part in place:
        text += f'[{part}]' if isinstance(part, int) else f'.{part}'
    return text.removeprefix('.')


def reference(place: Sequence[str | int]) -> str:
    """Return the expression of a value of the base in a config that inherits it."""
    text = '_base_'
    for part in place:
        text = _child(text, part)
    return text


def _child(text: str, part: str | int) -> str:
    # A key such as `items` would be the method.
    is_attribute = isinstance(part, str) and part.isidentifier() and not hasattr(dict, part)
    return f'{text}.{part}' if is_attribute else f'{text}[{part!r}]'


def assignment(name: str, change: Any, base: Mapping[str, Any], root: str = '') -> str:
    """Write `name = ...` for the change of a top-level field of the base.

    Args:
        root: folder that paths are relative to.
    """
    node = base.get(name, ABSENT)
    expression = _merged(change, node, reference([name]), root)
    prefix = f'{name} = '
    return prefix + _layout(expression, column=len(prefix), indent=0)


def _merged(change: Any, node: Any, text: str, root: str) -> Any:
    """Return the expression that MMEngine merges into the base's `node`, which `text` refers to."""
    if isinstance(change, New):
        return _new(change, root, delete=node is not ABSENT)
    if not isinstance(change, Edit) or not isinstance(node, Mapping):
        return edited(change, node, text, root)
    call = Call('dict(', ')')
    for key, value in change.items():
        child = node.get(key, ABSENT)
        call.parts.append((f'{key}=', _merged(value, child, _child(text, key), root), ''))
    return call


def edited(change: Any, node: Any, text: str, root: str = '') -> Any:
    """Return the expression of a changed value of the base.

    Args:
        change: an `Edit`, or a value that replaces `node`.
        text: expression of `node`.
    """
    if isinstance(change, New):
        return _new(change, root, delete=False)
    if not isinstance(change, Edit):
        return change if isinstance(change, Call) else source(change, root)
    if isinstance(node, (list, tuple)):
        return _edited_list(change, node, text, root)
    call = Call('dict(', ')')
    if node is ABSENT:
        node = {}
    else:
        call.parts.append(('', text, ''))
    for key, value in change.items():
        child = node.get(key, ABSENT)
        call.parts.append((f'{key}=', edited(value, child, _child(text, key), root), ''))
    return call


def _edited_list(change: Edit, items: Sequence[Any], text: str, root: str) -> Call:
    """Return a comprehension if all items change in the same way, else the list of items."""
    same = [edited(change.get(i, Edit()), item, 'item', root) for i, item in enumerate(items)]
    if len(change) == len(items) > 1 and all(item == same[0] for item in same):
        return Call('[', ']', [('', same[0], '')], loop=f'for item in {text}')
    call = Call('[', ']')
    start = 0  # of the unchanged items
    for index in sorted(change):
        if index > start:
            call.parts.append((f'*{text}[{start}:{index}]', '', ''))
        call.parts.append(('', edited(change[index], items[index], f'{text}[{index}]', root), ''))
        start = index + 1
    if start < len(items):
        call.parts.append((f'*{text}[{start}:]', '', ''))
    return call


def _new(fields: New, root: str, delete: bool) -> Call:
    call = Call('dict(', ')')
    if delete:  # replaces the base's dictionary instead of merging
        call.parts.append(('_delete_=', 'True', ''))
    for key, value in fields.items():
        expression = value if isinstance(value, Call) else source(value, root)
        call.parts.append((f'{key}=', expression, fields.comments.get(key, '')))
    return call


def source(value: Any, root: str = '') -> str:
    """Format a value as Python: dictionaries as `dict(...)`, paths relative to `root`."""
    if isinstance(value, dict):
        arguments = [f'{key}={source(item, root)}' for key, item in value.items()]
        return f'dict({", ".join(arguments)})'
    if isinstance(value, Path):
        value = Path(os.path.relpath(value, root or '/')).as_posix()
    return str(value) if isinstance(value, PythonSource) else repr(value)


def _layout(expression: Any, column: int, indent: int) -> str:
    """Format an expression that begins at `column` of a line with this indentation."""
    if not isinstance(expression, Call):
        return str(expression)
    line = _one_line(expression)
    if not _has_comments(expression) and column + len(line) < WIDTH:
        return line
    margin = ' ' * (indent + INDENT)
    lines = [expression.opening]
    for prefix, part, comment in expression.parts:
        start = f'{margin}{prefix}'
        text = _layout(part, column=len(start), indent=len(margin))
        end = '' if expression.loop else ','
        line = f'{start}{text}{end}'
        if comment and len(line.splitlines()[-1]) + len(comment) + 4 > WIDTH:
            lines.append(f'{margin}# {comment}')
        elif comment:
            line += f'  # {comment}'
        lines.append(line)
    if expression.loop:
        lines.append(f'{margin}{expression.loop}')
    lines.append(' ' * indent + expression.closing)
    return '\n'.join(lines)


def _one_line(expression: Any) -> str:
    if not isinstance(expression, Call):
        return str(expression)
    parts = [f'{prefix}{_one_line(part)}' for prefix, part, _ in expression.parts]
    loop = f' {expression.loop}' if expression.loop else ''
    return f'{expression.opening}{", ".join(parts)}{loop}{expression.closing}'


def _has_comments(expression: Any) -> bool:
    if not isinstance(expression, Call):
        return False
    return any(comment or _has_comments(part) for _, part, comment in expression.parts)
