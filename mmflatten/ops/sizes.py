"""Questions about sizes, some of which a graph may leave open.

Graphs are traced once and run at many sizes: `torch.export` then hands symbols in place of the numbers. A plain `if` on
one would settle the branch, and with it the sizes, for good. These functions answer for every size that the graph will
see, so that code takes its shortcuts where a size allows them and the general way in an open graph. Of plain integers
they cost nothing.
"""
from __future__ import annotations

import torch
from torch import Tensor

# PyTorch 2.4 tells no export from another compilation.
is_exporting = getattr(torch.compiler, 'is_exporting', torch.compiler.is_compiling)


def is_open(*sizes: int) -> bool:
    """Whether any of the sizes is left open."""
    return any(isinstance(size, torch.SymInt) for size in sizes)


def certain(condition: bool | torch.SymBool) -> bool:
    """Whether a condition on sizes holds; False where that depends on a size left open."""
    if not isinstance(condition, torch.SymBool):
        return bool(condition)
    from torch.fx.experimental.symbolic_shapes import statically_known_true
    return statically_known_true(condition)


def same_size(size: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two sizes are equal; False where that is open."""
    return all(certain(a == b) for a, b in zip(size, other, strict=True))


def ceil_div(length: int, divisor: int) -> int:
    """`length / divisor`, rounded up; products with it stay simple in open graphs, as `-length % divisor` does not."""
    return (length + divisor - 1) // divisor


def operand(size: int) -> int | Tensor:
    """A size by which tensors are divided, a tensor where it is open: ONNX's exporter takes no symbol there."""
    return torch.scalar_tensor(size, dtype=torch.long) if is_open(size) else size


def contiguous(x: Tensor) -> Tensor:
    """`x.contiguous()`; in exported graphs always a copy: whether one is required depends on open sizes, and on layouts
    which the decompositions of ONNX do not keep.
    """
    if is_exporting():
        return x.clone(memory_format=torch.contiguous_format)
    return x.contiguous()
