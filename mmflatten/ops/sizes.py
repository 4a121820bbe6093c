"""Size arithmetic that supports symbolic sizes.

An exported graph is traced once and runs at many sizes: `torch.export` passes symbols instead of
numbers. A plain `if` on a symbol would fix the branch, and with it the size. The answers of these
functions hold for every size that the graph accepts, so code takes a shortcut only if it is valid
for all of them. Plain integers cost nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor


def is_exporting() -> bool:
    """Return True while `torch.export` or the ONNX exporter traces, False while `torch.compile`
    does.
    """
    return torch.compiler.is_exporting()


# As `torch.compiler.assume_constant_result` does, which imports the compiler: Dynamo calls the
# function instead of tracing it. Up to PyTorch 2.11 it takes the flag for True in compiled code.
is_exporting._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_open(*sizes: int) -> bool:
    """Return True if any of the sizes is symbolic."""
    return any(isinstance(size, torch.SymInt) for size in sizes)


def certain(condition: bool | torch.SymBool) -> bool:
    """Return True if a condition on sizes is known to hold, False if it depends on a symbolic
    size.
    """
    if not isinstance(condition, torch.SymBool):
        return bool(condition)
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def same_size(size: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return True if two sizes are known to be equal."""
    return all(certain(a == b) for a, b in zip(size, other, strict=True))


def ceil_div(length: int, divisor: int) -> int:
    """Return `length / divisor`, rounded up. Its products stay simple for symbols, unlike
    `-length % divisor`.
    """
    return (length + divisor - 1) // divisor


def operand(size: int) -> int | Tensor:
    """Return a size as a divisor of tensors. Symbols become tensors, because the ONNX exporter
    rejects them there.
    """
    return torch.scalar_tensor(size, dtype=torch.long) if is_open(size) else size


def contiguous(x: Tensor) -> Tensor:
    """Return `x.contiguous()`, in exported graphs always a copy.

    Whether a copy is required would depend on symbolic sizes and on memory layouts, which ONNX does
    not preserve.
    """
    if is_exporting():
        return x.clone(memory_format=torch.contiguous_format)
    return x.contiguous()
