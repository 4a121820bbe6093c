"""Blocks of tokens that stay in a processor's cache while several passes over memory are made."""
from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

NUMBERS = 2 ** 17  # half a megabyte in float32


def token_blocks(x_BNC: Tensor) -> Iterator[tuple[slice, slice]]:
    """Which images and which of their tokens to take one after the other, `x_BNC[block]`; on a GPU all at once."""
    B, N, C = x_BNC.shape
    if x_BNC.device.type != 'cpu':
        yield slice(None), slice(None)
        return
    tokens = max(1, NUMBERS // C)
    images = max(1, tokens // max(1, N))
    for image in range(0, B, images):
        for token in range(0, N, tokens):
            yield slice(image, image + images), slice(token, token + tokens)
