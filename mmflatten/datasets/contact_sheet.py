"""Many pictures on one."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

SHEET_WIDTH, TITLE_HEIGHT, GAP = 1000, 16, 6


def write_contact_sheet(files: Sequence[Path], path: str | Path) -> None:
    """Write a PNG of pictures in rows, each with its file name; the wider they are, the fewer stand in a row."""
    pictures = [cv2.imread(os.fsencode(file)) for file in files]
    ratio = max(picture.shape[1] / picture.shape[0] for picture in pictures)
    columns = 4 if ratio < 1.5 else 3 if ratio < 2.5 else 2 if ratio < 6 else 1
    width, columns = SHEET_WIDTH // columns, min(columns, len(pictures))
    tiles = [_tile(picture, file.stem, width) for picture, file in zip(pictures, files)]
    rows = []
    for start in range(0, len(tiles), columns):
        row = tiles[start:start + columns]
        height = max(tile.shape[0] for tile in row)
        joined = np.hstack([_extend(tile, height, width + GAP) for tile in row])
        rows.append(_extend(joined, height + GAP, columns * (width + GAP)))
    cv2.imwrite(os.fsencode(path), np.vstack(rows))


def _tile(picture: np.ndarray, name: str, width: int) -> np.ndarray:
    height = max(1, round(picture.shape[0] * width / picture.shape[1]))
    smaller = width < picture.shape[1]
    resized = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_NEAREST)
    title = np.full((TITLE_HEIGHT, width, 3), 255, dtype=np.uint8)
    shown = name[:width // 7].encode('ascii', 'replace').decode()  # OpenCV draws no others
    cv2.putText(title, shown, (1, TITLE_HEIGHT - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1,
                cv2.LINE_AA)
    return np.vstack([title, resized])


def _extend(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """White below and to the right, up to a size."""
    sheet = np.full((height, width, 3), 255, dtype=np.uint8)
    sheet[:picture.shape[0], :picture.shape[1]] = picture
    return sheet
