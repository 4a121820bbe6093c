"""Predicted depths as files."""

import numpy as np

from mmflatten.predict import results


class Writer(results.Writer):
    folders = ('depth',)

    def add(self, item, sample, pixels):
        file, depth = self.file('depth', item, '.npy'), sample.pred_depth.data[0].numpy(force=True)
        np.save(file, depth)
        return dict(depth=str(file), mean=float(depth.mean()))
