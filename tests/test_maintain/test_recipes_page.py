"""The page of recipes: phrases of a config, sources of its settings, sections. `test_docs` renders all configs."""
from pathlib import Path

import pytest
from mmengine.config import Config
from recipe_page import page
from recipe_page.page import ConfigRecipe, render_page
from recipe_page.recipe import SETTINGS, Recipe, plain
from recipe_page.sources import SourceLine, lines_of, source_lines

from mmflatten.engine.recipe.settings import base_batch, gpus_of, grad_accum_steps

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.mark.parametrize('config, phrases', [
    ('flatten_swin/flatten-swin-t_8xb128_in1k.py', dict(
        batch=['1024', '8 GPUs x 128'], rate=['AdamW 1e-3', 'clipped at 5'], drop_path=['0.2'], ema=['none'],
        schedule=['300 epochs', '20 epochs from 1e-6', 'cosine down to 1e-5 at epoch 300'],
        decay=['0.05', 'norms', 'biases', '`relative_position_bias`'],
        augmentation=['224', 'flip 0.5', 'RandAugment', 'erasing 0.25', 'Mixup 0.8', 'CutMix 1', 'smoothing 0.1'])),
    ('flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco.py', dict(
        batch=['16 (8 GPUs x 2)'], schedule=['500 iterations', 'epochs 8 and 11'],
        augmentation=['480-800', '400-600', 'crop 384-600', '1333'])),
    ('l2vit/l2vit-s_32xb128_in1k.py', dict(batch=['4096'], ema=['0.9999'], drop_path=['0.3'])),
    ('flatten_deit/deit-t_8xb128_in1k.py', dict(augmentation=['repeated augmentation (3)'])),
    ('psmnet/psmnet_4xb3-300e_kitti2015.py', dict(
        rate=['Adam 1e-3'], decay=['none'], drop_path=['none'], schedule=['epoch 200'], augmentation=['256x512'])),
])
def test_recipe_phrases(config, phrases):
    recipe = Recipe.of(Config.fromfile(CONFIGS / config))
    missing = [phrase for name, wanted in phrases.items() for phrase in wanted if phrase not in getattr(recipe, name)]
    assert missing == []


def test_recipe_phrases_of_accumulation_layer_decay_and_ema():
    cfg = Config.fromfile(CONFIGS / 'flatten_swin/flatten-swin-t_8xb128_in1k.py')
    cfg.optim_wrapper.accumulative_counts = 4
    cfg.optim_wrapper.paramwise_cfg = dict(layer_decay_rate=0.8, custom_keys={'head': dict(decay_mult=0.5)})
    cfg.custom_hooks = [dict(type='EMAHook', momentum=0.01, interval=4)]
    recipe = Recipe.of(cfg)
    assert '4096' in recipe.batch and '4 steps' in recipe.batch
    assert '0.8' in recipe.rate and '`head` times 0.5' in recipe.decay
    assert '0.99' in recipe.ema and '4 iterations' in recipe.ema


@pytest.mark.parametrize('value, text', [
    (1e-3, '1e-3'), (6e-5, '6e-5'), (0.05, '0.05'), (1, '1'), (0, '0'), (2.5e-6, '2.5e-6'), (0.1 / 3, '0.0333333')])
def test_plain_format(value, text):
    assert plain(value) == text


def test_batch_size_in_config_name():
    for path in sorted(CONFIGS.glob('*/*_*xb*.py'))[::16]:
        cfg = Config.fromfile(path)
        assert f'{gpus_of(cfg)}xb{cfg.train_dataloader.batch_size}' in path.stem
        assert gpus_of(cfg) * cfg.train_dataloader.batch_size * grad_accum_steps(cfg) == base_batch(cfg), path.name


def test_later_source_line_overrides_earlier(monkeypatch):
    lines = (SourceLine('_base_/schedules/*', SETTINGS, 'all'), SourceLine('focal/*', ('decay',), 'Focal'),
             SourceLine('focal/b.py', ('rate',), 'another'))
    monkeypatch.setattr('recipe_page.sources.source_lines', lambda: lines)
    found = lines_of(['_base_/schedules/coco.py', 'focal/a.py'])
    assert found['decay'].source == 'Focal' and found['rate'].source == 'all'
    assert lines_of(['swin/a.py']) == {}


def test_missing_source_names_config_and_setting(monkeypatch):
    config = CONFIGS / 'psmnet' / 'psmnet_4xb3-10e_sceneflow.py'
    monkeypatch.setattr(page, 'lines_of', lambda files: {name: source_lines()[0] for name in SETTINGS if name != 'ema'})
    with pytest.raises(ValueError, match=r'psmnet_4xb3-10e_sceneflow\.py.* ema\.'):
        ConfigRecipe.read(config, CONFIGS)


def test_configs_differing_in_drop_path_share_a_section():
    def config(name: str, drop_path: str, rate: str = '1e-3', source: str = 'a paper') -> ConfigRecipe:
        recipe = Recipe('1024', rate, '300 epochs', '0.05', 'flip', drop_path, 'none')
        return ConfigRecipe(name, 'COCO', '300 epochs', recipe, dict.fromkeys(SETTINGS, SourceLine('*', (), source)))

    alike = [config('x/a.py', '0.1'), config('y/b.py', '0.2', source='a file')]
    first, second = render_page([*alike, config('x/c.py', '0.1', rate='1')]).split('\n## ')[1:]
    assert 'Drop path 0.1, sources a: [a](../configs/x/a.py)' in first and '*a*: a paper' in first
    assert 'Drop path 0.2, sources b: [b](../configs/y/b.py)' in first and '*b*: a file' in first
    assert 'Drop path 0.1: [c]' in second and '*a*: a paper' in second
