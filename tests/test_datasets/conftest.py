"""A small set of digit scenes, made once for all tests of this folder."""

from pathlib import Path

import pytest

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes


@pytest.fixture(scope='session')
def digit_options() -> SceneOptions:
    return SceneOptions(train=12, val=6, size=96, seed=0)


@pytest.fixture(scope='session')
def digit_root(tmp_path_factory, digit_options) -> Path:
    """Read only: a finished data set."""
    root = tmp_path_factory.mktemp('data') / 'digits'
    build_scenes(root, digit_options)
    return root
