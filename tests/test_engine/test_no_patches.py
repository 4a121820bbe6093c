"""Importing, training and testing change no attribute of any library."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import torch
from mmengine.config import Config

# A stock Runner trains first, as often as ours: it imports modules and fills caches (NumPy's type
# numbers, file backends, the default scope), so that afterwards only changes by our Runner remain.
LISTING = """
    import gc
    import sys
    import types
    import mmcv, mmdet, mmengine, mmpretrain, mmseg, numpy, torch
    from mmengine.config import Config
    from mmengine.runner import Runner

    LIBRARIES = ('mmcv', 'mmdet', 'mmengine', 'mmpretrain', 'mmseg', 'numpy', 'torch')
    excluded = set()

    def listed():
        found = {}
        for name, module in list(sys.modules.items()):
            if name.partition('.')[0] in LIBRARIES and isinstance(module, types.ModuleType):
                for attribute, value in list(vars(module).items()):
                    found[name, attribute] = held(value)
                    if isinstance(value, type) and value.__module__.partition('.')[0] in LIBRARIES:
                        for part, inner in list(vars(value).items()):
                            found[f'{value.__module__}.{value.__qualname__}', part] = held(inner)
        return found

    def held(value):
        return value.copy() if type(value) in (dict, list, set) else value

    def same(one, other):
        if type(one) is type(other) is dict:
            return one.keys() == other.keys() and all(one[key] is other[key] for key in one)
        if type(one) is type(other) is list:
            return len(one) == len(other) and all(a is b for a, b in zip(one, other))
        return one is other or type(one) is type(other) is set and one == other

    def changed(before, after):
        owners = {owner for owner, _ in before}  # importing a new module does not change another
        found = []
        for key in before.keys() | after.keys():
            # `copy.deepcopy` caches in each class the names of its slots.
            compared = key[0] in owners and key not in excluded and key[1] != '__slotnames__'
            if not compared or isinstance(after.get(key), types.ModuleType):
                continue
            if not same(before.get(key, LIBRARIES), after.get(key, LIBRARIES)):
                found.append(key)
        return sorted(found)

    def run(build, name, path, stock=False):
        gc.freeze()  # MMEngine collects garbage for each data set, and the listings are large
        config = Config.fromfile(path, format_python_code=False)  # formatting takes seconds
        config.work_dir, config.experiment_name = f'{config.work_dir}/{name}', name
        if stock:
            config.default_hooks = None
            config.model.backbone = dict(type='ResNet', depth=50, base_channels=2, _scope_='mmdet')
        runner = build(config)
        runner.train()
        if config.get('test_cfg'):
            runner.test()

    for number in '12':
        earlier = listed()
        run(Runner.from_cfg, f'classifier{number}', sys.argv[1], stock=True)
        run(Runner.from_cfg, f'detector{number}', sys.argv[2], stock=True)
    before = listed()
    # A table that MMEngine copies for each `_scope_` in a config, PyTorch's count of module hooks,
    # and Python's registry of the warning that two stock runs have visualizers of the same name.
    excluded = {*changed(earlier, before), ('torch.utils.hooks.RemovableHandle', 'next_id')}
    assert excluded <= {('mmengine.registry.default_scope.DefaultScope', '_instance_dict'),
                        ('torch.utils.hooks.RemovableHandle', 'next_id'),
                        ('mmengine.utils.manager', '__warningregistry__')}, excluded
    # PyTorch's registry of operators, which ours join, and its table of known functions.
    excluded |= {('torch._library.custom_ops', 'OPDEF_TO_LIB'),
                 ('torch.library', '_defs'), ('torch.library', '_impls'),
                 ('torch.ops', '_dir'), ('torch.jit._builtins', '_builtin_table')}
    # MMEngine's registry of readers of checkpoints, where ours replaces those that run code.
    excluded |= {('mmengine.runner.checkpoint.CheckpointLoader', '_schemes')}
    import mmflatten.checkpoints.loading
    readers = mmengine.runner.CheckpointLoader._schemes.values()
    assert {reader.__module__ for reader in readers} == {'mmengine.runner.checkpoint'}
    import mmflatten.engine
    from mmflatten.engine.setup import build_runner
    assert not changed(before, listed()), changed(before, listed())
    for number, path in enumerate(sys.argv[2:]):
        run(build_runner, f'ours{number}', path)
    assert len(before) > 100_000
    assert not changed(before, listed()), changed(before, listed())
"""


def test_import_training_and_test_patch_no_library(tiny, detection, trained):
    other = torch.load(trained, weights_only=False)
    foreign = tiny.folder / 'foreign.pth'
    torch.save(dict(state_dict=other['state_dict'], config=Config()), foreign)
    stock = tiny.folder / 'stock.py'
    tiny.write_config(extra="train_cfg['max_epochs'] = 1\nmodel['head']['in_channels'] = 64")
    stock.write_text(tiny.config.read_text())
    pretrained = f"dict(type='Pretrained', prefix='backbone', checkpoint='{foreign}')"
    tiny.write_config(
        extra=(
            f"train_cfg['max_epochs'] = 1\nload_from = '{foreign}'\n"
            f"model['backbone']['init_cfg'] = {pretrained}"
        )
    )
    resumed = tiny.folder / 'resumed.py'
    resumed.write_text(
        tiny.config.read_text().replace(str(foreign), str(trained)) + '\nresume = True\n'
    )
    finished = subprocess.run(
        [
            sys.executable,
            '-W',
            'ignore',
            '-c',
            dedent(LISTING),
            stock,
            detection.config,
            tiny.config,
            resumed,
        ],
        env={**os.environ, 'PYTHONPATH': str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
