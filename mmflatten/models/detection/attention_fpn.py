"""FPN with attention after selected levels."""

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
    """mmdet's `FPN` with attention applied to selected outputs.

    The attention of one level does not affect other levels. Extra levels, which FPN derives from
    the previous level by pooling or convolution, use that level's map before attention.

    Args:
        attention_after: level numbers from 1 (the finest, the paper's `fpn1` with stride 4) to
            `num_outs`; () for none.
        attention: config of the attention module, by default `dict(type='FactorizedAttention')`.
            `in_channels` is set automatically.
    """

    def __init__(
        self,
        *args: Any,
        attention_after: Sequence[int] = (),
        attention: dict | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        levels = check_positions(attention_after, self.num_outs, 'level')
        # MMEngine's container forwards `init_weights` to its modules; torch's does not.
        self.attentions = ModuleDict(
            {str(level): build_attention(attention, self.out_channels) for level in levels}
        )

    def forward(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Compute one map of `out_channels` per level from the maps of the backbone, as
        `FPN.forward`.
        """
        outputs = []
        for level, output in enumerate(super().forward(inputs), 1):
            if str(level) in self.attentions:
                output = self.attentions[str(level)](output)
            outputs.append(output)
        return tuple(outputs)
