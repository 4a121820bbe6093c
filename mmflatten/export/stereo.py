"""Export of stereo networks."""
from torch import Tensor

from mmflatten.export.wrappers import ExportedModel
from mmflatten.models.stereo.data_preprocessor import crop_top_right, pad_top_right
from mmflatten.ops.sizes import ceil_div


class ExportedStereo(ExportedModel):
    """Disparities of the left image in pixels, `(1, H, W)`, from two images."""

    task, inputs, outputs = 'stereo', ('left', 'right'), ('disparity',)

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
        size, divisor = left.shape[-2:], self.model.data_preprocessor.pad_divisor
        padded = (ceil_div(size[0], divisor) * divisor, ceil_div(size[1], divisor) * divisor)
        dtype = next(self.model.parameters()).dtype
        pair = (pad_top_right(self.normalise(image), padded).to(dtype) for image in (left, right))
        disparity = self.model(dict(zip(self.inputs, pair)), mode='tensor')
        return (crop_top_right(disparity, size).to(left.dtype),)


wrap = ExportedStereo
