"""Checks of a pickle before it is loaded: the names of PyTorch in it, and how it uses them.

The pickle is followed opcode by opcode without making any of its objects. Of each value on the
stack, only what the checks need is kept.
"""

from __future__ import annotations

import pickletools
from typing import Any, BinaryIO, NamedTuple

# No public function lists what PyTorch allows by itself.
from torch._weights_only_unpickler import _get_allowed_globals, get_globals_in_pkl

from mmflatten.text import shorten

MAX_TUPLE = 100_000  # items of a tuple, with those of the tuples in it
MAX_NAMES = 100  # of classes and functions; checkpoints of official code have up to 20

_DTYPES = (
    *('bfloat16', 'bool', 'complex64', 'complex128', 'float16', 'float32', 'float64'),
    *('float8_e4m3fn', 'float8_e4m3fnuz', 'float8_e5m2', 'float8_e5m2fnuz'),
    *('int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64'),
)
_STORAGES = (
    *('BFloat16', 'Bool', 'ComplexDouble', 'ComplexFloat', 'Double', 'Float', 'Half'),
    *('Byte', 'Char', 'Int', 'Long', 'Short'),
)
# Names that PyTorch knows and a file may use: what the checkpoints of PyTorch, MMEngine, timm, Meta
# and the official repositories hold. Tensors with attributes, quantised and sparse ones are not
# among them.
ALLOWED = frozenset(
    {
        '_codecs.encode',  # bytes, in protocol 2
        'builtins.bytearray',
        'builtins.complex',
        'builtins.set',
        'collections.Counter',  # milestones of a learning rate
        'collections.OrderedDict',
        'torch.Size',
        'torch.device',
        'torch._utils._rebuild_parameter',
        'torch._utils._rebuild_tensor_v2',
        'torch._utils._rebuild_tensor_v3',  # of types without a class of storages, such as uint16
        'torch.serialization._get_layout',  # makes torch.strided from its name
        'torch.storage.UntypedStorage',
        *(f'torch.{name}' for name in _DTYPES),
        *(f'torch.{name}Storage' for name in _STORAGES),
    }
)


class _Item(NamedTuple):
    """What is known of a value on the stack.

    Attributes:
        size: of a tuple, its items and those of the tuples in it; 1 for all else.
        value: of a constant; of a class or function, its name.
        last: of a tuple, the value of its last item.
    """

    size: int = 1
    value: Any = ...
    last: Any = ...


_STORAGE = _Item(value='a storage of the file')


def check_pickle(pickled: BinaryIO) -> set[str]:
    """Check the pickle that begins here, and leave the file behind it.

    Returns:
        The names of its classes and functions.

    Raises:
        ValueError: a name of PyTorch is not allowed, there are too many names, or a use is not that
            of `torch.save`: tuples in each other that Python could not hash, text that is encoded
            slowly, a storage that does not come from the file, or a part of one.
    """
    begin = pickled.tell()
    names = get_globals_in_pkl(pickled)
    if len(names) > MAX_NAMES:
        raise ValueError(
            f'it names {len(names)} classes and functions, and {MAX_NAMES} are the most'
        )
    refused = sorted((names & _get_allowed_globals().keys()) - ALLOWED)
    if refused:
        raise ValueError(
            f'it names {shorten(refused, 2)}, and a file may hold plain tensors, arrays, numbers'
            ' and text only'
        )
    pickled.seek(begin)
    _follow(pickled)
    return names


def _follow(pickled: BinaryIO) -> None:
    """Follow the stack of a pickle, and check each call, state, tuple and reference."""
    stack: list[_Item] = []
    marks: list[int] = []
    memo: dict[Any, _Item] = {}
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name == 'MARK':
            marks.append(len(stack))
            continue
        if opcode.name in ('BINGET', 'LONG_BINGET'):
            stack.append(memo[argument])
            continue
        if opcode.name in ('BINPUT', 'LONG_BINPUT'):
            memo[argument] = stack[-1]
            continue
        before = opcode.stack_before
        if pickletools.markobject in before:  # all values since the mark, and those before it
            start = marks.pop() - (len(before) - 2)
        else:
            start = len(stack) - len(before)
        items = stack[max(start, 0) :]
        del stack[max(start, 0) :]
        made = _made(opcode.name, argument, items)
        stack.extend([made] * len(opcode.stack_after))


def _made(opcode: str, argument: Any, items: list[_Item]) -> _Item:
    """Return what an opcode makes of the values that it takes from the stack."""
    if opcode.startswith('TUPLE'):
        return _made_tuple(items)
    if opcode == 'BINPERSID':
        _require_whole_storage(items)
        return _STORAGE
    if opcode in ('REDUCE', 'NEWOBJ'):
        _require_known_call(items)
        return _Item()
    if opcode == 'BUILD':
        if items[:1] == [_STORAGE]:
            raise ValueError('it gives a storage a state')
        return items[0] if items else _Item()
    if opcode == 'NONE':
        return _Item(value=None)
    return _Item() if argument is None else _Item(value=argument)


def _made_tuple(items: list[_Item]) -> _Item:
    """The hash of a tuple is that of all its items, without a bound of its depth: as a key, a
    million tuples in each other end the process, and sixty that hold the one before twice never
    end.
    """
    size = 1 + sum(item.size for item in items)
    if size > MAX_TUPLE:
        raise ValueError(f'it has tuples in each other of more than {MAX_TUPLE} items')
    return _Item(size=size, last=items[-1].value if items else ...)


def _require_whole_storage(items: list[_Item]) -> None:
    """In the older format, the last item of a reference may name a part of the storage. PyTorch
    would give the part a pointer into the whole one, whose memory moves if a tensor makes it
    larger. `torch.save` writes None there, and in the newer format the number of values.
    """
    last = items[-1].last if items else ...
    if last is not None and type(last) is not int:
        raise ValueError('it refers to a part of a storage')


def _require_known_call(items: list[_Item]) -> None:
    """Storages are read, never made. A function that a name stands for is always one constant of
    the pickle, as nothing else on the stack can be called.
    """
    function, arguments = (items + [_Item(), _Item()])[:2]
    if function.value == 'torch.storage UntypedStorage':
        raise ValueError('it makes a storage whose values are not in the file')
    # Other codecs than that of bytes take long, such as Punycode.
    if function.value == '_codecs encode' and arguments.last != 'latin1':
        raise ValueError('it encodes text in another way than Latin-1')
