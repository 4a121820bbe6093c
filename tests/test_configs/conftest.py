"""Fixtures of the config tests: configs, models, and data in the real layouts."""

import importlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
from mmengine.config import Config
from mmengine.logging import MessageHub, MMLogger
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, init_default_scope
from mmengine.visualization import Visualizer
from PIL import Image
from torch import nn

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.datasets.scenes.panoptic_build import PanopticSceneOptions, build_panoptic_scenes
from mmflatten.engine.setup import load_config as load_run_config
from mmflatten.measure.flops.meta import build_on_meta

CONFIGS = Path(__file__).parents[2] / 'configs'
MEMORY = Path('/dev/shm')


@cache
def read(name: str) -> Config:
    """Read `configs/<name>` once. MMEngine copies base files to a temporary folder; in memory this
    is twice as fast.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, 'tempdir', str(MEMORY) if MEMORY.is_dir() else None)
        return Config.fromfile(CONFIGS / name)


@pytest.fixture(scope='session')
def read_config() -> Callable[[str], Config]:
    """Reads `<family>/<name>.py`. Tests share the result, so they must not modify it."""
    return read


@pytest.fixture
def load_config() -> Callable[[str], Config]:
    """Reads a copy of `<family>/<name>.py` and makes its task library the default scope."""

    def load(name: str) -> Config:
        config = deepcopy(read(name))
        init_default_scope(config.default_scope)
        return config

    return load


@lru_cache(maxsize=1)
def build_meta_model(name: str) -> nn.Module:
    """Build the model of `configs/<name>` on the meta device, once for consecutive uses in a
    test.
    """
    return build_on_meta(deepcopy(read(name).model), read(name).default_scope)


@pytest.fixture
def meta_model() -> Callable[[str], nn.Module]:
    return build_meta_model


@pytest.fixture
def decayed(load_config) -> Callable[[str], dict[str, bool]]:
    """`decayed(name)`: parameter name -> True if the config's optimizer decays it."""

    def find(name: str) -> dict[str, bool]:
        config = load_config(name)
        model = build_meta_model(name)
        groups = build_optim_wrapper(model, config.optim_wrapper).optimizer.param_groups
        decay = {}
        for group in groups:
            decay.update((id(parameter), group['weight_decay']) for parameter in group['params'])
        assert set(decay.values()) <= {0, config.optim_wrapper.optimizer.weight_decay}
        return {name: decay[id(parameter)] > 0 for name, parameter in model.named_parameters()}

    return find


COCO_IDS = sorted(set(range(1, 91)) - {12, 26, 29, 30, 45, 66, 68, 69, 71, 83})
# sizes in pixels, for dense tasks
SHRUNK = {'scale', 'scales', 'img_scale', 'crop_size', 'size', 'stride'}
FACTOR = 8


@pytest.fixture(scope='session')
def data_root(tmp_path_factory) -> Path:
    """Digit scenes in the layouts of COCO 2017, ADE20K, ImageNet-1k and -22k."""
    root = tmp_path_factory.mktemp('layouts')
    digits = root / 'digits'
    build_scenes(digits, SceneOptions(train=2, val=2, size=96, seed=0))
    for split, folder in (('train', 'training'), ('val', 'validation')):
        for target in (
            root / f'coco/{split}2017',
            root / f'ade/ADEChallengeData2016/images/{folder}',
        ):
            target.mkdir(parents=True)
            for path in (digits / 'images' / folder).iterdir():
                Image.open(path).save(target / f'{path.stem}.jpg')
        for target in (
            'ade/ADEChallengeData2016/annotations/' + folder,
            f'coco/stuffthingmaps/{split}2017',
        ):
            shutil.copytree(digits / 'annotations' / folder, root / target)
        annotations = f'annotations/instances_{split}'
        _write_coco(digits / f'{annotations}.json', root / f'coco/{annotations}2017.json')
        _write_imagenet(digits / 'crops' / split, root / 'imagenet' / split, classes=1000)
        _write_imagenet(digits / 'crops' / split, root / 'imagenet22k' / split, classes=20)
    build_panoptic_scenes(root / 'digits_panoptic', PanopticSceneOptions(train=2, val=2, size=96))
    for split in ('train', 'val'):
        _write_coco_panoptic(root, split)
    return root


def _write_coco(source: Path, target: Path) -> None:
    """Write the annotations with COCO's 80 class names and ids, and JPEG file names."""
    from mmdet.datasets import CocoDataset

    content = json.loads(source.read_text())
    content['categories'] = [
        dict(id=i, name=name) for i, name in zip(COCO_IDS, CocoDataset.METAINFO['classes'])
    ]
    for image in content['images']:
        image['file_name'] = image['file_name'].replace('.png', '.jpg')
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content))


def _write_coco_panoptic(root: Path, split: str) -> None:
    """Write the panoptic scenes with COCO's 133 class names, and labels of the same order, for the
    images of COCO.
    """
    from mmdet.datasets import CocoPanopticDataset

    source = root / 'digits_panoptic' / 'annotations' / f'panoptic_{split}.json'
    content = json.loads(source.read_text())
    things = CocoPanopticDataset.METAINFO['thing_classes']
    content['categories'] = [
        dict(id=number, name=name, isthing=int(number <= len(things)))
        for number, name in enumerate(CocoPanopticDataset.METAINFO['classes'], 1)
    ]
    for image in content['images']:
        image['file_name'] = image['file_name'].replace('.png', '.jpg')
    for annotation in content['annotations']:
        for segment in annotation['segments_info']:
            if segment['category_id'] > 10:
                segment['category_id'] += len(things) - 10
    target = root / 'coco' / 'annotations' / f'panoptic_{split}2017'
    target.with_suffix('.json').write_text(json.dumps(content))
    shutil.copytree(source.with_suffix(''), target)


def _write_imagenet(crops: Path, target: Path, classes: int) -> None:
    """Write class folders with names like WordNet's; those of the digits have a JPEG image."""
    pictures = {int(path.parent.name): path for path in sorted(crops.glob('*/*.png'))}
    for label in range(classes):
        folder = target / f'n{label:08d}'
        folder.mkdir(parents=True)
        if label in pictures:
            Image.open(pictures[label]).resize((160, 120)).save(
                folder / f'{folder.name}_1.JPEG', format='JPEG'
            )


@pytest.fixture
def short_run(data_root, tmp_path, monkeypatch) -> Callable[..., Config]:
    """`short_run(path)` loads a config for one iteration on `data_root` with a shallow backbone.

    Pipelines, hooks, optimizer, metrics and heads are those of the config. For detectors and
    segmentors, image sizes are divided by 8, and fewer proposals are sampled.
    """
    # Formatting the config takes longer than the training.
    monkeypatch.setattr(Config, 'pretty_text', property(repr))

    def load(path: Path, **options: Any) -> Config:
        for kind in (MMLogger, MessageHub, Visualizer):  # runs are named by the second
            kind._instance_dict.clear()
        config = load_run_config(str(path), options, work_dir=str(tmp_path / 'run'))
        _redirect(config, data_root)
        init_default_scope(config.default_scope)
        config.load_from = None
        backbone = config.model.get('backbone') or config.model  # a whole model of timm
        if 'model_name' not in backbone:  # timm has no shallow ones
            _make_shallow(backbone)
            backbone.init_cfg = None
        if config.default_scope != 'mmpretrain' and path.parent.name != 'digits':
            _shrink([config[f'{split}_dataloader'] for split in ('train', 'val', 'test')])
            _shrink([config.model.get('data_preprocessor', {}), config.model.get('test_cfg') or {}])
            _shrink([config.get('tta_pipeline', [])])
        for node in _nodes(config.model):
            if 'anneal_steps' in node:  # the blocks may be those of the backbone
                node['num_blocks'] = 1
            if isinstance(node.get('sampler'), dict) and 'num' in node['sampler']:
                node['sampler']['num'] = 8
            for name, value in (
                ('score_thr', 0.0),
                ('nms_pre', 50),
                ('max_per_img', 20),
                ('num_proposals', 20),
                ('num_queries', 20),
                ('max_per_image', 20),
            ):
                if name in node:
                    node[name] = value
        _run_one_iteration(config)
        return config

    return load


def _nodes(node: Any) -> Iterator[dict]:
    """Yield all nested dicts."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, (list, tuple)):
        for child in node:
            yield from _nodes(child)


def _redirect(config: Config, data_root: Path) -> None:
    for split, kind in itertools.product(('train', 'val', 'test'), ('dataloader', 'evaluator')):
        for node in _nodes(config.get(f'{split}_{kind}')):
            for key, value in node.items():
                if isinstance(value, str) and value.startswith('data/'):
                    node[key] = str(data_root / value.removeprefix('data/'))


def _shrink(node: Any) -> None:
    for part in _nodes(node):
        for key in SHRUNK & part.keys():
            part[key] = _divided(part[key])


def _divided(size: Any) -> Any:
    if isinstance(size, int):
        return size // FACTOR
    return type(size)(map(_divided, size)) if size else size


def _make_shallow(backbone: dict) -> None:
    """Reduce a backbone to two blocks in the first stage, for kinds that alternate, and one in
    every other stage.
    """
    with MODELS.switch_scope_and_registry(None) as registry:  # of the library in the default scope
        cls = registry.get(backbone.type)
    module = importlib.import_module(cls.__module__)
    archs = getattr(cls, 'archs', getattr(module, 'ARCHS', None))
    if archs is None:  # a residual network; those below 50 layers have other blocks
        backbone.depth = min(backbone.depth, 50)
        return
    arch = backbone.pop('arch', next(iter(archs)))
    arch = dict(archs[arch] if isinstance(arch, str) else arch)
    if 'depths' in arch:
        arch['depths'] = (2,) + (1,) * (len(arch['depths']) - 1)
        letters = backbone.get('attn_types')
        if isinstance(letters, list):  # a letter for each block
            backbone.attn_types = [stage[:depth] for stage, depth in zip(letters, arch['depths'])]
    else:
        out = backbone.get('out_indices') or (0, 1)
        arch['depth'] = len(out)
        if backbone.get('out_indices'):
            backbone.out_indices = tuple(range(len(out)))
        if len(backbone.get('attn_types', 'L')) > 1:
            backbone.attn_types = backbone.attn_types[: len(out)]
        if backbone.get('frozen_stages', -1) > 0:
            backbone.frozen_stages = len(out)
    backbone.arch = arch


def _run_one_iteration(config: Config) -> None:
    config.train_cfg = dict(type='IterBasedTrainLoop', max_iters=1, val_interval=1)
    config.log_processor = dict(by_epoch=False)
    config.default_hooks.checkpoint = None
    config.randomness = dict(seed=0)
    for split in ('train', 'val', 'test'):
        config[f'{split}_dataloader'].update(
            batch_size=2, num_workers=0, persistent_workers=False, pin_memory=False
        )
