"""Statistics of samples, and many pictures on one."""
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from mmengine.structures import BaseDataElement

from mmflatten.datasets.stereo.visualizer import side_by_side
from mmflatten.text import align

SHEET_WIDTH = 1000  # pixels


class SampleCounts:
    """Counts of image sizes and labels over samples.

    Args:
        classes: names in the order of the labels; None if there are none.
    """

    def __init__(self, classes: Sequence[str] | None) -> None:
        self.classes = dict(enumerate(classes or []))
        self.sizes: Counter = Counter()
        self.objects: Counter = Counter()
        self.samples: Counter = Counter()
        self.disparities: list[np.ndarray] = []

    def add(self, hw_shape: tuple[int, int], sample: BaseDataElement) -> None:
        """Count a sample with the input size (H, W)."""
        labels: list[int] = []
        if 'gt_instances' in sample:
            labels = sample.gt_instances.labels.tolist()
        elif 'gt_sem_seg' in sample:
            labels = [label for label in sample.gt_sem_seg.data.unique().tolist() if label != 255]
        elif 'gt_label' in sample:
            labels = sample.gt_label.tolist()
        elif 'gt_disparity' in sample:
            self.disparities.append(sample.gt_disparity.data[sample.gt_disparity.valid].numpy())
        self.sizes[hw_shape] += 1
        self.objects.update(labels)
        self.samples.update(set(labels) or [None])

    def render(self) -> str:
        """Format the sizes and a row per class, or the range of the disparities."""
        shapes = [f'{height} x {width}' + (f' ({number})' if len(self.sizes) > 1 else '')
                  for (height, width), number in self.sizes.most_common(5)]
        if len(self.sizes) > len(shapes):
            shapes.append(f'{len(self.sizes) - len(shapes)} more')
        lines = [f'{self.sizes.total()} samples, height x width {", ".join(shapes)}']
        known = np.concatenate([np.empty(0), *self.disparities])
        if known.size:
            low, median, high = np.percentile(known, (0, 50, 100))
            lines.append(f'disparities from {low:.2f} to {high:.2f} px, median {median:.2f}')
        elif self.objects:
            rows = [[str(self.classes.get(label, label)), str(number), str(self.samples[label])]
                    for label, number in self.objects.most_common()]
            lines.append(align(rows, ('class', 'objects', 'samples'), {0}))
        if self.samples[None] and self.objects:
            lines.append(f'{self.samples[None]} samples without objects')
        return '\n'.join(lines)


def write_contact_sheet(files: Sequence[Path], path: str | Path) -> None:
    """Write a PNG of pictures in rows, each with its file name; the wider they are, the fewer stand in a row."""
    pictures = [cv2.imread(os.fsencode(file)) for file in files]
    ratio = max(picture.shape[1] / picture.shape[0] for picture in pictures)
    columns = next((number for limit, number in ((1.5, 4), (2.5, 3), (6, 2)) if ratio < limit), 1)
    width, columns = SHEET_WIDTH // columns, min(columns, len(pictures))
    tiles = []
    for picture in pictures:
        height = max(1, round(picture.shape[0] * width / picture.shape[1]))
        shrinks = width < picture.shape[1]
        tiles.append(cv2.resize(picture, (width, height), None, 0, 0, cv2.INTER_AREA if shrinks else cv2.INTER_NEAREST))
    names = [file.stem[:width // 9].encode('ascii', 'replace').decode() for file in files]  # OpenCV draws no others
    rows = []
    for start in range(0, len(tiles), columns):
        row = tiles[start:start + columns]
        panels = np.full((columns, max(map(len, row)), width, 3), 255, dtype=np.uint8)
        for panel, tile in zip(panels, row):
            panel[:len(tile)] = tile
        titles = [*names[start:start + columns], *[''] * (columns - len(row))]
        rows.append(side_by_side([*zip(titles, panels)], min_width=1))
    cv2.imwrite(os.fsencode(path), np.vstack(rows))
