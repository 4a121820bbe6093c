"""FPN with attention after chosen levels."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmdet.models.necks import FPN
from mmengine.model import ModuleDict
from torch import Tensor

from mmflatten.models.detection.insertion import build_attention, check_positions
from mmflatten.registry import MODELS


@MODELS.register_module()
class AttentionFPN(FPN):
    """mmdet's `FPN` whose chosen outputs pass an attention each.

    Levels do not see each other's attention: a level that FPN derives from the one before (by pooling, or by an extra
    convolution) is derived from it without attention.

    Args:
        attention_after: levels by their number, 1 for the finest (`fpn1` of the paper, stride 4) to `num_outs`;
            () for none.
        attention: config of the module, `dict(type='FactorizedAttention')` by default; its `in_channels` is filled in.
    """

    def __init__(self, *args: Any, attention_after: Sequence[int] = (), attention: dict | None = None,
                 **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        levels = check_positions(attention_after, self.num_outs, 'level')
        # MMEngine's own container: it passes `init_weights` on, torch's hides what is in it.
        self.attentions = ModuleDict({str(level): build_attention(attention, self.out_channels) for level in levels})

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """As `FPN.forward`: maps of the backbone in, one map of `out_channels` per level out."""
        outputs = super().forward(inputs)
        return tuple(self.attentions[str(level)](output) if str(level) in self.attentions else output
                     for level, output in enumerate(outputs, 1))
