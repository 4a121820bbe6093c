"""Every config: what it inherits, what its first lines say, and that its name and its contents agree."""
import ast
import re
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import PARAM_SCHEDULERS

ROOT = Path(__file__).parents[2] / 'configs'
BASES = sorted((ROOT / '_base_').rglob('*.py'))
CONFIGS = sorted(set(ROOT.glob('*/*.py')) - set(BASES))
STEREO = [path for path in CONFIGS if path.stem.startswith('psmnet')]  # without a backbone, and not augmented in tests
# 310: PVT's and CSwin's training cools down for 10 epochs.
EPOCHS = {'in1k': (300, 310), '384px': (30, ), '1x': (12, ), '3x': (36, )}


def names(paths: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in paths]


def inherited(path: Path) -> list[str]:
    """What a file's own `_base_` lists."""
    for node in ast.parse(path.read_text(encoding='utf-8')).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', None) == '_base_':
            bases = ast.literal_eval(node.value)
            return [bases] if isinstance(bases, str) else bases
    return []


def test_there_are_configs_and_their_names_are_unique():
    assert len(CONFIGS) >= 40
    stems = [path.stem for path in CONFIGS]
    assert sorted(set(stems)) == sorted(stems)


@pytest.mark.parametrize('path', [*BASES, *CONFIGS], ids=names([*BASES, *CONFIGS]))
def test_nothing_is_inherited_from_outside_the_folder(path):
    for base in inherited(path):
        assert '::' not in base, f'{base} makes MMEngine install the library it names'
        target = (path.parent / base).resolve()
        assert target.is_file() and ROOT in target.parents


@pytest.mark.parametrize('path', [*BASES, *CONFIGS], ids=names([*BASES, *CONFIGS]))
def test_nothing_is_downloaded(path):
    text = path.read_text(encoding='utf-8')
    assert '://' not in text and 'custom_imports' not in text


@pytest.mark.parametrize('path', CONFIGS, ids=names(CONFIGS))
def test_the_first_lines_name_the_source_and_whether_it_was_run(path):
    text = path.read_text(encoding='utf-8')
    header = ' '.join((ast.get_docstring(ast.parse(text)) or '').split())
    if path.parent.name == 'digits':
        assert 'digit scenes' in header
    else:
        assert re.search(r', Tables? \d', header) or 'No paper' in header
        assert 'Not run by this project' in header
    assert len(text.splitlines()) <= (70 if path.parent.name == 'digits' else 45)


@pytest.mark.parametrize('path', CONFIGS, ids=names(CONFIGS))
def test_a_config_holds_all_that_a_run_needs(path):
    config = Config.fromfile(path)
    if path in STEREO:
        assert config.default_scope == 'mmflatten' and config.model.type.startswith('mmflatten.')
    else:
        assert config.default_scope in ('mmpretrain', 'mmdet', 'mmseg')
        assert config.model.backbone.type.startswith('mmflatten.') and 'tta_pipeline' in config
    for key in ('optim_wrapper', 'param_scheduler', 'train_cfg', 'auto_scale_lr', 'default_hooks', 'env_cfg',
                *(f'{split}_{part}' for split in ('val', 'test') for part in ('cfg', 'dataloader', 'evaluator'))):
        assert key in config, key


@pytest.mark.parametrize('path', CONFIGS, ids=names(CONFIGS))
def test_batch_and_length_are_those_of_the_name(path):
    config, name = Config.fromfile(path), path.stem
    per_gpu = config.train_dataloader.batch_size
    if match := re.search(r'_(\d+)xb(\d+)', name):
        gpus, batch = (int(number) for number in match.groups())
        assert per_gpu == batch and config.auto_scale_lr.base_batch_size == gpus * batch
    elif name.endswith('_coco'):
        assert per_gpu == 2 and config.auto_scale_lr.base_batch_size == 16
    else:
        assert path.parent.name == 'digits' and config.auto_scale_lr.base_batch_size == per_gpu
    for mark, epochs in EPOCHS.items():
        if re.search(rf'{mark}(_|$)', name):
            assert config.train_cfg.max_epochs in epochs
    if match := re.search(r'-(\d+)k_ade20k', name):
        assert config.train_cfg.max_iters == 1000 * int(match.group(1))


@pytest.mark.parametrize('path', CONFIGS, ids=names(CONFIGS))
def test_the_schedule_ends_with_the_training(path):
    config = Config.fromfile(path)
    end = config.train_cfg.get('max_iters') or config.train_cfg.max_epochs
    assert config.param_scheduler[-1].end == end
    warmups = [part for part in config.param_scheduler if part.type == 'LinearLR']
    assert all(part.begin == 0 for part in warmups)


@pytest.mark.parametrize('name, lr, first, last', [
    ('flatten-swin-t_8xb128_in1k', 1e-3, 1e-6, 1e-5),
    ('flatten-swin-s_8xb128_in1k', 1e-3, 1e-6, 1e-5),
    ('flatten-swin-b_8xb64_in1k', 5e-4, 5e-7, 5e-6),
    ('flatten-swin-b_8xb32_in1k-384px', 1e-5, 1e-8, 1e-7),
    ('swin-t_8xb128_in1k', 1e-3, 1e-6, 1e-5),
    ('swin-b_8xb64_in1k', 5e-4, 5e-7, 5e-6),
])
def test_learning_rates_are_the_official_ones_scaled_to_the_batch(name, lr, first, last):
    config = Config.fromfile(ROOT / 'flatten_swin' / f'{name}.py')
    warmup, cosine = config.param_scheduler
    assert config.optim_wrapper.optimizer.lr == pytest.approx(lr)
    assert lr * warmup.start_factor == pytest.approx(first)
    # Relative to the peak, so that `--auto-scale-lr` scales it too.
    assert lr * cosine.eta_min_ratio == pytest.approx(last)
    assert warmup.begin == cosine.begin == 0, 'the official cosine runs under the warm-up'
    assert warmup.convert_to_iter_based and cosine.convert_to_iter_based
    assert config.optim_wrapper.clip_grad.max_norm == 5.0


def test_upernets_rate_is_the_warm_up_times_the_decay_from_the_first_iteration_on():
    """mmseg 0.x: `lr * (1 - t / 160000)`, in the first 1500 iterations times a line from 1e-6 to 1."""
    config = Config.fromfile(ROOT / 'flatten_swin' / 'upernet_flatten-swin-t_8xb2-160k_ade20k-512x512.py')
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.optim_wrapper.optimizer.lr)
    schedulers = [PARAM_SCHEDULERS.build(dict(part), default_args=dict(optimizer=optimizer))
                  for part in config.param_scheduler]
    optimizer.step()
    for step in range(3001):
        if step in (0, 750, 1498, 1500, 3000):
            expected = 6e-5 * (1 - step / 160000) * min(1, 1e-6 + step / 1500)
            assert optimizer.param_groups[0]['lr'] == pytest.approx(expected, abs=1e-3 * 6e-5), step
        for scheduler in schedulers:
            scheduler.step()
