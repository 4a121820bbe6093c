"""Fixtures of all tests: a fixed seed, MMEngine's global state of a new process, and no wasted
time.
"""

import gc
import importlib.util
import io
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.dataset import base_dataset
from mmengine.logging import MessageHub, MMLogger
from mmengine.registry import DefaultScope
from mmengine.runner import loops
from mmengine.visualization import Visualizer
from torch.utils.data import _utils as loader_utils
from yapf.yapflib import yapf_api

CONFIGS = Path(__file__).parent / 'configs' / 'digits'
TOOLS = Path(__file__).parent / 'tools'
EPOCH = 'train_cfg = dict(max_epochs=1, val_interval=1)'
ITERATION = 'train_cfg = dict(max_iters=1, val_interval=1)'


@pytest.fixture(autouse=True, scope='session')
def short_waits():
    """Format no configs, which is half of a small training, and wait 0.2 s for stopped loader
    workers, not 5 s, and not 2 s when a training by iterations begins another pass.

    Garbage is collected after 50,000 new objects, not 700, which takes a seventh of the time of
    building models, and not for each data set, which takes a fifth of a small training. Freed
    memory is kept.
    """
    from mmflatten.measure.speed.machine import keep_freed_memory

    keep_freed_memory()
    gc.set_threshold(50_000, 10, 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yapf_api, 'FormatCode', lambda text, **style: (text, True))
        patch.setattr(loader_utils, 'MP_STATUS_CHECK_INTERVAL', 0.2)
        patch.setattr(loops, 'time', SimpleNamespace(sleep=lambda seconds: None))
        patch.setattr(base_dataset, 'gc', SimpleNamespace(collect=lambda: 0))
        yield
    gc.unfreeze()


@pytest.fixture(autouse=True, scope='module')
def frozen_modules():
    """Collect the garbage of the module before, and exempt imported modules from collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_global_state():
    """Start each test with seed 0, and without a default scope, logger, message hub or visualizer
    of another test.
    """
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    _forget()
    yield
    _forget()


def _forget() -> None:
    for logger in MMLogger._instance_dict.values():
        for handler in list(logger.handlers):
            handler.close()
    for kind in (DefaultScope, MMLogger, MessageHub, Visualizer):
        kind._instance_dict.clear()


@pytest.fixture(scope='session')
def in_child() -> Callable[..., int]:
    """Run a function in another process, which may be killed. Return the exit status; a negative
    one is a signal.

    The standard error is written to the file `errors`, and `limit` is the largest size of a file in
    bytes, as on a full disk. Only for systems with `fork`.
    """

    def run(function: Callable[[], int], errors: Path, limit: int | None = None) -> int:
        import resource  # Windows lacks it

        process = os.fork()
        if process:
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        status = 99
        try:
            sys.stderr = io.StringIO()
            torch.set_num_threads(1)  # the child lacks the threads of this process
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells ignore it
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit or most, most))
            status = function()
        except BaseException:
            traceback.print_exc()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            errors.write_text(sys.stderr.getvalue())
            os._exit(status)

    return run


@pytest.fixture(scope='session')
def scenes(tmp_path_factory) -> Path:
    """Digit scenes in COCO's, ADE20K's and ImageNet's layouts."""
    from mmflatten.datasets.scenes.build import SceneOptions, build_scenes

    root = tmp_path_factory.mktemp('clients') / 'digits'
    build_scenes(root, SceneOptions(train=4, val=4, size=160, seed=0))
    return root


@pytest.fixture(scope='session')
def config_on(scenes, tmp_path_factory) -> Callable[..., Path]:
    """Write a digit config that trains for one epoch or iteration, in a folder of its own, with
    more lines behind.
    """
    from mmflatten.engine.setup import load_config

    def write(name: str, *more: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        base = load_config(str(CONFIGS / f'{name}.py'))
        length = EPOCH if 'max_epochs' in base.train_cfg else ITERATION
        loader = (
            'dict(batch_size=2, num_workers=0, persistent_workers=False,'
            f" dataset=dict(data_root='{scenes}/'))"
        )
        lines = [f"_base_ = ['{CONFIGS}/{name}.py']", length, f"work_dir = '{folder}/run'"]
        lines += [f'{part}_dataloader = {loader}' for part in ('train', 'val', 'test')]
        if 'ann_file' in base.test_evaluator:
            ann_file = f"dict(ann_file='{scenes}/annotations/instances_val.json')"
            lines += [f'{part}_evaluator = {ann_file}' for part in ('val', 'test')]
        config = folder / f'{name}.py'
        config.write_text('\n'.join([*lines, *more]) + '\n')
        return config

    return write


@pytest.fixture(scope='session')
def train_on(config_on) -> Callable[[str], SimpleNamespace]:
    """Train a digit config once per session, for one epoch or iteration.

    The result has `config`, `checkpoint`, `results` and `log`. Tests share it and must not change
    its files.
    """
    from mmflatten.engine.setup import build_runner, load_config
    from mmflatten.engine.test import test as test_checkpoint

    @cache
    def train(name: str) -> SimpleNamespace:
        config = config_on(name, 'randomness = dict(seed=0)')
        folder = config.parent
        build_runner(load_config(str(config))).train()
        checkpoint = Path((folder / 'run' / 'last_checkpoint').read_text())
        results = folder / 'results.pkl'
        test_checkpoint(
            load_config(str(config), subfolder='test'), str(checkpoint), out=str(results)
        )
        return SimpleNamespace(
            folder=folder,
            config=str(config),
            checkpoint=str(checkpoint),
            results=str(results),
            log=str(next(folder.glob('run/*/vis_data/scalars.json'))),
        )

    return train


@pytest.fixture(scope='session')
def load_tool() -> Callable[[str], ModuleType]:
    """`load_tool('get_flops')` imports a script of `tools/`."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            f'{name}_tool', next(TOOLS.glob(f'*/{name}.py'))
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
