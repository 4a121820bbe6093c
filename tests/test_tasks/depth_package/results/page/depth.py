"""Depth over an image of the page."""
import numpy as np

from mmflatten.results.page.samples import SampleLayer


def layers(results, entry, encode, score):
    depth = np.asarray(entry['pred_depth']['data'])[0].clip(0, 1)
    picture = encode(np.repeat((255 * depth[..., None]).astype(np.uint8), 3, 2))
    return [SampleLayer('prediction', picture=picture)], []
