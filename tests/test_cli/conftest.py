"""Checkpoints with random weights."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config

DIGITS = Path(__file__).parents[2] / 'configs' / 'digits'


@pytest.fixture(scope='session')
def model_of(tmp_path_factory) -> Callable[[str | Path], list[str]]:
    """Return config and checkpoint of a digit config or a file. Dense heads have zero bias, so they
    find boxes.
    """
    folder = tmp_path_factory.mktemp('weights')

    def build(config: str | Path) -> list[str]:
        config = DIGITS / f'{config}.py' if isinstance(config, str) else config
        file = folder / f'{config.stem}.pth'
        if not file.exists():
            torch.manual_seed(0)
            state = build_model(load_config(str(config))).state_dict()
            if 'bbox_head.retina_cls.bias' in state:
                state['bbox_head.retina_cls.bias'].zero_()
            torch.save(dict(state_dict=state), file)
        return [str(config), str(file)]

    return build
