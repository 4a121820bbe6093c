"""Fashion-MNIST's first images, and small scenes of them."""

from pathlib import Path

import pytest

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten_lab.garments.scenes import garments

FASHION = Path(__file__).parent / 'fashion-mnist'


@pytest.fixture(scope='session')
def fashion_files() -> Path:
    """The first 1,000 and 200 garments of Fashion-MNIST."""
    return FASHION


@pytest.fixture(scope='session')
def garment_root(tmp_path_factory) -> Path:
    """Read only: finished garment scenes."""
    root = tmp_path_factory.mktemp('data') / 'garments'
    build_scenes(root, SceneOptions(train=6, val=4, size=96, seed=0), garments(FASHION))
    return root
