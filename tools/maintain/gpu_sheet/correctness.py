"""Errors of the fused operators relative to float64, and of every model family under autocast relative to float32."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.measure.speed.models import DTYPES, build_model
from mmflatten.ops.kernels import closed_form, set_kernels_enabled
from mmflatten.ops.kernels.attention import _backward, _forward

# Largest allowed error relative to the largest value, by input type.
TOLERANCES = {'fp32': 1e-4, 'fp16': 2e-3, 'bf16': 1.2e-2}
# Images, heads, tokens, channels of a head.
SIZES = [(4, 3, 49, 32), (2, 3, 3137, 32), (2, 1, 784, 64), (2, 3, 197, 64), (2, 5, 784, 64), (2, 12, 196, 24),
         (1, 4, 5000, 16)]
FAMILIES = {
    'FLatten-Swin': 'FLattenSwin:arch=tiny', 'FLatten-PVT': 'FLattenPVT:arch=tiny',
    'FLatten-PVTv2': 'FLattenPVTv2:arch=b0', 'FLatten-CSwin': 'FLattenCSwin:arch=tiny',
    'FLatten-DeiT': 'FLattenDeiT:arch=tiny', 'L2ViT': 'L2ViT:arch=tiny', 'Focal': 'FocalTransformer:arch=tiny',
    'MLLA': 'MLLA:arch=tiny', 'RAVLT': 'RAVLT:arch=tiny', 'H-ViTTT': 'HViTTT:arch=tiny',
}


def operator_rows(device: str, quick: bool = False) -> list[dict]:
    """Measure the largest error of outputs and gradients; a row for each size, feature map and type."""
    rows = []
    cases = [(size, feature_map) for size in SIZES[:1 if quick else 2] for feature_map in closed_form.ACTIVATIONS]
    cases += [] if quick else [(size, 'focused') for size in SIZES[2:]]
    for size, feature_map in cases:
        for name, dtype in DTYPES.items():
            errors = _errors(size, feature_map, dtype, device)
            rows.append(dict(size=size, feature_map=feature_map, dtype=name, error=max(errors),
                             ok=max(errors) < TOLERANCES[name]))
    return rows


def _errors(size: tuple[int, int, int, int], feature_map: str, dtype: torch.dtype, device: str) -> list[float]:
    B, h, N, d = size
    torch.manual_seed(0)
    qkv = torch.randn(B, N, 3, h, d, device=device).to(dtype)
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    focused = feature_map == 'focused'
    position = torch.randn(h, N, d, device=device) if focused else None
    rescale = torch.rand(h, d, device=device) + .5 if focused else None
    temperature = None if focused else torch.rand(h, device=device) + .5
    local = torch.randn(B, h, N, d, device=device).to(dtype)
    grad = torch.randn(B, N, h, d, device=device).to(dtype)
    options = closed_form.Options(feature_map, 3, 1e-6, 0. if feature_map in ('focused', 'elu') else .2 * N)
    inputs = (q, k, v, position, rescale, None, temperature)
    y, state = _forward(*inputs, local, *options)
    actual = (y, *_backward(grad, *inputs, state, *options))
    inputs = tuple(x if x is None else x.double() for x in inputs)
    y, state = closed_form.forward(*inputs, local.double(), options)
    expected = (y, *closed_form.backward(grad.double(), *inputs, state, options))
    return [_difference(a, b) for a, b in zip(actual, expected)]


def _difference(actual: Tensor, expected: Tensor) -> float:
    error = (actual.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
    return float(error) if actual.isfinite().all() else float('inf')


def family_rows(family: str, side: int, device: str) -> list[dict]:
    """Measure errors of logits and gradients in half precision; a row for each type.

    The reference is float32 without the kernels. The error with the kernels must not be much larger than `eager`, the
    error of autocast alone.
    """
    torch.manual_seed(0)
    model = build_model(FAMILIES[family], (side, side)).to(device).eval()
    image, rows = torch.randn(2, 3, side, side, device=device), []
    with set_kernels_enabled(False):
        exact = _step(model, image, None)
    for name in ('fp16', 'bf16'):
        errors = {}
        for column, on in (('kernels', True), ('eager', False)):
            with set_kernels_enabled(on):
                errors[column] = max(map(_difference, _step(model, image, DTYPES[name]), exact))
        rows.append(dict(family=family, dtype=name, **errors, ok=errors['kernels'] < 2 * errors['eager'] + 1e-3))
    return rows


def _step(model: nn.Module, image: Tensor, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
    """Return the logits, and the gradients of all parameters as one vector."""
    with torch.autocast(image.device.type, dtype=dtype or torch.float32, enabled=dtype is not None):
        logits = model(image)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad(logits.float().square().mean(), parameters, allow_unused=True)
    return logits.detach(), torch.cat([grad.flatten() for grad in grads if grad is not None])
