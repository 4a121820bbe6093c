"""Export of stereo networks."""

from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel
from mmflatten.models.stereo.data_preprocessor import crop_top_right, pad_top_right
from mmflatten.models.stereo.features import STRIDE
from mmflatten.ops.sizes import ceil_div


class Exported(ExportedModel):
    """Disparities of the left image in pixels, `(B, H, W)`, from two images."""

    task, inputs, outputs = 'stereo', ('left', 'right'), ('disparity',)

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        # The padded image must hold the largest window of the pyramid pooling.
        self.divisor = model.data_preprocessor.pad_divisor
        self.stride = STRIDE * max(model.features.pyramid.pool_sizes) - self.divisor

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
        size = left.shape[-2:]
        padded = tuple(ceil_div(side, self.divisor) * self.divisor for side in size)
        pair = (pad_top_right(self.normalise(image), padded) for image in (left, right))
        disparity = self.model(dict(zip(self.inputs, pair)), mode='tensor')
        return (crop_top_right(disparity, size),)
