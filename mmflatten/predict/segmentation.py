"""Predicted label maps as PNG files."""

from typing import Any

import cv2
import numpy as np

from mmflatten.checkpoints.run_files import whole_file
from mmflatten.predict import results
from mmflatten.predict.inputs import Input


class Writer(results.Writer):
    """`label_maps/NAME.png`: grey values are labels, in 16 bits if there are more than 256
    classes.
    """

    folders = ('label_maps',)

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        # The threshold of a segmentor with one output makes floating-point numbers.
        labels = sample.pred_sem_seg.data[0].long().cpu().numpy()
        file = self.file('label_maps', item, '.png')
        grey = labels.astype(np.uint8 if len(self.classes) <= 256 else np.uint16)
        with whole_file(file) as partial:
            # OpenCV's own writing does not report a full disk
            partial.write_bytes(cv2.imencode('.png', grey)[1])
        values, counts = np.unique(labels, return_counts=True)
        fractions = [
            dict(label=label, name=self.name_of(label), share=count / labels.size)
            for label, count in zip(values.tolist(), counts.tolist())
        ]
        return dict(label_map=str(file), shares=fractions)
