"""How the kernels of linear attention are cut, and which of them run: by what their registers hold."""
from __future__ import annotations

from typing import NamedTuple

import torch

LARGEST_WINDOW = 256  # tokens that one program walks: 7 x 7 and 14 x 14 windows, and late stages


class Tile(NamedTuple):
    """How a kernel is cut: the powers of two of a tile, the groups of heads, the warps of a program, and how many
    tiles its loop has under way."""

    HP: int
    DP: int
    BLOCK: int
    GROUPS: int
    num_warps: int
    num_stages: int = 2


def tile_of(kernel: str, feature_map: str, heads: int, width: int, dtype: torch.dtype) -> Tile:
    """The tile of a kernel, by what its registers hold on compute capabilities 8.0 and 9.0.

    Only the focused map requires all heads of a token in one tile, and then a warp works on each. Where the registers
    do not suffice, a program works on a single head and sweeps over the others for the norms.

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
    """Whether the kernels of windows run, whose programs have all tokens of an image: for few tokens, and heads that do
    not need each other or fit into one tile together."""
    if queries != keys or keys > LARGEST_WINDOW:
        return False
    return feature_map != 'focused' or tile_of('window_backward', feature_map, heads, width, dtype).GROUPS == 1


def _power_of_2(number: int) -> int:
    """The next one, or the number itself."""
    return 1 << (number - 1).bit_length()
