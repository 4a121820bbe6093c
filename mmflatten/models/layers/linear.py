"""Linear layers for tokens, computed by oneDNN in CPU inference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.ops.eager import is_eager
from mmflatten.ops.precision import is_autocast_on, no_autocast


class Linear(nn.Linear):
    """`torch.nn.Linear` with oneDNN's product without gradients, in eager float32 on the CPU;
    otherwise `F.linear`.

    PyTorch passes `F.linear` to MKL, which adds the bias in a second pass over the result; oneDNN
    adds it in the first.
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x, self.weight, self.bias)

    def parts(self, widths: Sequence[int]) -> list[tuple[Tensor, Tensor | None]]:
        """Split weight and bias into parts of these output widths, to `project` a different input
        with each.
        """
        return _split(self.weight, self.bias, widths)

    @staticmethod
    def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x weight^T + bias`."""
        if uses_onednn(x, weight, bias):
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, 'none', [], '')
        return F.linear(x, weight, bias)


class LinearWithoutKeyBias(Linear):
    """Projection of `C` channels to queries, keys, values and others; keys, rows `C` to `2 C`, have
    no bias.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias=False)
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features - in_features))

    def whole_bias(self) -> Tensor | None:
        """Bias with zeros for the keys; None without bias."""
        if self.bias is None:
            return None
        query, others = self.bias[: self.in_features], self.bias[self.in_features :]
        return torch.cat((query, torch.zeros_like(query), others))

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x, self.weight, self.whole_bias())

    def parts(self, widths: Sequence[int]) -> list[tuple[Tensor, Tensor | None]]:
        return _split(self.weight, self.whole_bias(), widths)


class LinearGELU(Linear):
    """`gelu(x weight^T + bias)`, the first layer of a feed-forward network; oneDNN computes both in
    one pass.

    Hooks see the activated output. Do not wrap this layer in LoRA, which would add its term after
    the activation.
    """

    def forward(self, x: Tensor) -> Tensor:
        if uses_onednn(x, self.weight, self.bias):
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, 'gelu', [], 'none')
        return F.gelu(F.linear(x, self.weight, self.bias))


class FullRangeLinear(Linear):
    """`Linear` that computes float32 inputs in float32 even under float16 autocast and in float16
    models.

    For inputs that are products of activations, which can exceed the range of float16.
    """

    def forward(self, x: Tensor) -> Tensor:
        device = x.device.type
        autocast = torch.get_autocast_dtype(device) if is_autocast_on(device) else None
        if x.dtype != torch.float32 or torch.float16 not in (self.weight.dtype, autocast):
            return super().forward(x)
        with no_autocast(x):
            bias = None if self.bias is None else self.bias.float()
            return self.project(x, self.weight.float(), bias).to(self.weight.dtype)


def _split(
    weight: Tensor, bias: Tensor | None, widths: Sequence[int]
) -> list[tuple[Tensor, Tensor | None]]:
    weights = weight.split(widths)
    if bias is None:
        return [(part, None) for part in weights]
    return list(zip(weights, bias.split(widths)))


def uses_onednn(x: Tensor, *parameters: Tensor | None) -> bool:
    """Return True without gradients, in eager float32 on the CPU, where oneDNN is available and
    enabled.

    A frozen layer has none if its input has none. Gradients include forward-mode derivatives.
    Compilation, tracing and dispatch modes, such as FLOP counters, are not eager execution.
    """
    if not is_eager(x):
        return False
    has_grad = any(tensor is not None and tensor.requires_grad for tensor in (x, *parameters))
    if has_grad and torch.is_grad_enabled():
        return False
    is_float32 = x.dtype == torch.float32 and not torch.is_autocast_enabled('cpu')
    has_onednn = torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)
    return is_float32 and has_onednn and x.device.type == 'cpu' and x.numel() > 0
