"""Export of segmentors."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel, ExportError
from mmflatten.ops.resize import pool_cells

EPSILON = 1e-6  # thresholds of 0 and 1 have no finite logit


class _Upsample(nn.Module):
    """mmseg's `Upsample` by an integer factor.

    The original converts the size to `int`, which would fix an open size.
    """

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.factor = int(original.scale_factor)
        self.options = dict(mode=original.mode, align_corners=original.align_corners)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.interpolate(
            x_BCHW, [side * self.factor for side in x_BCHW.shape[-2:]], **self.options
        )


class _PoolCells(nn.Module):
    """`nn.AdaptiveAvgPool2d` with one side, as in the pyramid pooling of UperNet and PSPNet.

    The original would keep the cells of the size of the trace at an open size.
    """

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return pool_cells(x_BCHW, self.side)


class Exported(ExportedModel):
    """Logits of the classes at the size of the image, `(B, classes, H, W)`.

    They are computed without a sliding window; those of queries are their masks weighted by the
    probabilities of the classes. A segmentor with one output and a threshold has the
    logit of the threshold as that of its first class: the largest logit decides in the same way.
    """

    task, outputs = 'segmentation', ('logits',)

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        # mmseg pads the images of a test to a multiple of it.
        test_cfg = getattr(model.data_preprocessor, 'test_cfg', None) or {}
        self.divisor = max(self.divisor, test_cfg.get('size_divisor') or 1)
        self.queries = _queries(model.decode_head, self.divisor)
        for name, module in list(model.named_modules(remove_duplicate=False)):
            open_module = _with_open_size(module)
            if open_module is not None:
                model.set_submodule(name, open_module)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x = self.prepare(image)
        features = self.model.extract_feat(x)
        if self.queries is not None:
            return (self._query_logits(features, image.shape[-2:]),)
        head = self.model.decode_head
        logits = F.interpolate(
            head(features), size=x.shape[-2:], mode='bilinear', align_corners=head.align_corners
        )
        if self.divisor > 1:  # crop the padding
            height, width = image.shape[-2:]
            logits = logits[:, :, :height, :width]
        if getattr(head, 'out_channels', None) == 1:
            limit = torch.logit(torch.tensor(float(head.threshold)), eps=EPSILON)
            logits = torch.cat((torch.full_like(logits, limit.item()), logits), dim=1)
        return (logits,)

    def _query_logits(self, features: Any, size: tuple[int, int]) -> Tensor:
        """Return the masks of the queries, weighted by their classes, as mmseg's `Mask2FormerHead`
        predicts them.
        """
        logits_BQC, masks = self.queries(features)
        classes_BQC = logits_BQC.softmax(-1)[..., :-1]
        masks_BQHW = self.queries.in_image(masks, size).sigmoid()
        return torch.einsum('bqc,bqhw->bchw', classes_BQC, masks_BQHW)


def _with_open_size(module: nn.Module) -> nn.Module | None:
    """Return a module that computes the same at open sizes, None if it need not be replaced."""
    from mmseg.models.utils import Upsample

    if isinstance(module, nn.AdaptiveAvgPool2d) and isinstance(module.output_size, int):
        return _PoolCells(module.output_size)
    if isinstance(module, Upsample) and not module.size:
        if float(module.scale_factor).is_integer():
            return _Upsample(module)
    return None


def _queries(head: nn.Module, divisor: int) -> nn.Module | None:
    """Return the queries of a head of Mask2Former or EncoderMask, None for heads of one map.

    Raises:
        ExportError: another kind of head.
    """
    from mmseg.models.decode_heads import Mask2FormerHead
    from mmseg.models.decode_heads.decode_head import BaseDecodeHead

    if isinstance(head, BaseDecodeHead):
        return None
    # Mask2FormerHead is derived from mmdet's, which is missing in an installation for mmseg alone.
    if isinstance(head, Mask2FormerHead):
        from mmflatten.export.detection.query_masks import QueryMasks

        return QueryMasks(head, divisor)
    raise ExportError(
        'model.decode_head: expected a head of one map of logits, or Mask2Former or EncoderMask,'
        f' got {type(head).__name__}. --features exports backbone and neck.'
    )
