"""Every config: what it inherits from, and that its name and its contents agree."""
import ast
import re
from functools import cache
from pathlib import Path

import pytest
from mmengine.config import Config

ROOT = Path(__file__).parents[2] / 'configs'
BASES = sorted((ROOT / '_base_').rglob('*.py'))
PARTS = [path for path in BASES if path.parent.name in ('datasets', 'models', 'schedules')]
CONFIGS = sorted(set(ROOT.glob('*/*.py')) - set(BASES))
# 310: PVT's and CSwin's training cools down for 10 epochs; 90: residual networks.
EPOCHS = {'in1k': (90, 300, 310), '384px': (30, ), '1x': (12, ), '3x': (36, )}
FAMILY = re.compile(
    r'(?:^|_)((?:[a-z0-9]+-)??(?:swin|pvtv2|pvt|cswin|deit)|focal|l2vit|psmnet|ravlt|mavit|nalaformer|'
    r'polaformerpp|biformer|mila|h-vittt|vittt)')
read = cache(Config.fromfile)


def each(paths: list[Path]):
    return pytest.mark.parametrize('path', paths, ids=[path.relative_to(ROOT).as_posix() for path in paths])


def parents(path: Path) -> list[Path]:
    """What a file's own `_base_` lists."""
    for node in ast.parse(path.read_text(encoding='utf-8')).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', None) == '_base_':
            bases = ast.literal_eval(node.value)
            assert not any('::' in base for base in bases), 'MMEngine would install the library it names'
            return [(path.parent / base).resolve() for base in bases]
    return []


def chain(path: Path) -> int:
    """How many files the longest line of inheritance has, down to the parts."""
    return 1 if path in PARTS else 1 + max(map(chain, parents(path)), default=0)


def family(path: Path) -> str:
    match = FAMILY.search(path.stem)
    return match[1] if match else 'resnet'


def test_names_are_unique():
    assert len({path.stem for path in CONFIGS}) == len(CONFIGS)


@each(CONFIGS)
def test_a_config_is_three_files_from_its_parts_at_most_and_stays_in_its_family(path):
    assert chain(path) <= 3
    for parent in parents(path):
        assert ROOT in parent.parents
        # A baseline and its variant inherit the same recipe or parts, and neither inherits from the other.
        assert ROOT / '_base_' in parent.parents or family(parent) == family(path)


@each(PARTS)
def test_a_part_varies_one_other_of_its_folder_at_most(path):
    varied = parents(path)
    assert len(varied) <= 1
    assert all(part.parent == path.parent and not parents(part) for part in varied)


@each([*BASES, *CONFIGS])
def test_nothing_is_downloaded_and_no_backbone_is_deleted(path):
    text = path.read_text(encoding='utf-8')
    assert '://' not in text and 'custom_imports' not in text
    # Another kind of neck, or a table in the place of an architecture's name.
    assert set(re.findall(r'(\w+)=dict\(\s*_delete_=', text)) <= {'neck', 'arch'}


@each(CONFIGS)
def test_a_config_holds_all_that_a_run_needs(path):
    config = read(path)
    if 'psmnet' in path.stem:
        assert config.default_scope == 'mmflatten' and config.model.type.startswith('mmflatten.')
    else:
        assert config.default_scope in ('mmpretrain', 'mmdet', 'mmseg')
        assert config.model.backbone.type.startswith('mmflatten.') and 'tta_pipeline' in config
    assert config.visualizer.name == 'visualizer'  # mmdet's and mmseg's inferencers ask for it
    for key in ('optim_wrapper', 'param_scheduler', 'train_cfg', 'auto_scale_lr', 'default_hooks', 'env_cfg',
                *(f'{split}_{part}' for split in ('val', 'test') for part in ('cfg', 'dataloader', 'evaluator'))):
        assert key in config, key


@each(CONFIGS)
def test_batch_length_and_schedule_are_those_of_the_name(path):
    config, name = read(path), path.stem
    per_gpu, total = config.train_dataloader.batch_size, config.auto_scale_lr.base_batch_size
    if match := re.search(r'_(\d+)xb(\d+)', name):
        assert per_gpu == int(match[2]) and total == int(match[1]) * per_gpu
    elif name.endswith('_coco'):
        assert (per_gpu, total) == (2, 16)
    else:
        assert path.parent.name in ('digits', 'fashion', 'garments') and total == per_gpu
    for mark, epochs in EPOCHS.items():
        if re.search(rf'{mark}(_|$)', name):
            assert config.train_cfg.max_epochs in epochs
    if match := re.search(r'-(\d+)k_ade20k', name):
        assert config.train_cfg.max_iters == 1000 * int(match[1])
    assert config.param_scheduler[-1].end == (config.train_cfg.get('max_iters') or config.train_cfg.max_epochs)
