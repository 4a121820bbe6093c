"""Run the kernels under Triton's interpreter and print their errors as JSON; started by the tests.

    TRITON_INTERPRET=1 python interpreted_kernels.py [full]

The error of each result is its largest difference from the formula in float64, relative to the
largest value. Inputs and outputs are surrounded by NaNs, because the interpreter does not detect
accesses out of bounds.
"""

import json
import math
import sys

import closed_form
import torch

from mmflatten.ops.linear.kernels import launch_attention
from mmflatten.ops.linear.kernels.options import Options

MARGIN = 4096
RESULTS = (
    'y',
    'state',
    'norms_q',
    'norms_k',
    'grad_q',
    'grad_k',
    'grad_v',
    'grad_rescale',
    'grad_temperature',
)
# `shape` is (B, h, N, M, d); `block` replaces the tokens per tile, because small tiles are slow to
# interpret.
CASES = {
    'focused, one window for both images': dict(shape=(2, 2, 49, 49, 32), windows=1),
    'width 24, keys apart': dict(shape=(1, 3, 50, 37, 24)),
    'width 64': dict(shape=(1, 2, 49, 49, 64)),
    'one head': dict(shape=(2, 1, 49, 49, 16), others=()),
    'full: power 4': dict(shape=(1, 2, 49, 49, 16), options=dict(power=4), others=('position',)),
    'bfloat16, 1,500 tokens': dict(
        shape=(1, 1, 1500, 1500, 16), dtype=torch.bfloat16, block=512, others=('position', 'local')
    ),
    'float16, large': dict(
        shape=(1, 2, 196, 196, 32), dtype=torch.float16, block=128, size=100.0, others=('local',)
    ),
    'clamped': dict(
        shape=(2, 3, 64, 49, 32),
        options=dict(feature_map='relu', floor=0.0, min_denominator=9.0),
        others=('weight', 'temperature'),
    ),
    'relu': dict(
        shape=(1, 2, 700, 300, 32), options=dict(feature_map='relu'), others=(), block=512
    ),
    'elu, width 48': dict(shape=(1, 1, 49, 49, 48), options=dict(feature_map='elu'), others=()),
    'full: leaky ReLU': dict(
        shape=(1, 5, 49, 49, 48),
        options=dict(feature_map='leaky_relu', min_denominator=3.0),
        others=('temperature', 'local'),
    ),
    'full: 320 channels': dict(shape=(1, 5, 49, 49, 64)),
    'full: 20 heads': dict(shape=(1, 20, 49, 49, 16)),
    'full: 12 heads in float16': dict(shape=(2, 12, 49, 49, 32), dtype=torch.float16),
    'full: 5,000 tokens': dict(shape=(1, 3, 5000, 5000, 32), block=256),
}


def between_nans(
    *shape: int, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an uninitialised tensor and the buffer of NaNs that surrounds it."""
    buffer = torch.full((math.prod(shape) + 2 * MARGIN,), math.nan, dtype=dtype)
    return buffer[MARGIN : buffer.numel() - MARGIN].view(shape), buffer


class Guarded(torch.Tensor):
    """Tensor whose `new_empty` surrounds new tensors with NaNs."""

    buffers: list[torch.Tensor] = []

    def new_empty(self, *shape, dtype=None, **kwargs):
        if kwargs:
            return super().new_empty(*shape, dtype=dtype or self.dtype, **kwargs)
        x, buffer = between_nans(*shape, dtype=dtype or self.dtype)
        self.buffers.append(buffer)
        return x


def guarded(x: torch.Tensor) -> torch.Tensor:
    memory, _ = between_nans(*x.shape, dtype=x.dtype)
    return memory.copy_(x)


def run(
    shape,
    options=None,
    dtype=torch.float32,
    block=None,
    size=1.0,
    others=('position', 'weight', 'local'),
    windows=0,
):
    torch.manual_seed(0)
    B, h, N, M, d = shape
    options = Options(
        **{
            **dict(feature_map='focused', power=3, floor=1e-6, min_denominator=0.0),
            **(options or {}),
        }
    )
    # Views of projections: queries have the stride of three outputs, keys and values the stride of
    # two.
    q, kv = size * torch.randn(B, N, 3, h, d), size * torch.randn(B, M, 2, h, d)
    q[0, :3] -= 4 * size  # tokens that ReLU sets almost to zero
    kv[0, 3:5] -= 4 * size
    q, (k, v) = guarded(q.to(dtype))[:, :, 0], guarded(kv.to(dtype)).unbind(2)
    q, k, v = (x.as_subclass(Guarded).transpose(1, 2) for x in (q, k, v))
    rescale = guarded(torch.rand(h, d) + 0.5) if options.feature_map == 'focused' else None
    makers = dict(
        position=lambda: torch.randn(M, h, d),
        weight=lambda: torch.rand(windows or B, M),
        local=lambda: torch.randn(B, N, h, d).to(dtype),
        temperature=lambda: torch.rand(h) + 0.5,
    )
    extras = {name: guarded(make()) if name in others else None for name, make in makers.items()}
    position, local = (
        x if x is None else x.transpose(-3, -2) for x in (extras['position'], extras['local'])
    )
    extra = (position, rescale, extras['weight'], extras['temperature'])
    grad = guarded(torch.randn(B, N, h, d).to(dtype))
    tile_of = launch_attention.tile_of
    launch_attention.tile_of = lambda name, width: tile_of(name, width)._replace(
        **{} if block is None or name == 'norms' else dict(BLOCK=block)
    )
    y, *saved = launch_attention.forward(q, k, v, *extra, local, options)
    actual = (y, *saved, *launch_attention.backward(grad, q, k, v, *extra, *saved, options))
    launch_attention.tile_of = tile_of

    def wide(*tensors):
        return [x if x is None else x.as_subclass(torch.Tensor).double() for x in tensors]

    y, *saved = closed_form.forward(*wide(q, k, v, *extra, local), options)
    expected = (y, *saved, *closed_form.backward(*wide(grad, q, k, v, *extra), *saved, options))
    errors = {name: error(a, b) for name, a, b in zip(RESULTS, actual, expected) if b.numel()}
    q[0, :, 5, 3] = math.nan  # an overflow must not go unnoticed
    y, *_ = launch_attention.forward(q, k, v, *extra, local, options)
    return margins_intact() and bool(y[0, 5, :, 3].isnan().all()), errors


def margins_intact() -> bool:
    """Return True if no kernel has written outside its outputs."""
    return all(x[:MARGIN].isnan().all() and x[-MARGIN:].isnan().all() for x in Guarded.buffers)


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    largest = expected.abs().max().clamp(min=1e-30)
    return float((actual.as_subclass(torch.Tensor).double() - expected).abs().max() / largest)


if __name__ == '__main__':
    full = sys.argv[1:] == ['full']
    print(
        json.dumps(
            {name: run(**case) for name, case in CASES.items() if name.startswith('full') == full}
        )
    )
