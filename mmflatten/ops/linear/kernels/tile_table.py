"""Tile sizes of the kernels of linear attention, and the shapes that they are worth."""

from __future__ import annotations

from typing import NamedTuple

BLOCK = 64
# Most warp instructions per channel of a token in a training step (compute capability 9.0; 3 to 24
# heads of 32, 1 to 8 of 64, 49 to 3,136 tokens), and the least bytes that eager code in half
# precision moves.
INSTRUCTIONS = {'focused': 10.2, 'relu': 5.4}
EAGER_BYTES = {'focused': 524, 'relu': 209}
# an H100 issues 9.3e11 warp instructions and moves 3.35e12 bytes per second
BYTES_PER_INSTRUCTION = 3.6


class Tile(NamedTuple):
    """Tile of a kernel.

    Attributes:
        DP: channels per tile, a power of two.
        BLOCK: tokens per tile, a power of two; at least 16, except for the norms.
        num_warps: warps per program.
        num_stages: pipeline stages of the loop.
    """

    DP: int
    BLOCK: int
    num_warps: int
    num_stages: int = 1


def tile_of(kernel: str, width: int) -> Tile:
    """Return the tile of a kernel that fits the registers of compute capabilities 8.0 and 9.0.

    Args:
        kernel: name of the kernel.
        width: channels of a head, or of all heads for 'norms'.
    """
    DP = max(16, 1 << (width - 1).bit_length())  # the next power of two
    if kernel == 'norms':
        return Tile(DP, max(1, 1024 // DP), 1)
    masked = DP > width  # the masks of padded channels take registers
    return Tile(DP, BLOCK, 8 if masked and kernel == 'key_backward' else 4)


def is_cheaper(tokens: int, width: int, feature_map: str) -> bool:
    """Return True if the counted instructions of a training step take less time than the bytes of
    eager code.

    The number of heads hardly matters, because a program computes one head. Padding of tokens and
    channels counts.
    """
    tile = tile_of('state', width)
    padding = -(-tokens // tile.BLOCK) * tile.BLOCK * tile.DP / (tokens * width)
    kind = 'focused' if feature_map == 'focused' else 'relu'
    return INSTRUCTIONS[kind] * padding * BYTES_PER_INSTRUCTION < EAGER_BYTES[kind]
