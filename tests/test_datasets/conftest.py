"""Small sets of digit and garment scenes, made once for all tests of this folder."""
from pathlib import Path

import pytest

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.datasets.scenes.garments import garments

FASHION = Path(__file__).parents[1] / 'data' / 'fashion-mnist'


@pytest.fixture(scope='session')
def digit_options() -> SceneOptions:
    return SceneOptions(train=12, val=6, size=96, seed=0)


@pytest.fixture(scope='session')
def digit_root(tmp_path_factory, digit_options) -> Path:
    """Read only: a finished data set."""
    root = tmp_path_factory.mktemp('data') / 'digits'
    build_scenes(root, digit_options)
    return root


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
