"""Time and memory of fused linear attention and its alternatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten.ops import focused_map, linear_attention, merge_heads, softmax_attention, split_heads
from mmflatten.ops.linear.kernels import fused_linear_attention


class Case(NamedTuple):
    """Focused attention of a stage: images, tokens, channels, heads.

    If `compiler` is a backend of `torch.compile`, compiled code is timed, too.
    """

    name: str
    B: int
    N: int
    C: int
    h: int
    compiler: str | None = None


# All tensors are larger than the L2 cache of an H100 (50 MB).
CASES = [
    Case('Swin-T stage 1, 224', 128, 3136, 96, 3, 'inductor'),
    Case('Swin-T stage 2, 224', 256, 784, 192, 6),
    Case('PVT-T stage 1, 224', 256, 3136, 64, 1, 'inductor'),
    Case('DeiT-T, 224', 1024, 197, 192, 3),
    Case('Swin-T stage 1, 800 x 1280', 8, 64000, 96, 3),
    Case('Swin-T stage 3, 224', 512, 196, 384, 12),
    Case('Swin-T stage 4, 224', 1024, 49, 768, 24),
    Case('7 x 7 windows', 8192, 49, 96, 3, 'inductor'),
]


def copy_bandwidth(device: str, quick: bool = False) -> float:
    """Measure the bytes per second that a copy reads and writes."""
    source = torch.empty(2 ** (20 if quick else 28), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    (times,) = measure([Subject('copy', lambda: target.copy_(source))], rounds=5, device=device)
    return 2 * source.numel() / min(times)


def attention_rows(case: Case, device: str, rounds: int) -> list[dict]:
    """Time the attention of a case in bfloat16; a row for each implementation."""
    torch.manual_seed(0)
    torch.compiler.reset()  # PyTorch stops compiling a function again that many cases call
    B, N, C, h = case.B, case.N, case.C, case.h
    qkv = torch.randn(B, N, 3 * C, device=device).bfloat16()
    # views, like the outputs of a projection
    leaves = [x.detach().requires_grad_() for x in qkv.chunk(3, dim=-1)]
    local = torch.randn(B, N, C, device=device).bfloat16()
    rescale = torch.rand(C, device=device) + 0.5
    grad = torch.randn(B, N, C, device=device).bfloat16()
    forwards, steps = [], []
    for name, way in ways(case).items():
        call = partial(way, *leaves, local, rescale, h)
        forwards.append(Subject(name, torch.no_grad()(call)))
        steps.append(Subject(name, partial(gradients, call, leaves, grad)))
    forward_times = measure(forwards, rounds=rounds, device=device)
    training_times = measure(steps, rounds=rounds, device=device)
    rows = []
    for step, forward_s, training_s in zip(steps, forward_times, training_times):
        rows.append(
            dict(
                case=case.name,
                way=step.name,
                forward_s=sorted(forward_s)[len(forward_s) // 2],
                training_s=sorted(training_s)[len(training_s) // 2],
                elements=B * N * C,
                peak_mib=peak_memory(step.call, device) / 2**20,
            )
        )
    return rows


def gradients(call: Callable[[], Tensor], leaves: list[Tensor], grad: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(call(), leaves, grad)


def ways(case: Case) -> dict[str, Callable]:
    """Return the implementations of focused attention for a case, and softmax attention."""
    functions = {'kernels': fused, 'eager': eager, 'softmax (SDPA)': softmax}
    if case.compiler is not None:
        functions['compiled eager'] = torch.compile(eager, dynamic=False, backend=case.compiler)
    return functions


def fused(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int) -> Tensor:
    return fused_linear_attention(
        q, k, v, heads, feature_map='focused', rescale_C=rescale, local_BNC=local
    )


def eager(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int) -> Tensor:
    q, k = (focused_map((F.relu(x.float()) + 1e-6) * rescale, 3) for x in (q, k))
    q, k, v, local = (split_heads(x, heads) for x in (q, k, v, local))
    return merge_heads(linear_attention(q, k, v, local_BhNe=local))


def softmax(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int) -> Tensor:
    return merge_heads(softmax_attention(*(split_heads(x, heads) for x in (q, k, v))))
