"""Errors of the fused operator relative to float64, and of every model family under autocast relative to float32."""
from __future__ import annotations

from math import nan

import torch
from torch import Tensor, nn

from mmflatten.measure.speed.models import DTYPES, build_model
from mmflatten.ops.kernels import closed_form, set_kernels_enabled
from mmflatten.ops.kernels.attention import _backward, _forward

# Largest allowed error relative to the largest value, by input type. TF32, in which the state is multiplied, rounds to
# 5e-4, as float16 does.
TOLERANCES = {'fp16': 3e-3, 'bf16': 1.2e-2}
# Images, heads, tokens, channels of a head.
SIZES = [(4, 3, 49, 32), (2, 3, 3137, 32), (2, 1, 784, 64), (2, 5, 784, 64), (2, 12, 196, 24), (2, 24, 49, 32),
         (1, 4, 5000, 16)]
FAMILIES = {
    'FLatten-Swin': 'FLattenSwin:arch=tiny', 'FLatten-PVT': 'FLattenPVT:arch=tiny',
    'FLatten-PVTv2': 'FLattenPVTv2:arch=b0', 'FLatten-CSwin': 'FLattenCSwin:arch=tiny',
    'FLatten-DeiT': 'FLattenDeiT:arch=tiny', 'L2ViT': 'L2ViT:arch=tiny', 'Focal': 'FocalTransformer:arch=tiny',
    'MLLA': 'MLLA:arch=tiny', 'RAVLT': 'RAVLT:arch=tiny', 'H-ViTTT': 'HViTTT:arch=tiny',
}


def attention_rows(size: tuple[int, ...], feature_map: str, dtype: str, device: str) -> list[dict]:
    """Measure the error of the output and of the gradient of each input, which must be the same bits three times."""
    B, h, N, d = size
    torch.manual_seed(0)
    qkv = torch.randn(B, N, 3, h, d, device=device).to(DTYPES[dtype])
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    focused = feature_map == 'focused'
    position = torch.randn(h, N, d, device=device) if focused else None
    rescale = torch.rand(h, d, device=device) + .5 if focused else None
    temperature = None if focused else torch.rand(h, device=device) + .5
    local = torch.randn(B, h, N, d, device=device).to(DTYPES[dtype])
    grad = torch.randn(B, N, h, d, device=device).to(DTYPES[dtype])
    options = closed_form.Options(feature_map, 3, 1e-6, 0. if feature_map in ('focused', 'elu') else .2 * N)
    weight = torch.rand(2, N, device=device) if N == 49 else None  # windows with padding
    inputs = (q, k, v, position, rescale, weight, temperature)

    def run() -> tuple[Tensor, ...]:
        y, *saved = _forward(*inputs, local, *options)
        return (y, *_backward(grad, *inputs, *saved, *options))

    runs = [run() for _ in range(3)]
    wide = tuple(x if x is None else x.double() for x in inputs)
    y, *saved = closed_form.forward(*wide, local.double(), options)
    expected = (y, *closed_form.backward(grad.double(), *wide, *saved, options))
    names = ('y', 'grad_q', 'grad_k', 'grad_v', 'grad_rescale', 'grad_temperature')
    q[0, 0, 0, 0] = nan
    nan_kept = bool(run()[0][0, 0, 0].isnan().all())
    errors = {name: _difference(a, b) for name, a, b in zip(names, runs[0], expected) if bool(b.any())}
    same = all(a.equal(b) for other in runs[1:] for a, b in zip(runs[0], other))
    ok = same and nan_kept and all(error < TOLERANCES[dtype] for error in errors.values())
    return [dict(size=list(size), feature_map=feature_map, dtype=dtype, errors=errors, same_bits=same,
                 nan_kept=nan_kept, ok=ok)]


def second_device_rows(device: str) -> list[dict]:
    """Run the operator on another GPU than the current one, and compare with the first."""
    if torch.cuda.device_count() < 2 or not device.startswith('cuda'):
        return [dict(devices=torch.cuda.device_count(), ok=True)]
    return [dict(row, device='cuda:1') for row in attention_rows(SIZES[0], 'focused', dtype='bf16', device='cuda:1')]


def _difference(actual: Tensor, expected: Tensor) -> float:
    error = (actual.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
    return float(error) if actual.isfinite().all() else float('inf')


def family_rows(family: str, spec: str, side: int, device: str) -> list[dict]:
    """Measure errors of logits and gradients in half precision; a row for each type.

    The reference is float32 without the kernels. The error with the kernels must not be much larger than `eager`, the
    error of autocast alone.
    """
    torch.manual_seed(0)
    model = build_model(spec, (side, side)).to(device).eval()
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
