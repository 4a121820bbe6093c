"""The rule by which a learning rate follows the batch size, in `init`, `check` and
`--auto-scale-lr`.
"""

from typing import NamedTuple


class RateRule(NamedTuple):
    """A learning rate changes with this power of the batch size."""

    name: str
    power: float

    def factor(self, ratio: float) -> float:
        """Return the factor of the rate if the batch size is multiplied by `ratio`."""
        return ratio**self.power


_LINEAR = RateRule('linear', 1.0)
_SQUARE_ROOT = RateRule('square root', 0.5)


def rate_rule(optimizer: str) -> RateRule:
    """Return the rule of an optimizer class.

    The rate of SGD is proportional to the batch size (Goyal et al., arXiv 1706.02677), that of
    RMSprop, Adam and its variants, such as AdamW, to its square root (Malladi et al., arXiv
    2205.10287). Other optimizers count as SGD, as in MMEngine.
    """
    is_adaptive = 'adam' in optimizer.lower() or optimizer == 'RMSprop'
    return _SQUARE_ROOT if is_adaptive else _LINEAR
