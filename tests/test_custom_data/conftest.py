"""Small pictures for the tests of custom data."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.test_custom_data.small_data import write_image


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """Working folder with six images in `photos`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'photos').mkdir()
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 255, (40, 48, 3), np.uint8)
        cv2.imwrite(f'photos/{number}.png', pixels)
    return tmp_path


@pytest.fixture
def folder(tmp_path) -> Path:
    """Folder with six images in `images`."""
    for i in range(6):
        write_image(tmp_path / 'images' / f'{i}.png', i)
    return tmp_path
