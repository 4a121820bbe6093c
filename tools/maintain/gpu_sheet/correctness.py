"""Errors of the fused operator, and of every model family under autocast.

The operator is compared with float64, the models with float32.
"""

from __future__ import annotations

from math import nan

import torch
from torch import Tensor, nn

from mmflatten.measure.speed.models import DTYPES, build_from_spec
from mmflatten.ops import merge_heads
from mmflatten.ops.linear.kernels import fused_linear_attention, set_kernels_enabled
from mmflatten.ops.linear.kernels.attention import _forward
from mmflatten.ops.linear.kernels.options import Options
from mmflatten.ops.linear.kernels.pick import TYPES

# Largest allowed error relative to the largest value, by input type. TF32, in which the state is
# multiplied, rounds to 5e-4, as float16 does.
TOLERANCES = {'fp16': 3e-3, 'bf16': 1.2e-2}
# Images, heads, tokens, channels of a head.
SIZES = [
    (4, 3, 49, 32),
    (2, 3, 3137, 32),
    (2, 1, 784, 64),
    (2, 5, 784, 64),
    (2, 12, 196, 24),
    (2, 24, 49, 32),
    (1, 4, 5000, 16),
]
FAMILIES = {
    'FLatten-Swin': 'FLattenSwin:arch=tiny',
    'FLatten-PVT': 'FLattenPVT:arch=tiny',
    'FLatten-PVTv2': 'FLattenPVTv2:arch=b0',
    'FLatten-CSwin': 'FLattenCSwin:arch=tiny',
    'FLatten-DeiT': 'FLattenDeiT:arch=tiny',
    'L2ViT': 'L2ViT:arch=tiny',
    'Focal': 'FocalTransformer:arch=tiny',
    'MLLA': 'MLLA:arch=tiny',
    'RAVLT': 'RAVLT:arch=tiny',
    'H-ViTTT': 'HViTTT:arch=tiny',
}


def attention_rows(size: tuple[int, ...], feature_map: str, dtype: str, device: str) -> list[dict]:
    """Measure the error of the output and of the gradient of each input.

    Three calls must return the same bits.
    """
    B, h, N, d = size
    torch.manual_seed(0)
    qkv = torch.randn(B, N, 3, h, d, device=device).to(DTYPES[dtype])
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    focused = feature_map == 'focused'
    position = torch.randn(h, N, d, device=device) if focused else None
    rescale = torch.rand(h, d, device=device) + 0.5 if focused else None
    temperature = None if focused else torch.rand(h, device=device) + 0.5
    local = torch.randn(B, h, N, d, device=device).to(DTYPES[dtype])
    grad = torch.randn(B, N, h, d, device=device).to(DTYPES[dtype])
    options = Options(feature_map, 3, 1e-6, 0.0 if feature_map in ('focused', 'elu') else 0.2 * N)
    weight = torch.rand(2, N, device=device) if N == 49 else None  # windows with padding
    inputs = dict(
        q=q, k=k, v=v, position=position, rescale=rescale, weight=weight, temperature=temperature
    )
    runs = [_results(inputs, local, grad, options) for _ in range(3)]
    wide = {name: x if x is None else x.double() for name, x in inputs.items()}
    expected = _results(wide, local.double(), grad.double(), options)
    errors = {name: _difference(runs[0][name], expected[name]) for name in expected}
    q[0, 0, 0, 0] = nan
    nan_kept = bool(_results(inputs, local, grad, options)['y'][0, 0, 0].isnan().all())
    same = all(_equal(runs[0], other) for other in runs[1:])
    small = all(error < TOLERANCES[dtype] for error in errors.values())
    row = dict(
        size=list(size),
        feature_map=feature_map,
        dtype=dtype,
        errors=errors,
        same_bits=same,
        nan_kept=nan_kept,
        ok=same and nan_kept and small,
    )
    return [row]


def _equal(first: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(x.equal(other[name]) for name, x in first.items())


def _results(
    inputs: dict[str, Tensor | None], local: Tensor, grad: Tensor, options: Options
) -> dict[str, Tensor]:
    """Return the output and the gradients.

    The kernels compute half precision on a GPU, PyTorch anything else.
    """
    leaves = {}
    for name, x in inputs.items():
        leaves[name] = None if x is None else x.detach().requires_grad_(name != 'weight')
    if grad.is_cuda and grad.dtype in TYPES:
        y_BNhd = _forward(*leaves.values(), local, *options)[0]
    else:
        heads, rescale, position = leaves['q'].shape[1], leaves['rescale'], leaves['position']
        y_BNC = fused_linear_attention(
            merge_heads(leaves['q']),
            merge_heads(leaves['k']),
            merge_heads(leaves['v']),
            heads,
            feature_map=options.feature_map,
            rescale_C=None if rescale is None else rescale.flatten(),
            power=options.power,
            floor=options.floor,
            position_MC=None if position is None else position.transpose(0, 1).flatten(1),
            weight_WM=leaves['weight'],
            min_denominator=options.min_denominator or None,
            temperature_h=leaves['temperature'],
            local_BNC=merge_heads(local),
        )
        y_BNhd = y_BNC.unflatten(2, (heads, -1))
    wanted = {name: x for name, x in leaves.items() if x is not None and x.requires_grad}
    gradients = torch.autograd.grad(y_BNhd, list(wanted.values()), grad)
    return dict(y=y_BNhd.detach(), **{f'grad_{name}': x for name, x in zip(wanted, gradients)})


def second_device_rows(device: str) -> list[dict]:
    """Run the operator on another GPU than the current one, and compare with the first."""
    if torch.cuda.device_count() < 2 or not device.startswith('cuda'):
        return [dict(devices=torch.cuda.device_count(), ok=True)]
    return [
        dict(row, device='cuda:1')
        for row in attention_rows(SIZES[0], 'focused', dtype='bf16', device='cuda:1')
    ]


def _difference(actual: Tensor, expected: Tensor) -> float:
    error = (actual.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
    return float(error) if actual.isfinite().all() else float('inf')


def family_rows(family: str, spec: str, side: int, device: str) -> list[dict]:
    """Measure errors of logits and gradients in half precision; a row for each type.

    The reference is float32 without the kernels. The error with the kernels must not be much larger
    than `eager`, the error of autocast alone.
    """
    torch.manual_seed(0)
    model = build_from_spec(spec, (side, side)).to(device).eval()
    image = torch.randn(2, 3, side, side, device=device)
    with set_kernels_enabled(False):
        exact = _step(model, image, None)

    def error_of(dtype: str, kernels: bool) -> float:
        with set_kernels_enabled(kernels):
            return max(map(_difference, _step(model, image, DTYPES[dtype]), exact))

    rows = []
    for dtype in ('fp16', 'bf16'):
        kernels = error_of(dtype, kernels=True)
        eager = error_of(dtype, kernels=False)
        ok = kernels < 2 * eager + 1e-3
        rows.append(dict(family=family, dtype=dtype, kernels=kernels, eager=eager, ok=ok))
    return rows


def _step(model: nn.Module, image: Tensor, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
    """Return the logits, and the gradients of all parameters as one vector."""
    with torch.autocast(image.device.type, dtype=dtype or torch.float32, enabled=dtype is not None):
        logits = model(image)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad(logits.float().square().mean(), parameters, allow_unused=True)
    return logits.detach(), torch.cat([grad.flatten() for grad in grads if grad is not None])
