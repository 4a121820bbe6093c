"""Inert records of the objects of other libraries that a file of PyTorch names.

PyTorch's reader calls these classes where the file names others. They compute nothing and share no
memory: a record keeps its arguments and its state, and becomes a value once, after the whole file
has been read.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Literal

import numpy as np

NUMBERS = 'biufc'  # kinds of NumPy's types: booleans, integers, floats and complex numbers


class Placeholder:
    """Stands for an object of another library. Accepts any arguments and any state, and ignores
    them.
    """

    def __new__(cls, *_: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *_: Any) -> None:
        """Ignore the arguments."""

    def __setstate__(self, state: Any) -> None:
        """Ignore the state."""


class DictPlaceholder(Placeholder):
    """Stands for a dictionary of another library, whose items are kept.

    PyTorch fills three types of dictionaries only, so the file gets one of those. An item tells it
    from its own ones.
    """

    def __new__(cls, *_: Any) -> Any:
        return OrderedDict({'': Placeholder()})


class Record:
    """Arguments and state of an object that this project can restore. Both are kept as they are.

    Attributes:
        arguments: of the call that makes the object.
        state: of the object, given at most once; None without one.
    """

    arguments: tuple
    state: Any

    def __new__(cls, *arguments: Any) -> Any:
        record = object.__new__(cls)
        record.arguments = arguments
        record.state = None
        return record

    def __init__(self, *_: Any) -> None:
        """Leave the arguments to `__new__`, which alone is called for some objects."""

    def __setstate__(self, state: Any) -> None:
        if self.state is not None:
            raise ValueError('an object gets a state twice')
        self.state = state

    @staticmethod
    def restored(arguments: tuple, state: Any) -> Any:
        """Make the value, from arguments and a state without records. Raises ValueError if they do
        not fit.
        """
        raise NotImplementedError


class DTypeRecord(Record):
    """Type of the numbers of an array: `numpy.dtype(code, ...)`, with its byte order as a state."""

    @staticmethod
    def restored(arguments: tuple, state: Any) -> Any:
        code = arguments[0] if arguments else None
        if not isinstance(code, str):
            raise ValueError(f'expected the code of a type of numbers, got {str(code)[:20]}')
        dtype = np.dtype(code)
        if dtype.kind not in NUMBERS or dtype.shape:
            return Placeholder()  # text, objects or fields
        big = isinstance(state, tuple) and len(state) > 1 and state[1] == '>'
        return dtype.newbyteorder('>' if big else '=')


class ArrayRecord(Record):
    """An array of numbers: `numpy.core.multiarray._reconstruct(...)`, with shape, type and bytes as
    a state.
    """

    @staticmethod
    def restored(arguments: tuple, state: Any) -> Any:
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError('an array has no shape, type and bytes')
        _, shape, dtype, is_fortran, data = state
        if isinstance(dtype, Placeholder):
            return dtype
        return _array(data=data, dtype=dtype, shape=shape, order='F' if is_fortran else 'C')


class ScalarRecord(Record):
    """A number of NumPy: `numpy.core.multiarray.scalar(dtype, bytes)`."""

    @staticmethod
    def restored(arguments: tuple, state: Any) -> Any:
        if len(arguments) != 2:
            raise ValueError('a number of NumPy has no type and bytes')
        dtype, data = arguments
        if isinstance(dtype, Placeholder):
            return dtype
        return _array(data=data, dtype=dtype, shape=(), order='C')[()]


def _array(data: Any, dtype: Any, shape: Any, order: Literal['C', 'F']) -> np.ndarray:
    """Copy bytes into an array of its own memory."""
    if (
        not isinstance(data, bytes)
        or not isinstance(dtype, np.dtype)
        or not isinstance(shape, tuple)
    ):
        raise ValueError('an array is not bytes of one type of numbers')
    values = np.frombuffer(data, dtype) if data else np.empty(0, dtype)
    return values.reshape(
        shape, order=order
    ).copy()  # raises ValueError for another number of values


def as_list(*_: Any) -> list:
    """Make the list that takes the place of a deque, which PyTorch would not fill."""
    return []


def empty_bytes() -> bytes:
    """Make the bytes of an empty array, which a pickle of protocol 2 writes as a call without
    arguments.
    """
    return b''


NUMPY = {
    'builtins.bytes': empty_bytes,
    'numpy.ndarray': Placeholder,  # the class, as an argument of `_reconstruct`
    'numpy.dtype': DTypeRecord,
    'numpy.core.multiarray._reconstruct': ArrayRecord,
    'numpy._core.multiarray._reconstruct': ArrayRecord,
    'numpy.core.multiarray.scalar': ScalarRecord,
    'numpy._core.multiarray.scalar': ScalarRecord,
}
