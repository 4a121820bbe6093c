"""Checks of a pickle before it is loaded: the names of PyTorch in it, and how it uses them.

The pickle is followed opcode by opcode without making any of its objects. Of each value on the
stack, only what the checks need is kept.
"""

from __future__ import annotations

import pickletools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, BinaryIO

from torch._utils import IMPORT_MAPPING, NAME_MAPPING

# No public function lists what PyTorch allows by itself.
from torch._weights_only_unpickler import _get_allowed_globals, get_globals_in_pkl

from mmflatten.text import clip, shorten

MAX_TUPLE = 100_000  # items of a tuple, with those of the tuples in it
MAX_KEYS = 10_000  # of dictionaries and sets, other than text and integers below `MAX_INTEGER`
MAX_INTEGER = 2**60
MIN_BYTES_OF_CALL = 8  # in a pickle, with the arguments
FREE_WORK = 10_000  # calls, or values given to them, before they are compared with the bytes
MAX_NAMES = 50  # of classes and functions; checkpoints of official code have up to 20

_DTYPES = (
    *('bfloat16', 'bool', 'complex64', 'complex128', 'float16', 'float32', 'float64'),
    *('float8_e4m3fn', 'float8_e4m3fnuz', 'float8_e5m2', 'float8_e5m2fnuz'),
    *('int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64'),
)
_LATIN1 = ('latin1', 'latin-1')
_CONTAINERS = {'EMPTY_LIST': 'list', 'EMPTY_DICT': 'dict'}
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


# Arguments of what PyTorch calls, by their kinds. Others make values that are not in the file, call
# slow codecs, or iterate over what Python would not be quick to iterate over.
_ARGUMENTS: dict[str, Collection[tuple[str, ...]]] = {
    '_codecs.encode': {('text', 'text')},
    'builtins.bytearray': {(), ('text', 'text'), ('bytes',)},
    'builtins.set': {(), ('list',)},
    'collections.Counter': {(), ('dict',)},
    'collections.OrderedDict': {(), ('list',)},  # lists of pairs were written by Python 2
    'torch.Size': {('tuple',)},
    'torch.serialization._get_layout': {('text',)},
    'torch.storage.UntypedStorage': (),
    'torch.storage._load_from_bytes': {('bytes',)},
}
# Kind of the first argument, and of the result.
_FIRST = {
    'torch._utils._rebuild_tensor_v2': 'storage',
    'torch._utils._rebuild_tensor_v3': 'storage',
    'torch._utils._rebuild_parameter': 'tensor',
}
_RESULTS = {
    '_codecs.encode': 'bytes',
    'builtins.bytes': 'bytes',
    'collections.OrderedDict': 'record',
    'torch.storage._load_from_bytes': 'storage',
    **dict.fromkeys(_FIRST, 'tensor'),
}


@dataclass(slots=True)
class _Item:
    """A value on the stack, described without making it. The memo holds the same item, so that
    lists and dictionaries grow in both.

    Attributes:
        kind: 'text', 'number', 'none', 'tuple', 'list', 'dict', 'name' of a class or function,
            'bytes', 'storage', 'tensor', 'record' of a call that takes a state, or 'other'.
        value: of text and numbers; of a class or function, its full name.
        items: of a tuple.
        size: of a tuple, its items and those of the tuples in it; 1 for all else.
        length: characters of text and bytes, items of a tuple, list or dictionary.
        keys: of a list, the cost of its items as keys.
    """

    kind: str = 'other'
    value: Any = None
    items: tuple[_Item, ...] = ()
    size: int = 1
    length: int = 1
    keys: int = 0


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
    """Follow the stack of a pickle, and check each call, state, tuple, key and reference."""
    begin = pickled.tell()
    follower = _Follower()
    stack: list[_Item] = []
    marks: list[int] = []
    memo: dict[Any, _Item] = {}
    for opcode, argument, position in pickletools.genops(pickled):
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
        made = follower.made(opcode.name, argument, items)
        follower.require_little_work((position or begin) - begin)
        stack.extend([made] * len(opcode.stack_after))


class _Follower:
    """Makes the items, and counts what is slow."""

    def __init__(self) -> None:
        self.calls = 0
        self.copied = 0  # characters and items that calls are given
        self.keys = 0  # cost of the keys that an attacker could give one hash
        self.largest = 1  # size of a tuple

    def require_little_work(self, num_bytes: int) -> None:
        """Compare the counts with the bytes of the pickle so far. What a pickler writes, it gives
        to two calls at most, such as text to a codec and its bytes to an array.
        """
        if self.calls > num_bytes / MIN_BYTES_OF_CALL + FREE_WORK:
            raise ValueError(f'it has {self.calls} calls in {num_bytes} bytes')
        if self.copied > 4 * num_bytes + FREE_WORK:
            raise ValueError('it gives the same values to many calls')
        if self.keys > MAX_KEYS:
            raise ValueError(f'it has more than {MAX_KEYS} keys that are no text or small integers')

    def made(self, opcode: str, argument: Any, items: list[_Item]) -> _Item:
        """Return what an opcode makes of the values that it takes from the stack."""
        if opcode.startswith('TUPLE') or opcode == 'EMPTY_TUPLE':
            return self._tuple(items)
        if opcode in ('REDUCE', 'NEWOBJ'):
            return self._call(items)
        if opcode == 'BUILD':
            return self._with_state(items)
        if opcode in ('APPEND', 'APPENDS', 'SETITEM', 'SETITEMS'):
            return self._filled(items, is_dict=opcode.startswith('SET'))
        if opcode == 'BINPERSID':
            _require_whole_storage(items)
            return _Item('storage')
        return _pushed(opcode, argument)

    def _tuple(self, items: list[_Item]) -> _Item:
        """The hash of a tuple is that of all its items, without a bound of its depth: as a key, a
        million tuples in each other end the process, and sixty that hold the one before twice
        never end.
        """
        size = 1 + sum(item.size for item in items)
        if size > MAX_TUPLE:
            raise ValueError(f'it has tuples in each other of more than {MAX_TUPLE} items')
        self.largest = max(self.largest, size)
        return _Item('tuple', items=tuple(items), size=size, length=len(items))

    def _filled(self, items: list[_Item], is_dict: bool) -> _Item:
        if not items:
            return _Item()
        container, *added = items
        container.length += len(added)
        if is_dict:
            self.keys += sum(map(_cost_as_key, added[::2]))
        else:
            container.keys += sum(map(_cost_as_key, added))
        return container

    def _call(self, items: list[_Item]) -> _Item:
        function, arguments = (items + [_Item(), _Item()])[:2]
        # PyTorch writes anything else into its message, and nested lists have long ones.
        if function.kind != 'name':
            raise ValueError('it calls something that is no class or function')
        if arguments.kind != 'tuple':
            raise ValueError(f'it calls {clip(function.value)} without a tuple of arguments')
        self.calls += 1
        given = arguments.items
        _require_arguments(function.value, given)
        if not _is_foreign(function.value):
            self.copied += sum(item.length for item in given)
        if function.value == 'builtins.set':
            self.keys += sum(item.keys for item in given)
        if function.value == 'collections.OrderedDict':
            self.keys += sum(item.length for item in given) * max(1, self.largest // 1000)
        if function.value in _RESULTS:
            kind = _RESULTS[function.value]
        else:
            kind = 'other' if function.value in ALLOWED else 'record'
        return _Item(kind, length=given[0].length if kind == 'bytes' and given else 1)

    def _with_state(self, items: list[_Item]) -> _Item:
        made, state = (items + [_Item(), _Item()])[:2]
        if made.kind == 'storage':
            raise ValueError('it gives a storage a state')
        if made.kind != 'record':
            raise ValueError('it gives a state to something that has none')
        self.calls += 1
        self.copied += state.length + sum(item.length for item in state.items)
        return made


def _pushed(opcode: str, argument: Any) -> _Item:
    """Return what an opcode makes of its argument alone."""
    if opcode == 'GLOBAL':
        return _Item('name', value=_full_name(argument))
    if opcode in _CONTAINERS:
        return _Item(_CONTAINERS[opcode], length=0)
    if opcode == 'NONE':
        return _Item('none')
    if isinstance(argument, str):
        return _Item('text', value=argument, length=len(argument))
    return _Item('other' if argument is None else 'number', value=argument)


def _full_name(argument: str) -> str:
    """Return the name that PyTorch looks up, which is another one for modules of Python 2."""
    module, _, name = argument.partition(' ')
    if (module, name) in NAME_MAPPING:
        module, name = NAME_MAPPING[module, name]
    return f'{IMPORT_MAPPING.get(module, module)}.{name}'


def _is_foreign(name: str) -> bool:
    """Return True for a class of another library, whose placeholder ignores all arguments."""
    return name not in ALLOWED and name.partition('.')[0] not in ('numpy', 'torch')


def _cost_as_key(item: _Item) -> int:
    """Python hashes text with a secret, and integers of 60 bits to themselves. Other numbers can be
    chosen to have one hash, and then each key is compared with all others.
    """
    is_small = type(item.value) is int and abs(item.value) < MAX_INTEGER
    return 0 if item.kind == 'text' or is_small else item.size


def _require_arguments(name: str, given: tuple[_Item, ...]) -> None:
    kinds = tuple(item.kind for item in given)
    if name in _ARGUMENTS and kinds not in _ARGUMENTS[name]:
        raise ValueError(f'it calls {name} with other arguments than those of torch.save')
    if name in _FIRST and kinds[:1] != (_FIRST[name],):
        raise ValueError(f'it calls {name} without a {_FIRST[name]}')
    # Other codecs than that of bytes take long, such as Punycode.
    if kinds == ('text', 'text') and name in _ARGUMENTS and given[1].value not in _LATIN1:
        raise ValueError('it encodes text in another way than Latin-1')


def _require_whole_storage(items: list[_Item]) -> None:
    """In the older format, the last item of a reference may name a part of the storage. PyTorch
    would give the part a pointer into the whole one, whose memory moves if a tensor makes it
    larger. `torch.save` writes None there, and in the newer format the number of values.
    """
    parts = items[-1].items if items else ()
    if not parts or (parts[-1].kind != 'none' and type(parts[-1].value) is not int):
        raise ValueError('it refers to a part of a storage')
