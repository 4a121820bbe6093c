"""Every config: its bases, its fields, and its name."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from mmflatten.config import ConfigError, Continuations, read_config

ROOT = Path(__file__).parents[2] / 'configs'
BASES = sorted((ROOT / '_base_').rglob('*.py'))
PARTS = [path for path in BASES if path.parent.name in ('datasets', 'models', 'schedules')]
RECIPES = [path for path in BASES if path.parent.name == 'recipes']
CONFIGS = sorted(set(ROOT.glob('*/*.py')) - set(BASES))
# 310: PVT and CSwin train 10 more epochs at the lowest rate; 90: residual networks; 10: a linear
# layer.
EPOCHS = {'in1k': (10, 90, 300, 310), '384px': (30,), '1x': (12,), '3x': (36,)}
FAMILY = re.compile(
    r'(?:^|_)((?:[a-z0-9]+-)??(?:swin|pvtv2|pvt|cswin|deit)|focal|l2vit|psmnet|ravlt|mavit|'
    r'nalaformer|polaformerpp|biformer|mila|h-vittt|vittt)'
)


def each(paths: list[Path]):
    return pytest.mark.parametrize(
        'path', paths, ids=[path.relative_to(ROOT).as_posix() for path in paths]
    )


@cache
def parents(path: Path) -> list[Path]:
    """List the base files of a config."""
    for node in ast.parse(path.read_text(encoding='utf-8')).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', None) == '_base_':
            bases = ast.literal_eval(node.value)
            assert not any('::' in base for base in bases), (
                f'{path}: MMEngine would install the named library'
            )
            return [(path.parent / base).resolve() for base in bases]
    return []


def family(path: Path) -> str:
    if path.parent.name == 'comparison':
        return path.stem
    match = FAMILY.search(path.stem)
    return match[1] if match else 'resnet'


def test_config_names_are_unique():
    assert len({path.stem for path in CONFIGS}) == len(CONFIGS)


def test_configs_inherit_one_recipe_or_the_config_of_which_they_are_a_variant():
    for path in CONFIGS:
        (parent,) = parents(path)
        if parent in RECIPES:
            continue
        # A baseline and the model compared with it share a recipe; neither inherits the other.
        assert parent in CONFIGS and family(parent) == family(path), path
        (recipe,) = parents(parent)
        assert recipe in RECIPES, f'{path}: a variant of a variant'


@each(RECIPES)
def test_recipe_combines_a_model_data_a_schedule_and_the_runtime(path):
    *parts, runtime = parents(path)
    assert [part.parent.name for part in parts] == ['models', 'datasets', 'schedules']
    assert set(parts) <= set(PARTS)
    assert runtime == ROOT / '_base_' / 'default_runtime.py'


def test_every_recipe_is_used_by_a_config():
    used = set()
    for path in CONFIGS:
        used.update(parents(path))
    assert set(RECIPES) <= used


@each(PARTS)
def test_part_inherits_from_at_most_one_part_of_its_folder(path):
    chain = [path]
    while parents(chain[-1]):
        (part,) = parents(chain[-1])
        assert part.parent == path.parent
        chain.append(part)
    # Panoptic FPN of reduced width is a Mask R-CNN of reduced width, and that a Mask R-CNN.
    assert len(chain) <= 3


def test_configs_download_nothing_and_delete_no_backbone():
    for path in (*BASES, *CONFIGS):
        text = path.read_text(encoding='utf-8')
        assert '://' not in text and 'custom_imports' not in text, path
        # A different type of neck, or a dict instead of the name of an architecture.
        deleted = set(re.findall(r'(\w+)=dict\(\s*_delete_=', text))
        assert deleted <= {'neck', 'arch'}, path


@each(CONFIGS)
def test_config_has_all_fields_of_a_run(path, read_config):
    config = read_config(path.relative_to(ROOT).as_posix())
    if 'psmnet' in path.stem:
        assert config.default_scope == 'mmflatten' and config.model.type.startswith('mmflatten.')
    else:
        assert config.default_scope in ('mmpretrain', 'mmdet', 'mmseg')
        assert path.parent.name == 'comparison' or config.model.backbone.type.startswith(
            'mmflatten.'
        )
        # There is no test-time augmentation of segments.
        is_panoptic = config.val_evaluator.type == 'mmflatten.PanopticMetric'
        assert is_panoptic or 'tta_pipeline' in config
    assert config.visualizer.name == 'visualizer'  # required by mmdet's and mmseg's inferencers
    for key in (
        'optim_wrapper',
        'param_scheduler',
        'train_cfg',
        'auto_scale_lr',
        'default_hooks',
        'env_cfg',
        'val_cfg',
        'val_dataloader',
        'val_evaluator',
        'test_cfg',
        'test_dataloader',
        'test_evaluator',
    ):
        assert key in config, key


@each(CONFIGS)
def test_config_name_states_batch_size_and_length(path, read_config):
    config, name = read_config(path.relative_to(ROOT).as_posix()), path.stem
    per_gpu, total = config.train_dataloader.batch_size, config.auto_scale_lr.base_batch_size
    if match := re.search(r'_(\d+)xb(\d+)', name):
        assert per_gpu == int(match[2]) and total == int(match[1]) * per_gpu
    elif name.endswith(('_coco', '_coco-panoptic')):
        assert (per_gpu, total) == (2, 16)
    else:
        assert path.parent.name == 'digits' and total == per_gpu
    for mark, epochs in EPOCHS.items():
        if re.search(rf'{mark}(_|$)', name):
            assert config.train_cfg.max_epochs in epochs
    if match := re.search(r'-(\d+)k_ade20k', name):
        assert config.train_cfg.max_iters == 1000 * int(match[1])
    assert config.param_scheduler[-1].end == (
        config.train_cfg.get('max_iters') or config.train_cfg.max_epochs
    )


def test_custom_imports_find_modules_beside_the_config(tmp_path, monkeypatch):
    (tmp_path / 'beside_the_config.py').write_text('VALUE = 3\n')
    config = tmp_path / 'mine.py'
    config.write_text("custom_imports = dict(imports=['beside_the_config'])\n")
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    path = list(sys.path)
    read_config(str(config))
    assert sys.modules.pop('beside_the_config').VALUE == 3 and sys.path == path
    config.write_text("custom_imports = dict(imports=['missing_module'])\n")
    with pytest.raises(ConfigError, match='custom_imports.*missing_module.*beside the config'):
        read_config(str(config))


@pytest.mark.parametrize(
    'base, model',
    [
        ('mmdet::mask2former/mask2former_r50_8xb2-lsj-50e_coco.py', 'Mask2Former'),
        ('mmseg::mask2former/mask2former_r50_8xb2-160k_ade20k-512x512.py', 'EncoderDecoder'),
        ('mmpretrain::resnet/resnet50_8xb32_in1k.py', 'ImageClassifier'),
    ],
)
def test_config_of_an_installed_package_is_a_base(base, model, tmp_path):
    config = tmp_path / 'mine.py'
    config.write_text(f'_base_ = {base!r}\n')
    content = read_config(str(config))
    assert content.model.type == model
    assert content.model.backbone.type == 'ResNet'
    assert not any(isinstance(finder, Continuations) for finder in sys.meta_path)
