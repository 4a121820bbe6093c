"""Tensors for tests of what runs on a GPU alone."""

from collections.abc import Callable

import pytest
from torch import Tensor


class OnGPU(Tensor):
    """CPU tensor that claims to be on a GPU."""

    is_cuda = True


@pytest.fixture
def on_gpu() -> Callable[[Tensor], Tensor]:
    """Function that makes a CPU tensor claim to be on a GPU."""
    return lambda x: x.as_subclass(OnGPU)
