"""Export of segmentors."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel


class _Upsample(nn.Module):
    """mmseg's `Upsample` by an integer factor, without its `int()` of the size, which would fix an
    open size.
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
    """Logits of the classes at the size of the image, `(1, classes, H, W)`, computed without a
    sliding window.
    """

    task, outputs = 'segmentation', ('logits',)

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        from mmseg.models.utils import Upsample

        for parent in list(model.modules()):
            for name, child in parent.named_children():
                if (
                    isinstance(child, Upsample)
                    and not child.size
                    and float(child.scale_factor).is_integer()
                ):
                    setattr(parent, name, _Upsample(child))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x, head = self.prepare(image), self.model.decode_head
        logits = head(self.model.extract_feat(x))
        logits = F.interpolate(
            logits, size=x.shape[-2:], mode='bilinear', align_corners=head.align_corners
        )
        return (logits[:, :, : image.shape[2], : image.shape[3]] if self.divisor > 1 else logits,)
