"""Time and memory of fused linear attention and its alternatives."""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.timing import Call, Subject, measure
from mmflatten.ops import focused_map, linear_attention, merge_heads, softmax_attention, split_heads
from mmflatten.ops.kernels import fused_linear_attention


class Case(NamedTuple):
    """Focused attention of a stage: images, tokens, channels, heads.

    If `compiler` is a backend of `torch.compile`, compiled code and flash_bla are timed, too.
    """

    name: str
    B: int
    N: int
    C: int
    h: int
    compiler: str | None = None


# All tensors are larger than the L2 cache of an H100 (50 MB).
CASES = [
    Case('Swin-T stage 1, 224', 128, 3136, 96, 3, 'inductor'), Case('Swin-T stage 2, 224', 256, 784, 192, 6),
    Case('PVT-T stage 1, 224', 256, 3136, 64, 1, 'inductor'), Case('DeiT-T, 224', 1024, 197, 192, 3),
    Case('Swin-T stage 1, 800 x 1280', 8, 64000, 96, 3), Case('Swin-T stage 3, 224', 512, 196, 384, 12),
    Case('Swin-T stage 4, 224', 1024, 49, 768, 24), Case('7 x 7 windows', 8192, 49, 96, 3, 'inductor'),
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
    leaves = [x.detach().requires_grad_() for x in qkv.chunk(3, dim=-1)]  # views, like the outputs of a projection
    local = torch.randn(B, N, C, device=device).bfloat16()
    rescale, grad = torch.rand(C, device=device) + .5, torch.randn(B, N, C, device=device).bfloat16()
    steps = {name: (forward_call(way, leaves, local, rescale, h), training_call(way, leaves, local, rescale, h, grad))
             for name, way in ways(case).items()}
    rows = []
    forward = measure([Subject(name, step[0]) for name, step in steps.items()], rounds=rounds, device=device)
    both = measure([Subject(name, step[1]) for name, step in steps.items()], rounds=rounds, device=device)
    for (name, step), seconds, training in zip(steps.items(), forward, both):
        median, total = (sorted(times)[len(times) // 2] for times in (seconds, training))
        rows.append(dict(case=case.name, way=name, forward_s=median, training_s=total, elements=B * N * C,
                         peak_mib=peak_memory(step[1], device) / 2 ** 20))
    return rows


def forward_call(way: Callable, leaves: list[Tensor], local: Tensor, rescale: Tensor, heads: int) -> Call:
    def call() -> Tensor:
        with torch.no_grad():
            return way(*leaves, local, rescale, heads)

    return call


def training_call(way: Callable, leaves: list[Tensor], local: Tensor, rescale: Tensor, heads: int,
                  grad: Tensor) -> Call:
    return lambda: torch.autograd.grad(way(*leaves, local, rescale, heads), leaves, grad)


def ways(case: Case) -> dict[str, Callable]:
    """Return the implementations of focused attention for a case, and softmax attention for comparison."""
    functions = {'kernels': fused, 'eager': eager, 'softmax (SDPA)': softmax}
    if case.compiler is not None:
        functions['compiled eager'] = torch.compile(eager, dynamic=False, backend=case.compiler)
        if (attend := flash_bla()) is not None:
            functions['flash_bla'] = lambda *args: eager(*args, attend=attend)
    return functions


def fused(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int) -> Tensor:
    q, k, v, local = (split_heads(x, heads) for x in (q, k, v, local))
    y = fused_linear_attention(q, k, v, feature_map='focused', rescale_hd=rescale.view(heads, -1), local_BhNd=local)
    return merge_heads(y)


def eager(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int,
          attend: Callable = linear_attention) -> Tensor:
    q, k = (focused_map((F.relu(x.float()) + 1e-6) * rescale, 3) for x in (q, k))
    if attend is not linear_attention:
        q, k, v = (split_heads(x.to(v.dtype), heads).contiguous() for x in (q, k, v))
        return merge_heads(attend(q, k, v)) + local
    return merge_heads(attend(*(split_heads(x, heads) for x in (q, k, v)), local_BhNe=split_heads(local, heads)))


def softmax(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int) -> Tensor:
    return merge_heads(softmax_attention(*(split_heads(x, heads) for x in (q, k, v))))


def flash_bla() -> Callable | None:
    """Return the kernel of flash-bidirectional-linear-attention, or None if it is not installed."""
    try:
        from flash_bla.ops.linear_attn.fused import linear_attention as attend
    except ImportError:
        return None
    return attend
