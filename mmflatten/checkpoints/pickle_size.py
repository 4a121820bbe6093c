"""Check by the instructions of a pickle how large its content would be, without running them."""
import pickletools
import re
from typing import Any, BinaryIO

_TENSORS = re.compile(r'torch\S* \w*(Tensor|Storage)')
_MARKS, _NAME = 1000, 1000  # nested containers under construction, and characters of a class
_INSTRUCTIONS = frozenset(  # of a pickle, that PyTorch knows
    'PROTO STOP MARK GLOBAL NEWOBJ REDUCE BUILD APPEND APPENDS SETITEM SETITEMS TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_TUPLE '
    'EMPTY_LIST EMPTY_DICT EMPTY_SET NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 BINFLOAT LONG1 BINUNICODE '
    'SHORT_BINSTRING BINPERSID BINGET LONG_BINGET BINPUT LONG_BINPUT'.split())


class _Special(int):
    """Size of a value that `_unfolded` knows by its identity, or of a pair of any text and 'latin1'."""


_ENCODE, _TENSOR, _LATIN1 = _Special(1), _Special(1), _Special(6)


def _unfolded(name: str, argument: Any, taken: list[int]) -> int:
    """Return the size of what an instruction makes of the values that it takes.

    PyTorch calls `encode`, and classes of tensors and storages, whatever its list says, directly or as the first
    argument of `_rebuild_from_type_v2`. In a file of `torch.save` the former decodes arrays, and the latter are types.
    """
    decodes = name == 'REDUCE' and taken[0] is _ENCODE and isinstance(taken[1], _Special)
    called = taken[:1] if name.startswith('TUPLE') else taken
    if not decodes and any(value is _ENCODE or value is _TENSOR for value in called):
        raise ValueError('it makes a tensor of any size, or encodes text in another way than NumPy')
    if name == 'REDUCE':
        return 2 * taken[1]
    if name.startswith('TUPLE'):
        return (_Special if len(taken) == 2 and taken[1] is _LATIN1 else int)(1 + sum(taken))
    if name == 'GLOBAL':
        return _ENCODE if argument == '_codecs encode' else _TENSOR if _TENSORS.fullmatch(argument) else 1
    if argument == 'latin1':
        return _LATIN1
    return len(argument) if isinstance(argument, (str, bytes)) else 1


def require_small(file: BinaryIO, size: int) -> None:
    """Read the instructions of one pickle, and raise ValueError if it would become much more than it is.

    Tuples that hold another tuple twice, again and again, unfold to any size, and Python would hash all of it. The
    stack holds the unfolded size of each tuple and text; calls double it, thrice for a tensor in a plain pickle.
    """
    stack: list[int] = []
    marks: list[int] = []
    memo: dict[int, int] = {}
    containers, called, limit = 0, 0, 10**6 + 4 * size
    argument: Any
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        if name not in _INSTRUCTIONS or name == 'PROTO' and argument != 2:
            raise ValueError(f'it is a pickle with {name} {argument or ""}, and PyTorch reads those of protocol 2')
        if name == 'GLOBAL' and (argument.split()[-1] == 'bytearray' or len(argument) > _NAME):
            raise ValueError('it names a bytearray, which takes any memory, or an endless name')
        if name == 'MARK':
            marks.append(len(stack))
        elif 'GET' in name:
            stack.append(memo[argument])
        elif 'PUT' in name:
            memo[argument] = stack[-1]
        else:
            marked = pickletools.markobject in opcode.stack_before
            start = (marks.pop() if marked else len(stack)) - len(opcode.stack_before) + 2 * marked
            taken = stack[start:]
            del stack[start:]
            unfolded = _unfolded(name, argument, taken)
            stack += [unfolded] * len(opcode.stack_after)
            containers += name.startswith(('EMPTY', 'TUPLE', 'REDUCE', 'NEWOBJ'))
            called += unfolded if name == 'REDUCE' else 0
            if max(unfolded, called / 4) > limit or containers > 10**5 + size // 8:
                raise ValueError(f'it would unfold to far more than its {size} bytes')
        if len(marks) > _MARKS:
            raise ValueError(f'it nests more than {_MARKS} containers')
