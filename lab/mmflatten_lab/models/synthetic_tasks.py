"""Models of the synthetic tasks: a classifier of every token, and an attention outside a
transformer block.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.attention import build_mixer
from mmflatten.models.layers import FeedForward, Linear, output_map
from mmflatten.registry import MODELS

NO_LABEL = -1


@MODELS.register_module()
class PlainMixer(BaseModule):
    """One attention and a feed-forward network, without norms, positions and residual connections.

    `(B, 3, H, W) -> (B, C, H / patch, W / patch)`. Neither the patch embedding nor the projections
    have a bias, so a token of twice the length has a query of twice the length. Tokens reach the
    output only through the attention.

    Args:
        linear_attention: the attention.
        embed_dims, num_heads, patch_size, img_size: as in `FLattenDeiT`.
    """

    def __init__(
        self,
        linear_attention: dict,
        embed_dims: int = 64,
        num_heads: int = 2,
        patch_size: int = 8,
        img_size: int = 64,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        side = img_size // patch_size
        self.embed = nn.Conv2d(3, embed_dims, patch_size, patch_size, bias=False)
        self.mixer = build_mixer(
            linear_attention,
            embed_dims=embed_dims,
            num_heads=num_heads,
            grid_size=(side, side),
            qkv_bias=False,
        )
        self.ffn = FeedForward(embed_dims, 4 * embed_dims)

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor]:
        map_BCHW = self.embed(image_B3HW)
        hw_shape = tuple(map_BCHW.shape[2:])
        mixed_BNC = self.mixer(map_BCHW.flatten(2).transpose(1, 2), hw_shape)
        return (output_map(mixed_BNC + self.ffn(mixed_BNC, hw_shape), hw_shape),)


@MODELS.register_module()
class CellHead(BaseModule):
    """A linear classifier of every token. Samples have `cell_labels`, -1 where there is none, and
    get `cell_classes`.

    Args:
        in_channels: channels of the map.
        num_classes: number of classes.
    """

    def __init__(self, in_channels: int, num_classes: int, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.fc = Linear(in_channels, num_classes)

    def loss(
        self, feats: tuple[Tensor, ...], data_samples: list[Any], **kwargs: Any
    ) -> dict[str, Tensor]:
        labels_BN = torch.stack([sample.cell_labels for sample in data_samples]).to(
            feats[-1].device
        )
        return dict(
            loss=F.cross_entropy(self(feats).transpose(1, 2), labels_BN, ignore_index=NO_LABEL)
        )

    def predict(
        self, feats: tuple[Tensor, ...], data_samples: list[Any], **kwargs: Any
    ) -> list[Any]:
        for sample, classes in zip(data_samples, self(feats).argmax(-1).cpu()):
            sample.set_data(dict(cell_classes=classes))
        return data_samples

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Scores `(B, N, classes)` of the last map `(B, C, H, W)`."""
        return self.fc(feats[-1].flatten(2).transpose(1, 2))
