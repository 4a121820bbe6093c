"""Explicit implementations of the official models, for settings without a golden case.

Each test computes the scores of a classifier from the equations of the paper and knowledge of the
official code, with random weights under official names. It converts the weights and compares with
the backbone here in float64.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.registry import MODELS

CLASSES = 5


class OfficialWeights(dict):
    """A state dict that generates each weight on first use, with its name as seed."""

    def weight(self, name: str, *shape: int) -> Tensor:
        if name not in self:
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            value = torch.randn(shape, generator=generator, dtype=torch.float64)
            if name.endswith('running_var') or (name.endswith('.weight') and len(shape) == 1):
                value = 1 + 0.1 * value.abs()
            elif name.endswith('.weight'):
                value = value * 0.7 / value[0].numel() ** 0.5
            else:
                value = 0.2 * value
            self[name] = value
        assert self[name].shape == shape, f'{name} is used with two shapes'
        return self[name]

    def linear(self, name: str, x: Tensor, out: int, bias: bool = True) -> Tensor:
        return F.linear(
            x,
            self.weight(f'{name}.weight', out, x.shape[-1]),
            self.weight(f'{name}.bias', out) if bias else None,
        )

    def layer_norm(self, name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
        C = x.shape[-1]
        return F.layer_norm(
            x, (C,), self.weight(f'{name}.weight', C), self.weight(f'{name}.bias', C), eps
        )

    def batch_norm(self, name: str, x: Tensor) -> Tensor:
        mean, var, weight, bias = (
            self.weight(f'{name}.{leaf}', x.shape[1])
            for leaf in ('running_mean', 'running_var', 'weight', 'bias')
        )
        self[f'{name}.num_batches_tracked'] = torch.tensor(1)
        return F.batch_norm(x, mean, var, weight, bias, eps=1e-5)

    def conv(
        self,
        name: str,
        x: Tensor,
        out: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = True,
    ) -> Tensor:
        weight = self.weight(f'{name}.weight', out, x.shape[1] // groups, kernel, kernel)
        return F.conv2d(
            x,
            weight,
            self.weight(f'{name}.bias', out) if bias else None,
            stride,
            padding,
            groups=groups,
        )

    def depthwise(self, name: str, x_BNC: Tensor, H: int, W: int, kernel: int) -> Tensor:
        """Apply a depthwise convolution to the tokens of a map."""
        C = x_BNC.shape[-1]
        x = x_BNC.transpose(1, 2).reshape(-1, C, H, W)
        return self.conv(name, x, C, kernel, 1, kernel // 2, C).flatten(2).transpose(1, 2)

    def mlp(self, block: str, x: Tensor, ratio: float = 4, eps: float = 1e-5) -> Tensor:
        hidden = self.linear(
            f'{block}.mlp.fc1', self.layer_norm(f'{block}.norm2', x, eps), int(x.shape[-1] * ratio)
        )
        return self.linear(f'{block}.mlp.fc2', F.gelu(hidden), x.shape[-1])

    def softmax_attention(
        self, q: Tensor, k: Tensor, v: Tensor, heads: int, bias: Tensor | float = 0.0
    ) -> Tensor:
        q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)

    def focused_attention(
        self,
        name: str,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        heads: int,
        map_size: tuple[int, int],
        power: int = 3,
        kernel: int = 5,
    ) -> Tensor:
        """FLatten's attention on projected tokens of a map or window; `k` and `v` may be from a
        reduced map.
        """
        B, N, C = q.shape
        d = C // heads
        k = k + self.weight(f'{name}.positional_encoding', 1, k.shape[1], C)
        q, k = (
            (x.relu() + 1e-6) / F.softplus(self.weight(f'{name}.scale', 1, 1, C)) for x in (q, k)
        )
        q, k = (
            x**power / (x**power).norm(dim=-1, keepdim=True) * x.norm(dim=-1, keepdim=True)
            for x in (q, k)
        )
        if k.shape[1] < N:
            local = F.interpolate(v.transpose(1, 2), size=N, mode='linear').transpose(1, 2)
        else:
            local = v
        q, k, v = (x.unflatten(-1, (heads, d)).transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-2, -1)
        out = (scores @ v / k.shape[2]) / (scores.mean(-1, keepdim=True) + 1e-6)
        local = local.transpose(1, 2).reshape(B * heads, d, *map_size)
        local = self.conv(f'{name}.dwc', local, d, kernel, 1, kernel // 2, d)
        return out.transpose(1, 2).flatten(2) + local.reshape(B, C, N).transpose(1, 2)

    def head(self, x: Tensor) -> Tensor:
        return self.linear('head', x, CLASSES)


class Classifier(nn.Module):
    """A backbone of this project and a head, with the names of mmpretrain's classifier."""

    def __init__(self, backbone: dict) -> None:
        super().__init__()
        self.backbone = MODELS.build(backbone)
        self.head = nn.ModuleDict({'fc': nn.Linear(self.backbone.out_channels[-1], CLASSES)})

    def forward(self, image: Tensor) -> Tensor:
        features = self.backbone(image)[-1]
        return self.head['fc'](features.mean((2, 3)) if features.dim() == 4 else features)


Official = Callable[[OfficialWeights, Tensor], Tensor]


@pytest.fixture
def assert_parity() -> Callable[[str, Official, dict, tuple[int, int]], None]:
    """`assert_parity(family, official, backbone, (H, W))` checks equal scores for two images and
    lossless revert.
    """

    def check(family: str, official: Official, backbone: dict, size: tuple[int, int]) -> None:
        weights = OfficialWeights()
        images = torch.randn(
            2, 3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        )
        expected = official(weights, images)
        model = Classifier({'img_size': size, **backbone}).double().eval()
        model.load_state_dict(convert_state_dict(weights, family))
        with torch.no_grad():
            scores = model(images)
        torch.testing.assert_close(
            scores / expected.abs().max(), expected / expected.abs().max(), rtol=0, atol=1e-10
        )
        reverted = revert_state_dict(model.state_dict(), family)
        # The unused norm of FLatten-PVT is not restored.
        unused = {'norm.weight', 'norm.bias'} if family == 'flatten_pvt' else set()
        assert weights.keys() - unused == reverted.keys()
        assert all(torch.equal(value, weights[name]) for name, value in reverted.items())

    return check


def partition(x_BHWC: Tensor, h: int, w: int) -> Tensor:
    """Split `(B, H, W, C)` into windows `(B * nW, h * w, C)`."""
    B, H, W, C = x_BHWC.shape
    return x_BHWC.view(B, H // h, h, W // w, w, C).transpose(2, 3).reshape(-1, h * w, C)


def merge(windows: Tensor, h: int, w: int, H: int, W: int) -> Tensor:
    """Merge windows into a map, the inverse of `partition`."""
    C = windows.shape[-1]
    return windows.view(-1, H // h, W // w, h, w, C).transpose(2, 3).reshape(-1, H, W, C)


@pytest.fixture
def windows():
    """The functions `partition` and `merge`."""
    return partition, merge
