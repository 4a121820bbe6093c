"""Network of the mask head: blocks of queries and tokens, and masks from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from mmengine.model import BaseModule, ModuleList
from torch import Tensor, nn

from mmflatten.models.backbones.plain import PartlyEncoded
from mmflatten.models.detection.simple_feature_pyramid import ChannelNorm
from mmflatten.models.layers import (
    GridTable,
    map_shape,
    map_to_tokens,
    split_prefix,
    tokens_to_map,
)
from mmflatten.models.mask_head.masked_attention import can_mask, mask_probabilities, visible_keys
from mmflatten.models.mask_head.pixel_decoder import PixelDecoder, resize_map
from mmflatten.models.mask_head.query_blocks import query_blocks

_EPS = 1e-6


class EncoderMaskNetwork(BaseModule):
    """Classes and masks of learned queries that join the tokens of the last blocks of an encoder.

    Queries and tokens are one sequence, `x = [queries, tokens]`, for every block `x = block(x)`.
    After the blocks, a linear layer maps each query to class logits, a perceptron maps it to a
    vector, and the mask logits are the products of this vector with the map of the tokens, upscaled
    by transposed convolutions. Source: Kerssies et al., Your ViT is Secretly an Image Segmentation
    Model (EoMT, CVPR 2025), sec. 3.

    In training, every block is preceded by a prediction, and with its probability
    `mask_probabilities` a query attends only to the tokens inside the mask that it predicts there
    (masked attention). The probability falls from 1 to 0, one block after the other. Evaluation has
    no masks and no predictions but the last. Attention without logits per query (`has_logits` of
    the mixer is False) is never masked.

    The blocks are those of a plain backbone (`joint`), or blocks of the head on the map of a pixel
    decoder: the sum of the map at `token_level` and the coarser maps. The finer maps are added
    while the tokens are upscaled.

    Args:
        in_channels: channels of the maps of the backbone, from fine to coarse; with `joint` those
            of its tokens.
        num_classes: classes without "no object".
        num_queries: number of queries `Q`.
        num_blocks: blocks that queries and tokens share.
        joint: these are the last blocks of the backbone, and no other blocks are built.
        embed_dims: channels `C` of queries and tokens; with `joint` those of the backbone.
        num_heads: heads of the attention of the head's blocks.
        attn_types: one letter for all blocks of the head, or one per block, as in a backbone: 'S'
            softmax, 'L' focused linear attention. With `joint` the backbone's letters apply.
        mixers: maps letters to mixer configs, as in a backbone.
        mlp_ratio: hidden width of the feed-forward networks divided by `C`.
        grid_size: `(H, W)` of the tokens in training, the size of tables of positions.
        token_level: index of the map that becomes tokens; None for the last but one, or the only
            one.
        num_upscales: factors of 2 by which the map of tokens is upscaled; None for 2 from a single
            map, otherwise up to the finest map.
        anneal_steps: training steps over which masked attention is annealed away; 0 for no masks.
            Steps are counted by forward passes in training, in the buffer `step`.

    Raises:
        ValueError: an invalid number, letter or level.
    """

    step: Tensor

    def __init__(
        self,
        in_channels: Sequence[int],
        num_classes: int,
        *,
        num_queries: int = 100,
        num_blocks: int = 3,
        joint: bool = False,
        embed_dims: int = 256,
        num_heads: int = 8,
        attn_types: str = 'S',
        mixers: Mapping[str, dict] | None = None,
        mlp_ratio: float = 4.0,
        grid_size: tuple[int, int] = (40, 40),
        token_level: int | None = None,
        num_upscales: int | None = None,
        anneal_steps: int = 0,
        init_cfg: dict | list | None = None,
    ) -> None:
        super().__init__(init_cfg)
        _check_numbers(num_queries=num_queries, num_blocks=num_blocks, num_classes=num_classes)
        if not isinstance(anneal_steps, int) or anneal_steps < 0:
            raise ValueError(
                f'anneal_steps: expected a number of training steps, 0 for no masks, got'
                f' {anneal_steps!r}.'
            )
        if joint and len(in_channels) != 1:
            raise ValueError(
                f'in_channels: expected one number, the channels of the tokens, with joint=True,'
                f' got {list(in_channels)}.'
            )
        self.num_blocks = num_blocks
        self.joint = joint
        self.anneal_steps = anneal_steps
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

        number_of_finer = 0
        if joint:
            embed_dims = in_channels[0]
        else:
            self.pixel_decoder = PixelDecoder(in_channels, embed_dims, token_level)
            number_of_finer = self.pixel_decoder.token_level
            self.position = GridTable(embed_dims, grid_size, std=0.02)
            self.blocks = query_blocks(
                num_blocks=num_blocks,
                attn_types=attn_types,
                mixers=mixers,
                embed_dims=embed_dims,
                num_heads=num_heads,
                hidden_dims=int(embed_dims * mlp_ratio),
                grid_size=grid_size,
            )
            self.norm = nn.LayerNorm(embed_dims, _EPS)

        if num_upscales is None:
            num_upscales = number_of_finer if len(in_channels) > 1 else 2
        if num_upscales < number_of_finer:
            raise ValueError(
                f'num_upscales: expected at least {number_of_finer}, one for each map finer than'
                f' the tokens, got {num_upscales}.'
            )
        self.queries = nn.Embedding(num_queries, embed_dims)
        self.class_head = nn.Linear(embed_dims, num_classes + 1)
        self.mask_head = nn.Sequential(
            nn.Linear(embed_dims, embed_dims),
            nn.GELU(),
            nn.Linear(embed_dims, embed_dims),
            nn.GELU(),
            nn.Linear(embed_dims, embed_dims),
        )
        self.upscales = ModuleList(_upscale(embed_dims) for _ in range(num_upscales))

    def forward(
        self, features: Sequence[Tensor] | PartlyEncoded
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Class logits `(B, Q, num_classes + 1)` and mask logits `(B, Q, H, W)`, in float32.

        In training the lists have `num_blocks + 1` predictions, those before each block and the
        last; in evaluation only the last.

        Args:
            features: maps of a backbone or neck, or with `joint` the result of
                `PlainBackbone.forward_until`.
        """
        encoded, finer = self._tokens(features)
        x_BNC = encoded.x_BNC
        queries_BQC = self.queries.weight.to(x_BNC.dtype).expand(x_BNC.shape[0], -1, -1)
        x_BNC = torch.cat((queries_BQC, x_BNC), dim=1)

        class_logits: list[Tensor] = []
        mask_logits: list[Tensor] = []
        for index, block in enumerate(encoded.blocks):
            visible = None
            if self.training:
                classes_BQK, masks_BQHW = self._predict(x_BNC, encoded, finer)
                class_logits.append(classes_BQK)
                mask_logits.append(masks_BQHW)
                if self.anneal_steps and can_mask(block):
                    visible = visible_keys(
                        masks_BQHW,
                        encoded.hw_shape,
                        number=x_BNC.shape[1],
                        probability=self.mask_probabilities()[index],
                    )
            x_BNC = block(x_BNC, encoded.hw_shape, visible)
        classes_BQK, masks_BQHW = self._predict(x_BNC, encoded, finer)
        if self.training:
            self.step += 1
        return [*class_logits, classes_BQK], [*mask_logits, masks_BQHW]

    def mask_probabilities(self) -> Tensor:
        """Probability of masked attention for each block at the current step, `(num_blocks,)`."""
        return mask_probabilities(self.step, self.num_blocks, self.anneal_steps)

    def _tokens(
        self, features: Sequence[Tensor] | PartlyEncoded
    ) -> tuple[PartlyEncoded, Sequence[Tensor]]:
        """Tokens with their blocks and norm, and the maps that are finer than the tokens."""
        if isinstance(features, PartlyEncoded) != self.joint:
            raise ValueError(
                f'joint: expected {not self.joint} for {type(features).__name__}, got {self.joint}.'
                ' Only EncoderMaskDetector and EncoderMaskSegmentor support joint=True.'
            )
        if isinstance(features, PartlyEncoded):
            return features, ()
        map_BCHW, finer = self.pixel_decoder(features)
        hw_shape = map_shape(map_BCHW)
        x_BNC = self.position(map_to_tokens(map_BCHW), hw_shape)
        return PartlyEncoded(x_BNC, hw_shape, self.blocks, self.norm), finer

    def _predict(
        self, x_BNC: Tensor, encoded: PartlyEncoded, finer: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        x_BNC = encoded.norm(x_BNC)
        queries_BQC = x_BNC[:, : self.queries.num_embeddings]
        _, tokens_BNC = split_prefix(x_BNC, encoded.hw_shape)
        map_BCHW = tokens_to_map(tokens_BNC, encoded.hw_shape)
        for index, upscale in enumerate(self.upscales):
            map_BCHW = upscale(map_BCHW)
            if index < len(finer):
                map_BCHW = resize_map(map_BCHW, map_shape(finer[index])) + finer[index]
        masks_BQHW = torch.einsum('bqc,bchw->bqhw', self.mask_head(queries_BQC), map_BCHW)
        return self.class_head(queries_BQC).float(), masks_BQHW.float()


def _check_numbers(**numbers: int) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int) or number < 1:
            raise ValueError(f'{name}: expected a positive integer, got {number!r}.')


def _upscale(embed_dims: int) -> nn.Sequential:
    """Double the sides of a map."""
    return nn.Sequential(
        nn.ConvTranspose2d(embed_dims, embed_dims, kernel_size=2, stride=2),
        nn.GELU(),
        nn.Conv2d(embed_dims, embed_dims, 3, padding=1, groups=embed_dims, bias=False),
        ChannelNorm(embed_dims, _EPS),
    )
