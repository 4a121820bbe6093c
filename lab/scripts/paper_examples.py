"""Draw two examples of papers, which need no model: python lab/scripts/paper_examples.py
FIGURE.png.

- How the focused function pulls vectors to their nearest axis, and four scores of it (FLatten
  Transformer, Figure 4). The paper does not print its vectors. These have its scores, and were
  found by least squares.
- How many tokens a query covers with those it attends to (Focal Transformer, Figure 3). The paper
  does not print its rings. Here a window is followed by one ring of pooled windows of each
  granularity, and by further ones of 8.
"""

import sys

import torch

from mmflatten.ops import focused_map
from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines

QUERY = torch.tensor([[0.984, 0.176]])
KEYS = torch.tensor([[1.006, 0.180], [0.405, 0.719], [0.522, 1.161], [0.351, 0.862]])
POWERS = range(1, 9)
# of the window, side of the largest pooled window, end of the axis
SIDE, COARSEST, TOKENS = 7, 8, 400


def scores(power: float) -> list[float]:
    """Weights of the four keys behind the focused function; power 1 is linear attention with
    ReLU.
    """
    weights = focused_map(KEYS, power) @ focused_map(QUERY, power)[0]
    return (weights / weights.sum()).tolist()


def pulled(power: float, angles: torch.Tensor) -> list[float]:
    """Angles of vectors in the plane behind the focused function, in degrees."""
    x, y = focused_map(torch.stack((angles.cos(), angles.sin()), dim=-1), power).T
    return torch.atan2(y, x).rad2deg().tolist()


def coverage() -> list[tuple[int, int]]:
    """Tokens that a query of focal attention attends to, and tokens that they cover, ring by
    ring.
    """
    side, granularity, found = SIDE, 1, [(SIDE**2, SIDE**2)]
    while found[-1][0] < TOKENS:
        granularity = min(2 * granularity, COARSEST)
        area, side = side**2, side + 2 * granularity
        found.append((found[-1][0] + -(-(side**2 - area) // granularity**2), side**2))
    return found


if __name__ == '__main__':
    degrees = torch.linspace(0, torch.pi / 2, 46)
    tokens, covered = zip(*coverage())
    save_png(
        sys.argv[1],
        {
            'pull': Lines(
                {
                    f'power {power}': (degrees.rad2deg().tolist(), pulled(power, degrees))
                    for power in (1, 3, 6)
                },
                'angle of a vector (degrees)',
                'behind the focused function',
            ),
            'four scores': Lines(
                {
                    f'key {key}': (POWERS, found)
                    for key, found in enumerate(zip(*map(scores, POWERS)), 1)
                },
                'power of the focused function',
                'score',
                markers=True,
            ),
            'receptive field': Lines(
                {'self-attention': (tokens, tokens), 'focal': (tokens, covered)},
                'tokens that a query attends to',
                'tokens covered',
                markers=True,
                log=True,
            ),
        },
    )
