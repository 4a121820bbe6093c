"""Time and memory of fused linear attention and its alternatives, and of models with and without it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.models import RunSettings, model_subject
from mmflatten.measure.speed.timing import Call, Subject, measure
from mmflatten.ops import focused_map, linear_attention, merge_heads, split_heads
from mmflatten.ops.kernels import fused_linear_attention, pick_kernel, set_kernels_enabled, tile_table

HALF = 2  # bytes
FORWARD_BYTES, BACKWARD_BYTES = 5 * HALF, 7 * HALF  # per element: k, v, q, local, y; q, k, v, g, and three gradients


class Case(NamedTuple):
    """Focused attention of a stage: images, tokens, channels, heads, and if compiled eager code is timed, too."""

    name: str
    B: int
    N: int
    C: int
    h: int
    compiled: bool = False


CASES = [
    Case('Swin-T stage 1, 224', 128, 3136, 96, 3, True), Case('Swin-T stage 2, 224', 128, 784, 192, 6),
    Case('PVT-T stage 1, 224', 128, 3136, 64, 1), Case('DeiT-T, 224', 128, 197, 192, 3),
    Case('Swin-T stage 1, 800 x 1280', 2, 64000, 96, 3, True), Case('Swin-T stage 2, 800 x 1280', 2, 16000, 192, 6),
    Case('Swin-T stage 1, 512 x 2048', 2, 65536, 96, 3, True),
    Case('7 x 7 windows', 4096, 49, 96, 3, True), Case('14 x 14 windows', 2048, 196, 96, 3),
    Case('Swin-T stage 3, 224', 128, 196, 384, 12), Case('Swin-T stage 4, 224', 128, 49, 768, 24),
]
MODELS = {'FLatten-Swin-T': 'FLattenSwin:arch=tiny', 'Swin-T': 'FLattenSwin:arch=tiny,attn_types=SSSS'}
MODEL_SIZES = [(128, (224, 224)), (2, (800, 1280)), (2, (512, 2048))]  # batch, (H, W)


def copy_bandwidth(device: str, quick: bool = False) -> float:
    """Measure the bytes per second that a copy reads and writes."""
    source = torch.empty(2 ** (20 if quick else 28), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    (times,) = measure([Subject('copy', lambda: target.copy_(source))], rounds=5, device=device)
    return 2 * source.numel() / min(times)


def attention_rows(case: Case, device: str, rounds: int) -> list[dict]:
    """Time the attention of a case in bfloat16; a row for each implementation."""
    torch.manual_seed(0)
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
        rows.append(dict(case=case.name, way=name, forward_s=median, training_s=total,
                         forward_bytes_s=B * N * C * FORWARD_BYTES / median,
                         training_bytes_s=B * N * C * (FORWARD_BYTES + BACKWARD_BYTES) / total,
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
    functions = {'kernels': fused, 'eager': eager}
    if tile_table.fits_window(case.N, case.N, 'focused', case.h, case.C // case.h, torch.bfloat16):
        functions['kernels of images'] = fused_as_image
    if case.compiled:
        functions['compiled eager'] = torch.compile(eager, dynamic=False)
    if (attend := flash_bla()) is not None:
        functions['flash_bla'] = lambda *args: eager(*args, attend=attend)
    return functions | {'softmax (SDPA)': softmax}


def fused(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int) -> Tensor:
    q, k, v, local = (split_heads(x, heads) for x in (q, k, v, local))
    y = fused_linear_attention(q, k, v, feature_map='focused', rescale_hd=rescale.view(heads, -1), local_BhNd=local)
    return merge_heads(y)


def fused_as_image(*args: Any) -> Tensor:
    """Use the image kernels even if the window kernels support the size; the backward pass uses the same set."""
    largest, tile_table.LARGEST_WINDOW = tile_table.LARGEST_WINDOW, 0
    try:
        return fused(*args)
    finally:
        tile_table.LARGEST_WINDOW = largest


def eager(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int,
          attend: Callable = linear_attention) -> Tensor:
    q, k = (focused_map((F.relu(x.float()) + 1e-6) * rescale, 3) for x in (q, k))
    if attend is not linear_attention:
        q, k, v = (split_heads(x.to(v.dtype), heads).contiguous() for x in (q, k, v))
        return merge_heads(attend(q, k, v)) + local
    return merge_heads(attend(*(split_heads(x, heads) for x in (q, k, v)), local_BhNe=split_heads(local, heads)))


def softmax(q: Tensor, k: Tensor, v: Tensor, local: Tensor, rescale: Tensor, heads: int) -> Tensor:
    return merge_heads(F.scaled_dot_product_attention(*(split_heads(x, heads) for x in (q, k, v))))


def flash_bla() -> Callable | None:
    """Return the kernel of flash-bidirectional-linear-attention, or None if it is not installed."""
    try:
        from flash_bla.ops.linear_attn.fused import linear_attention as attend
    except ImportError:
        return None
    return attend


def model_rows(batch: int, size: tuple[int, int], device: str, rounds: int) -> list[dict]:
    """Time a training step in bfloat16; a row each with kernels, without them, and with softmax attention."""
    settings = RunSettings(batch, size, 'bf16', device, train=True)
    first, second = (model_subject(spec, settings, name) for name, spec in MODELS.items())
    subjects = [(f'{first.name}, kernels', first, True), (f'{first.name}, eager', first, False),
                (second.name, second, True)]

    def switched(call: Call, on: bool) -> Call:
        def run() -> object:
            with set_kernels_enabled(on):
                return call()

        return run

    calls = [Subject(name, switched(subject.call, on), batch) for name, subject, on in subjects]
    return [dict(model=subject.name, batch=batch, height=size[0], width=size[1],
                 training_s=sorted(times)[len(times) // 2], peak_mib=peak_memory(subject.call, device) / 2 ** 20)
            for subject, times in zip(calls, measure(calls, rounds=rounds, device=device))]


def kernels_run(device: str) -> bool:
    """Return True if a model on this device uses the kernels."""
    return pick_kernel(torch.empty(1, device=device), width=32)
