"""Predicted disparities as PFM files."""

from typing import Any

import numpy as np

from mmflatten.checkpoints.run_files import whole_file
from mmflatten.datasets.stereo.files import write_pfm
from mmflatten.predict import results
from mmflatten.predict.inputs import Input


class Writer(results.Writer):
    """`disparity/NAME.pfm`: disparities of the left image, in pixels."""

    folders = ('disparity',)

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        height, width = pixels.shape[:2]
        disparity = sample.pred_disparity.data[0].cpu().numpy()
        # crop the border of `StereoPad`
        disparity = disparity[disparity.shape[0] - height :, :width]
        file = self.file('disparity', item, '.pfm')
        with whole_file(file) as partial:
            write_pfm(partial, disparity)
        return dict(
            disparity=str(file),
            mean=float(disparity.mean()),
            min=float(disparity.min()),
            max=float(disparity.max()),
        )
