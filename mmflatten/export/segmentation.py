"""Export of segmentors."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel, ExportError

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


class Exported(ExportedModel):
    """Logits of the classes at the size of the image, `(B, classes, H, W)`.

    They are computed without a sliding window. A segmentor with one output and a threshold has the
    logit of the threshold as that of its first class: the largest logit decides in the same way.
    """

    task, outputs = 'segmentation', ('logits',)

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        from mmseg.models.decode_heads.decode_head import BaseDecodeHead
        from mmseg.models.utils import Upsample

        if not isinstance(model.decode_head, BaseDecodeHead):
            raise ExportError(
                'model.decode_head: expected a head of one map of logits, got'
                f' {type(model.decode_head).__name__}, whose queries cannot be exported. --features'
                ' exports backbone and neck.'
            )

        for name, module in list(model.named_modules(remove_duplicate=False)):
            if not isinstance(module, Upsample) or module.size:
                continue
            if float(module.scale_factor).is_integer():
                model.set_submodule(name, _Upsample(module))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x = self.prepare(image)
        head = self.model.decode_head
        logits = head(self.model.extract_feat(x))
        logits = F.interpolate(
            logits, size=x.shape[-2:], mode='bilinear', align_corners=head.align_corners
        )
        if self.divisor > 1:  # crop the padding
            height, width = image.shape[-2:]
            logits = logits[:, :, :height, :width]
        if getattr(head, 'out_channels', None) == 1:
            limit = torch.logit(torch.tensor(float(head.threshold)), eps=EPSILON)
            logits = torch.cat((torch.full_like(logits, limit.item()), logits), dim=1)
        return (logits,)
