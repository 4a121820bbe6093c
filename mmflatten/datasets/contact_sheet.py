"""Many pictures on one."""
import os
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from mmflatten.datasets.stereo.visualizer import side_by_side

SHEET_WIDTH = 1000  # pixels


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
