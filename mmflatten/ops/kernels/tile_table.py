"""Tile sizes of the kernels of linear attention and the choice between them, by the registers available."""
from __future__ import annotations

from typing import NamedTuple

import torch

LARGEST_WINDOW = 256  # tokens per program: 7 x 7 and 14 x 14 windows, and late stages


class Tile(NamedTuple):
    """Tile of a kernel.

    Attributes:
        HP: heads per tile, a power of two.
        DP: channels per head, rounded up to a power of two.
        BLOCK: tokens per tile, a power of two.
        GROUPS: groups of heads.
        num_warps: warps per program.
        num_stages: pipeline stages of the loop.
    """

    HP: int
    DP: int
    BLOCK: int
    GROUPS: int
    num_warps: int
    num_stages: int = 2


def tile_of(kernel: str, feature_map: str, heads: int, width: int, dtype: torch.dtype) -> Tile:
    """Return the tile of a kernel that fits the registers of compute capabilities 8.0 and 9.0.

    Only the focused map requires all heads of a token in one tile, with one warp per head. If the registers do not
    suffice, a program computes one head and loops over the others for the norms.

    Args:
        kernel: 'state', 'output', 'query_backward', 'key_backward', 'window' or 'window_backward'.
    """
    DP, together, full = max(16, _power_of_2(width)), _power_of_2(heads), dtype.itemsize > 2
    most = {'state': 8, 'output': 4 if full else 8}.get(kernel, 1 if full else 8)
    stages = 1 if kernel.startswith('window') or full and kernel == 'state' else 2
    if feature_map == 'focused' and 1 < together <= most and DP <= 32:
        return Tile(together, DP, 16, 1, together, stages)
    return Tile(1, DP, 16 if full else 32, heads, 8 if DP > 32 else 4, stages)


def fits_window(queries: int, keys: int, feature_map: str, heads: int, width: int, dtype: torch.dtype) -> bool:
    """Return True if the window kernels run, with one program for all tokens of an image.

    They require few tokens, as many keys as queries, and heads that are independent or fit into one tile.
    """
    if queries != keys or keys > LARGEST_WINDOW:
        return False
    return feature_map != 'focused' or tile_of('window_backward', feature_map, heads, width, dtype).GROUPS == 1


def _power_of_2(number: int) -> int:
    """Return the smallest power of two that is not smaller than `number`."""
    return 1 << (number - 1).bit_length()
