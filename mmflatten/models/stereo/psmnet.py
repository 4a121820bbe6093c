"""PSMNet, a pyramid stereo matching network, optionally with attention in its feature extractor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from mmengine.model import BaseModel
from mmengine.structures import PixelData
from torch import Tensor

from mmflatten.models.layers import map_shape
from mmflatten.models.stereo.aggregation import AGGREGATIONS
from mmflatten.models.stereo.data_preprocessor import crop_top_right
from mmflatten.models.stereo.disparity_loss import disparity_loss, stack_truth
from mmflatten.models.stereo.features import STRIDE, StereoFeatures
from mmflatten.ops import concat_cost_volume, soft_argmax_disparity, upcast
from mmflatten.registry import MODELS
from mmflatten.structures import StereoDataSample

MODES = ('tensor', 'loss', 'predict')


@MODELS.register_module()
class PSMNet(BaseModel):
    """Pyramid stereo matching network, which predicts the disparity of the left image of a
    rectified pair.

    Source: Chang and Chen, Pyramid Stereo Matching Network (CVPR 2018). With `attention` it is
    FA-PSMNet of Shen et al., Factorized Attention, sec. 4.2. The defaults are the official settings
    with 5,224,768 parameters. To start from the weights of a PSMNet without attention, use
    `load_from`; an attention with `zero_init` preserves its output.

    Args:
        max_disp: upper limit (exclusive) of predicted disparities in pixels; must be divisible by
            4.
        aggregation: 'stackhourglass', or 'basic' without hourglasses, which has 3,672,896
            parameters.
        attention: config of an attention module after the last stage of the features (res4), such
            as `dict(type='mmflatten.FactorizedAttention')` or
            `dict(type='mmflatten.ConventionalAttention')`. `in_channels` is set automatically.
        align_corners: `align_corners` of all resizing. The official code uses PyTorch's default,
            False since 0.4.1; its README recommends True with older weights. If in doubt, compare
            the end-point error of both.
        base_channels: channels of the stem, the matched features and the 3-D network. Other widths
            are multiples.
        depths: number of residual blocks in each of the four stages.
        pool_sizes: window sizes of the pyramid pooling, at a quarter of the resolution. Images must
            have at least 4 times the largest size.
        loss_weights: weights of the estimates in training; the last estimate is the best. The
            default for 'stackhourglass' is (0.5, 0.7, 1).
        in_channels: bands of an image. With another number than 3, `data_preprocessor` requires
            `mean` and `std` of these bands, and the data a loader that reads them. `load_from`
            adapts weights of three bands.
        data_preprocessor: by default `dict(type='mmflatten.StereoDataPreProcessor')`.

    Raises:
        ValueError: invalid arguments, or images smaller than the largest pool.
    """

    def __init__(
        self,
        max_disp: int = 192,
        aggregation: str = 'stackhourglass',
        attention: dict | None = None,
        align_corners: bool = False,
        base_channels: int = 32,
        depths: Sequence[int] = (3, 16, 3, 3),
        pool_sizes: Sequence[int] = (64, 32, 16, 8),
        loss_weights: Sequence[float] | None = None,
        in_channels: int = 3,
        data_preprocessor: dict | None = None,
        init_cfg: dict | list | None = None,
    ) -> None:
        super().__init__(
            data_preprocessor or dict(type='mmflatten.StereoDataPreProcessor'), init_cfg
        )
        _check_arguments(
            max_disp=max_disp,
            aggregation=aggregation,
            base_channels=base_channels,
            depths=depths,
            pool_sizes=pool_sizes,
        )
        self._check_bands(in_channels)
        self.in_channels = in_channels
        self.max_disp, self.align_corners = max_disp, align_corners
        self.features = StereoFeatures(
            base_channels=base_channels,
            depths=depths,
            pool_sizes=pool_sizes,
            attention=attention,
            align_corners=align_corners,
            in_channels=in_channels,
        )
        self.aggregation = AGGREGATIONS[aggregation](base_channels)
        default = self.aggregation.loss_weights
        self.loss_weights = default if loss_weights is None else loss_weights
        if not isinstance(self.loss_weights, Sequence) or len(self.loss_weights) != len(default):
            raise ValueError(
                f'loss_weights: expected {len(default)} numbers, one for each estimate of'
                f' aggregation {aggregation!r}, got {loss_weights}.'
            )

    def forward(
        self,
        inputs: dict[str, Tensor],
        data_samples: list[StereoDataSample] | None = None,
        mode: str = 'tensor',
    ) -> Tensor | tuple[Tensor, ...] | dict[str, Tensor] | list[StereoDataSample]:
        """Run the model in one of MMEngine's modes.

        Args:
            inputs: normalised images, dict(left=(B, C, H, W), right=(B, C, H, W)), of any H and W.
            data_samples: samples with the ground truth ('loss') or meta information ('predict').
            mode: 'tensor', 'loss' or 'predict'.

        Returns:
            'tensor': disparities `(B, H, W)` in pixels, in training a tuple of all estimates.
            'loss': a dict of weighted losses. 'predict': samples with `pred_disparity`, without
            padding.
        """
        if mode == 'loss':
            return self.loss(inputs, data_samples)
        if mode == 'predict':
            return self.predict(inputs, data_samples)
        if mode == 'tensor':
            estimates = self._estimate(inputs, every=self.training)
            return tuple(estimates) if self.training else estimates[0]
        raise ValueError(f'mode: expected one of {MODES}, got {mode!r}.')

    def loss(
        self, inputs: dict[str, Tensor], data_samples: list[StereoDataSample] | None
    ) -> dict[str, Tensor]:
        """Compute the weighted smooth L1 loss of each estimate, over valid pixels with disparity
        below `max_disp`.
        """
        truth, valid = stack_truth(data_samples, map_shape(inputs['left']))
        valid = valid & (truth < self.max_disp)
        estimates = self._estimate(inputs, every=True)
        losses = {}
        for number, (weight, estimate) in enumerate(zip(self.loss_weights, estimates), 1):
            losses[f'loss_disparity{number}'] = weight * disparity_loss(estimate, truth, valid)
        return losses

    def predict(
        self, inputs: dict[str, Tensor], data_samples: list[StereoDataSample] | None = None
    ) -> list[StereoDataSample]:
        """Return samples (new ones by default) with `pred_disparity` (1, H, W) of the size
        `img_shape`.
        """
        disparities = self._estimate(inputs, every=False)[0]
        samples = data_samples or [StereoDataSample() for _ in disparities]
        for sample, disparity in zip(samples, disparities):
            size = sample.get('img_shape', disparity.shape)
            sample.pred_disparity = PixelData(data=crop_top_right(disparity[None], size))
        return samples

    def _check_bands(self, in_channels: int) -> None:
        if not _are_positive_integers([in_channels]):
            raise ValueError(f'in_channels: expected a number of bands, got {in_channels!r}.')
        mean = getattr(self.data_preprocessor, 'mean', None)
        if mean is not None and len(mean) != in_channels:
            raise ValueError(
                f'in_channels: expected {len(mean)}, the numbers in data_preprocessor.mean, got'
                f' {in_channels}. Give data_preprocessor mean and std of {in_channels} bands.'
            )

    def _estimate(self, inputs: dict[str, Tensor], every: bool) -> list[Tensor]:
        """Return the last estimate `(B, H, W)`, or with `every` all estimates."""
        left, right = inputs['left'], inputs['right']
        # No variable holds the volume, so that it is freed before the scores are resized (three
        # times its memory).
        scores = self.aggregation(
            concat_cost_volume(self.features(left), self.features(right), self.max_disp // STRIDE)
        )
        size = (self.max_disp, *left.shape[-2:])
        if not every:
            scores = scores[-1:]
        return [self._regress(score, size) for score in scores]

    def _regress(self, score: Tensor, size: tuple[int, int, int]) -> Tensor:
        # In float32, because steps from resizing in half precision would show in the disparity.
        score = F.interpolate(
            upcast(score)[0], size, mode='trilinear', align_corners=self.align_corners
        )
        return soft_argmax_disparity(score[:, 0])


def _check_arguments(
    max_disp: int,
    aggregation: str,
    base_channels: int,
    depths: Sequence[int],
    pool_sizes: Sequence[int],
) -> None:
    if not isinstance(max_disp, int) or max_disp < STRIDE or max_disp % STRIDE:
        raise ValueError(
            f'max_disp: expected a positive integer divisible by {STRIDE}, the stride of the'
            f' features, got {max_disp!r}.'
        )
    if aggregation not in AGGREGATIONS:
        raise ValueError(
            f'aggregation: expected one of {sorted(AGGREGATIONS)}, got {aggregation!r}.'
        )
    if not _are_positive_integers([base_channels]):
        raise ValueError(f'base_channels: expected a positive integer, got {base_channels!r}.')
    if not _are_positive_integers(depths) or len(depths) != 4:
        raise ValueError(
            f'depths: expected four positive integers, one for each stage, got {depths!r}.'
        )
    if not _are_positive_integers(pool_sizes):
        raise ValueError(f'pool_sizes: expected at least one positive integer, got {pool_sizes!r}.')


def _are_positive_integers(numbers: Any) -> bool:
    return (
        isinstance(numbers, Sequence)
        and bool(numbers)
        and all(isinstance(number, int) and number > 0 for number in numbers)
    )
