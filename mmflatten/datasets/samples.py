"""Statistics of samples: sizes, objects per class, disparities."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from mmengine.structures import BaseDataElement

from mmflatten.text_table import align


class SampleCounts:
    """Counts of image sizes and labels over samples.

    Args:
        classes: names in the order of the labels; None if there are none.
    """

    def __init__(self, classes: Sequence[str] | None) -> None:
        self.classes = classes
        self.sizes: list[tuple[int, int]] = []
        self.objects: Counter = Counter()
        self.samples: Counter = Counter()
        self.disparities: list[np.ndarray] = []

    def add(self, hw_shape: tuple[int, int], sample: BaseDataElement) -> None:
        """Count a sample with the input size (H, W)."""
        self.sizes.append(hw_shape)
        labels = _labels(sample)
        self.objects.update(labels)
        self.samples.update(set(labels) or [None])
        if 'gt_disparity' in sample:
            truth = sample.gt_disparity
            self.disparities.append(truth.data[truth.valid].numpy())

    def render(self) -> str:
        """Format the sizes and a row per class, or the range of the disparities."""
        sizes = Counter(self.sizes)
        shapes = [f'{height} x {width}' + (f' ({number})' if len(sizes) > 1 else '')
                  for (height, width), number in sizes.most_common(5)]
        if len(sizes) > len(shapes):
            shapes.append(f'{len(sizes) - len(shapes)} more')
        lines = [f'{len(self.sizes)} samples, height x width {", ".join(shapes)}']
        known = np.concatenate([np.empty(0), *self.disparities])
        if known.size:
            low, median, high = np.percentile(known, (0, 50, 100))
            lines.append(f'disparities from {low:.2f} to {high:.2f} px, median {median:.2f}')
        elif self.objects:
            rows = [[self._name(label), str(number), str(self.samples[label])]
                    for label, number in self.objects.most_common()]
            lines.append(align(rows, ('class', 'objects', 'samples'), {0}))
        if self.samples[None] and self.objects:
            lines.append(f'{self.samples[None]} samples without objects')
        return '\n'.join(lines)

    def _name(self, label: int) -> str:
        return str(self.classes[label] if self.classes is not None and label < len(self.classes) else label)


def _labels(sample: Any) -> list[int]:
    """Return the labels of the objects, or the distinct labels of a label map."""
    if 'gt_instances' in sample:
        return sample.gt_instances.labels.tolist()
    if 'gt_sem_seg' in sample:
        return [label for label in sample.gt_sem_seg.data.unique().tolist() if label != 255]
    return sample.gt_label.tolist() if 'gt_label' in sample else []
