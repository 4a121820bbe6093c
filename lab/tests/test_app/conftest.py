"""Models with random weights, and images."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten_lab.app.trial import TriedModel

CONFIGS = Path(__file__).parents[3] / 'configs' / 'digits'


@pytest.fixture(scope='session')
def weights_of(tmp_path_factory) -> Callable[[str], tuple[str, str]]:
    """Config and checkpoint of a digit config."""
    folder = tmp_path_factory.mktemp('weights')

    def build(name: str) -> tuple[str, str]:
        config, file = CONFIGS / f'{name}.py', folder / f'{name}.pth'
        if not file.exists():
            torch.manual_seed(0)
            torch.save(dict(state_dict=build_model(load_config(str(config))).state_dict()), file)
        return str(config), str(file)

    return build


@pytest.fixture(scope='session')
def tried(weights_of) -> Callable[[str], TriedModel]:
    """Load a model once."""
    models: dict[str, TriedModel] = {}

    def load(name: str) -> TriedModel:
        if name not in models:
            models[name] = TriedModel(*weights_of(name), 'cpu')
        return models[name]

    return load


@pytest.fixture
def picture(tmp_path) -> Callable[..., str]:
    """Write a black image with a white square of 9 x 9 pixels around `(x, y)`."""

    def draw(
        name: str = 'scene.png',
        size: tuple[int, int] = (120, 96),
        middle: tuple[int, int] = (60, 48),
    ) -> str:
        pixels = np.zeros((size[1], size[0], 3), np.uint8)
        pixels[middle[1] - 4 : middle[1] + 5, middle[0] - 4 : middle[0] + 5] = 255
        assert cv2.imwrite(str(tmp_path / name), pixels)
        return str(tmp_path / name)

    return draw
