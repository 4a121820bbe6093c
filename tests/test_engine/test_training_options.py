"""`--deterministic` and `--compile` of `mmflatten train`."""

import json
import random
import shutil
from copy import deepcopy
from math import ceil
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo.config as dynamo
from mmengine.config import Config
from torch import nn
from torch._dynamo.backends.registry import lookup_backend
from torch._dynamo.utils import counters

from mmflatten.cli.train import main as train
from mmflatten.engine import setup
from mmflatten.engine.hooks.training import CompileHook
from mmflatten.models import FLattenSwin

EPOCHS = 1  # of four steps


@pytest.fixture(autouse=True)
def restored(tools):
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    torch._dynamo.reset()


def trained(run, name: str, *options: str, config=None) -> tuple[dict, list[float]]:
    """Train in a new folder; return the weights and the losses of all steps."""
    folder = run.folder / name
    assert (
        train(
            [
                str(config or run.config),
                '--no-validate',
                '--work-dir',
                str(folder),
                *options,
                '--cfg-options',
                f'train_cfg.max_epochs={EPOCHS}',
                'default_hooks.logger.interval=1',
                f'experiment_name={name}',
            ]
        )
        == 0
    )
    (log,) = folder.glob('*/vis_data/scalars.json')
    losses = [json.loads(line)['loss'] for line in log.read_text().splitlines()]
    return torch.load(folder / f'epoch_{EPOCHS}.pth', weights_only=False)['state_dict'], losses


def test_two_deterministic_trainings_with_one_seed_are_equal_bit_for_bit(tiny):
    first, losses = trained(tiny, 'first', '--deterministic', '--seed', '3')
    assert torch.are_deterministic_algorithms_enabled()
    again, losses_again = trained(tiny, 'again', '--deterministic', '--seed', '3')
    other, _ = trained(tiny, 'other', '--deterministic', '--seed', '4')
    assert len(losses) == 4 * EPOCHS and losses == losses_again
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_compiled_training_has_the_losses_and_weights_of_an_eager_one(tiny):
    eager, losses = trained(tiny, 'eager', '--seed', '3')
    counters.clear()
    compiled, compiled_losses = trained(tiny, 'compiled', '--seed', '3', '--compile', 'aot_eager')
    assert counters['stats']['unique_graphs'] > 0
    assert compiled_losses == pytest.approx(losses, rel=1e-4)
    assert eager.keys() == compiled.keys()


@pytest.fixture
def compiled_swin():
    """Function that returns a small FLatten-Swin, compiled and eager, and a list of graphs.

    It has a kind of blocks with linear attention and one with windows, both twice if `depth` is 2,
    once with shift.
    """
    limits = {
        name: getattr(dynamo, name) for name in ('cache_size_limit', 'fail_on_cache_limit_hit')
    }
    torch.compiler.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return lookup_backend('aot_eager')(graph, inputs)

    def build(limit=3, depth=1):
        arch = dict(embed_dims=8, depths=(depth, depth), num_heads=(1, 1))
        model = nn.Module()
        model.backbone = FLattenSwin(
            arch=arch, attn_types='LS', out_indices=(0, 1), drop_path_rate=0.2
        ).train()
        eager = deepcopy(model.backbone)
        CompileHook(backend, limit).before_train(SimpleNamespace(model=model))
        return model.backbone, eager, graphs

    yield build
    torch.compiler.reset()
    for name, value in limits.items():
        setattr(dynamo, name, value)


def coco_sizes(number, seed=2):
    """Padded sizes of multi-scale training on COCO: short side 480 to 800, long side up to 1333,
    upright or lying.
    """
    generator = random.Random(seed)
    for _ in range(number):
        # the common shapes of COCO's images
        ratio = generator.choice([640 / 480, 640 / 427, 500 / 375, 640 / 640])
        short = min(generator.randrange(480, 801, 32), 1333 / ratio)
        sides = [ceil(side / 32) * 32 for side in (short, short * ratio)]
        yield tuple(sides) if generator.random() < 0.7 else tuple(sides[::-1])


def step(model, size):
    torch.manual_seed(size[0] + size[1])  # of the image and of the drop paths
    loss = sum(y.square().mean() for y in model(torch.randn(1, 3, *size)))
    model.zero_grad()
    loss.backward()
    return loss.detach(), torch.stack([parameter.grad.norm() for parameter in model.parameters()])


@pytest.mark.parametrize('number, depth', [(2, 1), pytest.param(40, 2, marks=pytest.mark.full)])
def test_blocks_are_compiled_at_most_three_times_per_kind_for_the_sizes_of_coco(
    number, depth, compiled_swin
):
    compiled, eager, graphs = compiled_swin(depth=depth)
    for size in coco_sizes(number):
        torch.testing.assert_close(step(compiled, size), step(eager, size), rtol=1e-4, atol=1e-5)
    kinds = 2 * depth
    assert kinds < len(graphs) <= 3 * kinds


def test_too_many_compilations_are_an_error(compiled_swin):
    model, *_ = compiled_swin(limit=1)
    with pytest.raises(Exception, match='limit') as caught:
        for size in (224, 256):
            model(torch.randn(1, 3, size, size + 32))
    assert type(caught.value).__name__ == 'FailOnRecompileLimitHit'


def test_compile_needs_a_compiler_on_a_cpu(tiny, fails, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    monkeypatch.setattr(shutil, 'which', lambda name: None)
    assert 'C++ compiler' in fails('train', tiny.config, '--compile')


def with_accumulation(run, hook: str):
    """Write a config with gradients over two steps, and a hook."""
    config = run.folder / 'accumulates.py'
    config.write_text(
        f'_base_ = [{str(run.config)!r}]\noptim_wrapper = dict(accumulative_counts=2)\n'
        f'custom_hooks = [{hook}]\n'
    )
    return config


def test_backbone_compiled_for_graphs_has_the_losses_of_an_eager_one(tiny):
    """Without capture, which needs a GPU; batches, drop path, accumulated gradients and the hook
    are the same.
    """
    config = with_accumulation(tiny, '')
    _, losses = trained(tiny, 'eager', '--seed', '3', config=config)
    counters.clear()
    config = with_accumulation(
        tiny, "dict(type='mmflatten.CompileHook', graphs=True, backend='aot_eager')"
    )
    _, compiled_losses = trained(tiny, 'compiled', '--seed', '3', config=config)
    assert counters['stats']['unique_graphs'] == 1  # the backbone as a whole
    assert compiled_losses == pytest.approx(losses, rel=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason='CUDA graphs need a GPU')
def test_cuda_graphs_train_as_eager_code(tiny, monkeypatch):
    # the random numbers of eager code
    monkeypatch.setattr('torch._inductor.config.fallback_random', True)
    config = with_accumulation(tiny, '')
    weights, losses = trained(tiny, 'eager', '--seed', '3', config=config)
    captured, captured_losses = trained(
        tiny, 'graphs', '--seed', '3', '--compile', 'graphs', config=config
    )
    assert counters['inductor']['cudagraph_skips'] == 0
    assert captured_losses == pytest.approx(losses, rel=1e-3)
    torch.testing.assert_close(captured, weights, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    'change, gpu, words',
    [
        (dict(), False, ['GPU']),
        (dict(default_scope='mmdet'), True, ['one size', 'mmdet']),
        (dict(launcher='pytorch'), True, ['one process', 'pytorch']),
    ],
)
def test_graphs_name_what_they_require(change, gpu, words, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: gpu)
    cfg = Config(
        dict(default_scope='mmpretrain', **change) if 'default_scope' not in change else change
    )
    with pytest.raises(ValueError, match='--compile graphs: ') as caught:
        setup.set_compile(cfg, 'graphs')
    assert all(word in str(caught.value) for word in words) and 'custom_hooks' not in cfg


def test_graphs_of_a_classifier_are_a_hook(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    cfg = Config(dict(default_scope='mmpretrain', custom_hooks=[dict(type='EMAHook')]))
    setup.set_compile(cfg, 'graphs')
    assert [hook.get('graphs') for hook in cfg.custom_hooks] == [None, True]


@pytest.mark.parametrize(
    'error',
    [
        RuntimeError('skipping cudagraphs due to cpu device'),
        type('Unsupported', (Exception,), {})('graph break\nmore'),
    ],
)
def test_what_cannot_be_captured_says_why_in_one_line(error):
    class Stops:
        def train(self):
            raise error

    with pytest.raises(ValueError, match='--compile graphs: model.backbone') as caught:
        setup._train(Stops(), Config(), (), '')
    assert str(error).splitlines()[0] in str(caught.value) and 'more' not in str(caught.value)
