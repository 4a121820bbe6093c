"""Blocks of tokens that fit in the CPU cache."""
from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

BLOCK_ELEMENTS = 2 ** 17  # half a megabyte in float32


def token_blocks(x_BNC: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield slices of images and tokens, `x_BNC[block]`, that fit in the CPU cache. On a GPU there is one block."""
    B, N, C = x_BNC.shape
    if x_BNC.device.type != 'cpu':
        yield slice(None), slice(None)
        return
    tokens = max(1, BLOCK_ELEMENTS // C)
    images = max(1, tokens // max(1, N))
    for image in range(0, B, images):
        for token in range(0, N, tokens):
            yield slice(image, image + images), slice(token, token + tokens)
