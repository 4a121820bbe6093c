"""The digit configs on small scenes, trained for a moment, and OpenMMLab's own scripts to run on them, unmodified."""
import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import pytest

from mmflatten.datasets.digits.build import DigitSceneOptions, build_digit_scenes
from mmflatten.engine.setup import build_runner, load_config
from mmflatten.engine.test import test as test_checkpoint

CONFIGS = Path(__file__).parents[2] / 'configs' / 'digits'
EPOCH = 'train_cfg = dict(max_epochs=1, val_interval=1)'
ITERATION = 'train_cfg = dict(max_iters=1, val_interval=1)'


@pytest.fixture(scope='session')
def scenes(tmp_path_factory) -> Path:
    """Digit scenes in COCO's, ADE20K's and ImageNet's layouts."""
    root = tmp_path_factory.mktemp('clients') / 'digits'
    build_digit_scenes(root, DigitSceneOptions(train=4, val=4, size=160, seed=0))
    return root


@pytest.fixture(scope='session')
def train_on(scenes, tmp_path_factory) -> Callable[[str], SimpleNamespace]:
    """Function that trains a digit config for one epoch or iteration; returns its `config`, `checkpoint`, `results`, ..."""

    def train(name: str) -> SimpleNamespace:
        folder = tmp_path_factory.mktemp(name)
        config = folder / f'{name}.py'
        base = load_config(str(CONFIGS / f'{name}.py'))
        length = EPOCH if 'max_epochs' in base.train_cfg else ITERATION
        loader = f"dict(batch_size=2, num_workers=0, persistent_workers=False, dataset=dict(data_root='{scenes}/'))"
        lines = [f"_base_ = ['{CONFIGS}/{name}.py']", length, f"work_dir = '{folder}/run'"]
        lines += [f'{part}_dataloader = {loader}' for part in ('train', 'val', 'test')]
        if 'ann_file' in base.test_evaluator:
            ann_file = f"dict(ann_file='{scenes}/annotations/instances_val.json')"
            lines += [f'{part}_evaluator = {ann_file}' for part in ('val', 'test')]
        config.write_text('\n'.join(lines) + '\n')
        build_runner(load_config(str(config))).train()
        checkpoint = Path((folder / 'run' / 'last_checkpoint').read_text())
        results = folder / 'results.pkl'
        test_checkpoint(load_config(str(config), subfolder='test'), str(checkpoint), out=str(results))
        return SimpleNamespace(folder=folder, config=str(config), checkpoint=str(checkpoint), results=str(results),
                               log=str(next(folder.glob('run/*/vis_data/scalars.json'))))

    return train


@pytest.fixture
def script(monkeypatch) -> Callable[..., None]:
    """Function that runs a script of an installed library, named by its place in the library's `.mim/tools`."""
    matplotlib.use('Agg', force=True)

    def run(library: str, name: str, *arguments: object) -> None:
        tools = Path(importlib.import_module(library).__file__).parent / '.mim' / 'tools'
        monkeypatch.setattr(sys, 'argv', [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(tools.parent))
        monkeypatch.setenv('LOCAL_RANK', '0')
        runpy.run_path(str(tools / name), run_name='__main__')

    return run
