"""ResNet and ResNeXt with attention after selected stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmdet.models.backbones import ResNet, ResNeXt

from mmflatten.models.detection.insertion import build_attention, check_positions
from mmflatten.registry import MODELS


class AttentionAfterStages(ResNet):
    """mmdet's ResNet with attention after the last block of selected stages.

    The attention is the last module of `layer{k}`, named `attention`. All other weights keep their
    names, so weights of torchvision and of mmdet's detectors load as into the plain network.

    Args:
        attention_after: stage numbers, 1 to 4 for `layer1` to `layer4`, which are `res1` to `res4`
            in the paper (`res3` has stride 16, `res4` stride 32); () for none.
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
        for stage in check_positions(attention_after, self.num_stages, 'stage'):
            channels = self.block.expansion * self.base_channels * 2 ** (stage - 1)
            layer = getattr(self, f'layer{stage}')
            layer.add_module('attention', build_attention(attention, channels))

    def train(self, mode: bool = True) -> AttentionAfterStages:
        super().train(mode)
        # mmdet's method returns None, which breaks expressions such as `model.eval()(image)`
        return self

    def _freeze_stages(self) -> None:
        """Freeze stages except for their attention, which is not pre-trained and would stay
        random.
        """
        super()._freeze_stages()
        for stage in range(1, self.frozen_stages + 1):
            attention = getattr(getattr(self, f'layer{stage}'), 'attention', None)
            if attention is not None:
                attention.requires_grad_(True).train(self.training)


@MODELS.register_module()
class AttentionResNet(AttentionAfterStages):
    """mmdet's `ResNet` with the additional arguments of `AttentionAfterStages`."""


@MODELS.register_module()
class AttentionResNeXt(AttentionAfterStages, ResNeXt):
    """mmdet's `ResNeXt` with the additional arguments of `AttentionAfterStages`."""
