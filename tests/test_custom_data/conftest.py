"""Small pictures for the tests of custom data."""

from pathlib import Path

import cv2
import numpy as np
import pytest


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """Working folder with six images in `photos`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'photos').mkdir()
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 255, (40, 48, 3), np.uint8)
        cv2.imwrite(f'photos/{number}.png', pixels)
    return tmp_path
