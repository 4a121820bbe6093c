"""PSMNet: pyramid stereo matching, with attention in its monocular half where wanted."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from mmengine.model import BaseModel
from mmengine.structures import PixelData
from torch import Tensor

from mmflatten.models.layers import map_shape
from mmflatten.models.stereo.aggregation import AGGREGATIONS
from mmflatten.models.stereo.disparity_loss import disparity_loss, stack_truth
from mmflatten.models.stereo.features import STRIDE, StereoFeatures
from mmflatten.models.stereo.padding import crop_top_right
from mmflatten.ops import concat_cost_volume, soft_argmax_disparity, upcast
from mmflatten.registry import MODELS
from mmflatten.structures import StereoDataSample

MODES = ('tensor', 'loss', 'predict')


@MODELS.register_module()
class PSMNet(BaseModel):
    """Disparity of the left image from a rectified pair.

    Source: Chang and Chen, Pyramid Stereo Matching Network (CVPR 2018); with `attention`, FA-PSMNet of Shen et al.,
    Factorized Attention, sec. 4.2. Defaults are the official ones, 5,224,768 parameters. Start from the weights of
    another PSMNet by `load_from`; an attention with `zero_init` then changes nothing at first.

    Args:
        max_disp: disparities from 0 to below `max_disp` pixels are told apart; must be divisible by 4.
        aggregation: 'stackhourglass', or 'basic', which has no hourglasses and 3,672,896 parameters.
        attention: config of a module on maps behind the last stage of the features (res4), such as
            `dict(type='mmflatten.FactorizedAttention')` or `dict(type='mmflatten.ConventionalAttention')`; its
            `in_channels` is filled in.
        align_corners: of every resizing. The official code leaves it to PyTorch, whose default has been False since
            0.4.1; its README asks for True with older weights. Which one weights need, their end-point error tells.
        base_channels: of the stem, of the matched features and of the 3-D network; everything else is a multiple.
        depths: residual blocks of the four stages.
        pool_sizes: of the pyramid pooling, at a quarter of the resolution; images need 4 times the largest.
        loss_weights: of the estimates in training, the last the best; by default (0.5, 0.7, 1) for 'stackhourglass'.
        data_preprocessor: `dict(type='mmflatten.StereoDataPreProcessor')` by default.

    Raises:
        ValueError: arguments that do not fit; images smaller than the largest pool.
    """

    def __init__(self, max_disp: int = 192, aggregation: str = 'stackhourglass', attention: dict | None = None,
                 align_corners: bool = False, base_channels: int = 32, depths: Sequence[int] = (3, 16, 3, 3),
                 pool_sizes: Sequence[int] = (64, 32, 16, 8), loss_weights: Sequence[float] | None = None,
                 data_preprocessor: dict | None = None, init_cfg: dict | list | None = None) -> None:
        super().__init__(data_preprocessor or dict(type='mmflatten.StereoDataPreProcessor'), init_cfg)
        _check_arguments(max_disp, aggregation, base_channels, depths, pool_sizes)
        self.max_disp, self.align_corners = max_disp, align_corners
        self.features = StereoFeatures(base_channels, depths, pool_sizes, attention, align_corners)
        self.aggregation = AGGREGATIONS[aggregation](base_channels)
        usual = self.aggregation.loss_weights
        self.loss_weights = usual if loss_weights is None else loss_weights
        if not isinstance(self.loss_weights, Sequence) or len(self.loss_weights) != len(usual):
            raise ValueError(f'loss_weights ({loss_weights}) must be {len(usual)} numbers, one for each estimate of '
                             f'aggregation {aggregation!r}')

    def forward(self, inputs: dict[str, Tensor], data_samples: list[StereoDataSample] | None = None,
                mode: str = 'tensor') -> Tensor | tuple[Tensor, ...] | dict[str, Tensor] | list[StereoDataSample]:
        """As MMEngine's models; `inputs` = dict(left=(B, 3, H, W), right=(B, 3, H, W)), normalised, of any H and W.

        Returns:
            For 'tensor' disparities `(B, H, W)` in pixels, in training a tuple of all estimates; for 'loss' a dict of
            weighted losses; for 'predict' samples with `pred_disparity`, without padding.
        """
        if mode == 'loss':
            return self.loss(inputs, data_samples)
        if mode == 'predict':
            return self.predict(inputs, data_samples)
        if mode == 'tensor':
            estimates = self._estimate(inputs, every=self.training)
            return tuple(estimates) if self.training else estimates[0]
        raise ValueError(f'mode ({mode!r}) must be one of {MODES}')

    def loss(self, inputs: dict[str, Tensor], data_samples: list[StereoDataSample] | None) -> dict[str, Tensor]:
        """Smooth L1 over pixels with valid truth below `max_disp`, one weighted entry per estimate."""
        truth, valid = stack_truth(data_samples, map_shape(inputs['left']))
        valid = valid & (truth < self.max_disp)
        estimates = self._estimate(inputs, every=True)
        return {f'loss_disparity{number}': weight * disparity_loss(estimate, truth, valid)
                for number, (weight, estimate) in enumerate(zip(self.loss_weights, estimates), 1)}

    def predict(self, inputs: dict[str, Tensor],
                data_samples: list[StereoDataSample] | None = None) -> list[StereoDataSample]:
        """Samples with `pred_disparity` (1, H, W) of their `img_shape`; new ones where there are none."""
        disparities = self._estimate(inputs, every=False)[0]
        samples = data_samples or [StereoDataSample() for _ in disparities]
        for sample, disparity in zip(samples, disparities):
            size = sample.get('img_shape', disparity.shape)
            sample.pred_disparity = PixelData(data=crop_top_right(disparity[None], size))
        return samples

    def _estimate(self, inputs: dict[str, Tensor], every: bool) -> list[Tensor]:
        """The last estimate `(B, H, W)` alone, or every one."""
        left, right = inputs['left'], inputs['right']
        # The volume is not kept by name: resizing the scores takes three times its memory.
        scores = self.aggregation(
            concat_cost_volume(self.features(left), self.features(right), self.max_disp // STRIDE))
        size = (self.max_disp, *left.shape[-2:])
        return [self._regress(score, size) for score in (scores if every else scores[-1:])]

    def _regress(self, score: Tensor, size: tuple[int, int, int]) -> Tensor:
        # In float32: resizing in half precision would leave steps that the soft argmax turns into disparity.
        score = F.interpolate(upcast(score)[0], size, mode='trilinear', align_corners=self.align_corners)
        return soft_argmax_disparity(score[:, 0])


def _check_arguments(max_disp: int, aggregation: str, base_channels: int, depths: Sequence[int],
                     pool_sizes: Sequence[int]) -> None:
    if not isinstance(max_disp, int) or max_disp < STRIDE or max_disp % STRIDE:
        raise ValueError(f'max_disp ({max_disp!r}) must be a positive integer divisible by {STRIDE}, the stride of the '
                         'features')
    if aggregation not in AGGREGATIONS:
        raise ValueError(f'aggregation ({aggregation!r}) must be one of {sorted(AGGREGATIONS)}')
    if not _positive([base_channels]):
        raise ValueError(f'base_channels ({base_channels!r}) must be a positive integer')
    if not _positive(depths) or len(depths) != 4:
        raise ValueError(f'depths ({depths!r}) must be four positive integers, one for each stage')
    if not _positive(pool_sizes):
        raise ValueError(f'pool_sizes ({pool_sizes!r}) must be positive integers, at least one')


def _positive(numbers: Any) -> bool:
    return isinstance(numbers, Sequence) and bool(numbers) and all(
        isinstance(number, int) and number > 0 for number in numbers)
