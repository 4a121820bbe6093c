"""The example of docs/adding_an_attention.md: its file and its config lines, run in three tasks."""

import re
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner, set_random_seed
from torch import nn

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.engine.setup import build_runner, load_config
from mmflatten.registry import MODELS

ROOT = Path(__file__).parents[2]
NAME = 'SquaredReLUAttention'
MODULE = 'squared_relu'
WIDTHS = (32, 64, 128, 256)
ARCH = dict(depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16))


def documented_code(containing: str) -> str:
    """The Python block of the document that contains a text."""
    text = (ROOT / 'docs' / 'adding_an_attention.md').read_text(encoding='utf-8')
    (block,) = (
        code for code in re.findall(r'```python\n(.*?)```', text, re.DOTALL) if containing in code
    )
    return block


def documented_config(base: str | None = None) -> str:
    """The config of the document with the absolute path of its base, or of another base."""
    code = documented_code('custom_imports')
    (documented_base,) = re.findall(r"^_base_ = '(.*)'$", code, re.MULTILINE)
    return code.replace(documented_base, str(ROOT / (base or documented_base)))


@pytest.fixture(scope='module')
def project(tmp_path_factory):
    """A folder on the Python path with the file of the document; removed from the path and the
    registry afterwards.
    """
    folder = tmp_path_factory.mktemp('project')
    (folder / f'{MODULE}.py').write_text(documented_code('class '), encoding='utf-8')
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop(MODULE, None)
    MODELS.module_dict.pop(NAME, None)


@pytest.fixture(scope='module')
def digit_root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('data') / 'digits'
    build_scenes(root, SceneOptions(train=4, val=1, size=96, seed=0))
    return root


def swin(config: Config) -> None:
    """Use the backbone of the config."""
    config.model.backbone.attn_types = 'LLLL'


def pvt(config: Config) -> None:
    config.model.backbone = dict(
        type='mmflatten.FLattenPVT',
        arch=dict(ARCH, embed_dims=WIDTHS),
        img_size=160,
        linear_sr_ratios=(2, 1, 1, 1),
        mixers=config.model.backbone.mixers,
    )


def deit(config: Config) -> None:
    config.model.backbone = dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=64, depth=3, num_heads=4),
        img_size=64,
        mixers=config.model.backbone.mixers,
    )
    config.model.neck = None
    config.model.head.in_channels = 64


def config_with_documented_lines(base: str, project: Path, digit_root: Path) -> Config:
    """The config of the document, with another base for the digit scenes."""
    path = project / Path(base).name
    path.write_text(documented_config(f'configs/digits/{base}'), encoding='utf-8')
    options = {
        'train_dataloader.dataset.data_root': str(digit_root),
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
        'train_dataloader.batch_size': 2,
    }
    config = load_config(str(path), options, str(project / 'work_dirs'))
    config.val_cfg = config.val_dataloader = config.val_evaluator = None
    config.test_cfg = config.test_dataloader = config.test_evaluator = None
    config.experiment_name = path.stem
    return config


def loss_of(runner: Runner, batch: dict) -> torch.Tensor:
    """The total loss. Proposals are sampled with the same random numbers each time."""
    set_random_seed(0)
    return runner.model.parse_losses(
        runner.model(**runner.model.data_preprocessor(batch, True), mode='loss')
    )[0]


@pytest.mark.parametrize(
    ('base', 'change', 'blocks'),
    [
        ('mask-rcnn_flatten-swin-nano_fpn_digits.py', swin, 5),
        ('semantic-fpn_flatten-swin-nano_digits.py', pvt, 5),
        ('flatten-swin-nano_digits.py', deit, 3),
    ],
    ids=['FLattenSwin-mask-rcnn', 'FLattenPVT-semantic-fpn', 'FLattenDeiT-classifier'],
)
def test_documented_attention_trains(base, change, blocks, project, digit_root):
    config = config_with_documented_lines(base, project, digit_root)
    change(config)
    set_random_seed(0)
    runner = build_runner(config)
    runner.model.init_weights()
    runner.model.train()
    batch = next(iter(runner.build_dataloader(config.train_dataloader, seed=0)))
    mixers = [m for m in runner.model.modules() if type(m).__name__ == NAME]
    assert len(mixers) == blocks

    optimizer = torch.optim.AdamW(runner.model.parameters(), lr=1e-4)
    before = loss_of(runner, batch)
    before.backward()
    for p in nn.ModuleList(mixers).parameters():
        assert p.grad is not None and p.grad.isfinite().all() and p.grad.any()
    optimizer.step()
    assert loss_of(runner, batch) < before


FAMILIES = {
    'FLattenSwin': dict(attn_types='LLLL', linear_window=3, arch=dict(ARCH, embed_dims=16)),
    'FLattenPVT': dict(
        linear_sr_ratios=(4, 2, 1, 1), arch=dict(ARCH, embed_dims=(16, 32, 64, 128))
    ),
    'FLattenPVTv2': dict(arch=dict(ARCH, embed_dims=(16, 32, 64, 128))),
    'FLattenCSwin': dict(
        attn_types='LLLL', linear_split=(1, 2, 2, 2), arch=dict(ARCH, embed_dims=16)
    ),
    'FLattenDeiT': dict(out_type='featmap', arch=dict(embed_dims=16, depth=2, num_heads=2)),
    'L2ViT': dict(arch=dict(ARCH, embed_dims=16)),
}


@pytest.fixture
def attention(project) -> dict:
    """The attention of the document's config; reading the config registers the class."""
    path = project / 'import.py'
    path.write_text(documented_config(), encoding='utf-8')
    return Config.fromfile(path).model.backbone.mixers.L


@pytest.mark.parametrize('family', FAMILIES)
def test_documented_attention_runs_in_every_family(family, attention):
    torch.manual_seed(0)
    model = MODELS.build(
        dict(type=family, img_size=64, linear_attention=attention, **FAMILIES[family])
    )
    maps = model(torch.randn(2, 3, 65, 97))
    sum(out.square().sum() for out in maps).backward()
    mixers = [m for m in model.modules() if type(m).__name__ == NAME]
    assert mixers and all(out.isfinite().all() for out in maps)
    for p in nn.ModuleList(mixers).parameters():
        assert p.grad is not None and p.grad.any()


def test_documented_attention_equals_its_formula(attention):
    torch.manual_seed(0)
    mixer = MODELS.get(attention.type)(12, 3, (3, 5)).double()
    x = torch.randn(2, 15, 12, dtype=torch.float64)
    q, k, v = mixer.qkv(x).view(2, 15, 3, 3, 4).permute(2, 0, 3, 1, 4)
    scores = (q.relu() ** 2 + 1e-6) @ (k.relu() ** 2 + 1e-6).transpose(-2, -1)
    weights = scores / (scores.sum(-1, keepdim=True) + 15e-6)  # the operator adds 1e-6 to the mean
    expected = mixer.proj((weights @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(mixer(x, (3, 5)), expected, rtol=1e-10, atol=1e-10)
