"""Objects that take the place of those that a checkpoint names: nothing that the file says about them is called."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np


class Inert:
    """Placeholder for an object of another library. Accepts all operations of unpickling and ignores them."""

    def __new__(cls, *_: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *_: Any) -> None:
        """Ignore the arguments."""

    def __setstate__(self, state: Any) -> None:
        """Ignore the state."""


class InertDict(Inert):
    """Placeholder for a dictionary of another library. PyTorch fills its own three types of dictionaries only."""

    def __new__(cls, *_: Any) -> Any:
        return OrderedDict({'': Inert()})


class _DType(Inert):
    """Type of the numbers of a NumPy array. NumPy's own could turn bytes of the file into pointers by its state."""

    def __init__(self, code: str, *_: Any) -> None:
        self.dtype = np.dtype(code)
        if self.dtype.kind not in 'biufc' or self.dtype.shape:
            raise ValueError(f'expected an array of numbers, got {str(code)[:20]}')

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1] if state[1] in ('<', '>') else '=')


class _Array(np.ndarray):
    """NumPy array of numbers, which pickles as an ordinary one."""

    def __new__(cls, *_: Any) -> _Array:
        return np.ndarray.__new__(cls, (0,))

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, data = state
        if type(data) is not bytes or not isinstance(kind, _DType):
            raise ValueError('expected an array of numbers')
        # NumPy compares the sizes.
        super().__setstate__((1, tuple(map(int, shape)), kind.dtype, bool(fortran), data))  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


def as_list(*_: Any) -> list:
    """Make the list that takes the place of a deque."""
    return []


NUMPY = {'numpy.ndarray': _Array, 'numpy.dtype': _DType,
         **{f'numpy.{core}.multiarray.{name}': stand_in for core in ('core', '_core')
            for name, stand_in in (('_reconstruct', _Array),
                                   ('scalar', lambda kind, data: np.frombuffer(data, kind.dtype)[0]))}}
