"""Official weights of the newer attentions: official outputs, and lossless conversion in both
directions.
"""

import functools
import importlib.util
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.cli.convert import main as convert
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.registry import MODELS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / 'tests' / 'data' / 'golden_frontier'
NAMES = sorted(path.stem for path in FOLDER.glob('*.json'))
FAMILIES = {'mavit': 'mala', 'ravlt': 'rala'}  # of the cases whose name is that of the model
TOLERANCE = 1e-5  # of the largest expected value
UNUSED = {'polaformer_pvt': {'norm.weight', 'norm.bias'}, 'slab_deit': {'cls_token'}}
DROPPED = ('rotations', 'angle', 'relative_position_index', 'attn_mask')


class Case:
    """A golden case: official weights, an image and what the authors' code made of it."""

    def __init__(self, name: str) -> None:
        spec = importlib.util.spec_from_file_location(
            'frontier_synth', FOLDER / 'frontier_synth.py'
        )
        synth = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(synth)
        content = json.loads((FOLDER / f'{name}.json').read_text())
        self.family = FAMILIES.get(content['family'], content['family'])
        self.state, self.image = synth.state_dict(content), synth.image(content)
        self.config = str(ROOT / 'configs' / f'{content["config"]}.py')
        self.options = {f'model.backbone.{key}': value for key, value in content['change'].items()}
        self.expected = torch.from_numpy(np.load(FOLDER / f'{name}.npz')['output'])


@pytest.fixture(scope='module')
def case_of():
    return functools.cache(Case)


@pytest.mark.parametrize('name', NAMES)
def test_converted_weights_give_the_official_outputs(case_of, name):
    case = case_of(name)
    model = build_model(load_config(case.config, case.options)).eval()
    model.load_state_dict(convert_state_dict(case.state, case.family), strict=True)
    with torch.no_grad():
        scores = model.head((model.extract_feat(case.image)[-1],))
    assert (scores - case.expected).abs().max() < TOLERANCE * case.expected.abs().max()


@pytest.mark.parametrize('name', NAMES)
def test_conversion_is_strict_and_reverts_bit_for_bit(case_of, name):
    case = case_of(name)
    ours = convert_state_dict(case.state, case.family)
    official = revert_state_dict(ours, case.family)
    assert all(torch.equal(case.state[key], value) for key, value in official.items())
    left = {key for key in case.state.keys() - official.keys() if not key.endswith(DROPPED)}
    assert left <= UNUSED.get(case.family, set())
    for key in [*official][::40]:
        with pytest.raises(ValueError, match=key.replace('.', r'\.')):
            convert_state_dict(
                {name: value for name, value in case.state.items() if name != key}, case.family
            )


def test_shapes_that_a_layout_does_not_allow_are_named(case_of):
    agent, pola = case_of('agent_swin_t'), case_of('polaformer_pvt_t_sr1111')
    wrong = next(key for key in agent.state if key.endswith('ha_bias'))
    with pytest.raises(ValueError, match=wrong.replace('.', r'\.')):
        convert_state_dict({**agent.state, wrong: torch.zeros(2, 3, 14, 1, 9)}, 'agent_swin')
    wrong = next(key for key in pola.state if key.endswith('qg.weight'))
    with pytest.raises(ValueError, match=wrong.replace('.', r'\.')):
        convert_state_dict({**pola.state, wrong: torch.zeros(6, 64)}, 'polaformer_pvt')


DENSE = {
    'agent_swin_t': 'norm{}',
    'agent_pvt_t_sr8421': None,
    'mila_t': 'norm{}',
    'h_vittt_t': 'norm{}',
    'mavit_t': 'extra_norms.{}.norm',
    'slab_swin_t': 'norm{}',
}


@pytest.mark.parametrize('name, norm', DENSE.items())
def test_dense_backbones_convert_alone_and_in_a_detector(case_of, name, norm):
    case = case_of(name)
    model = load_config(case.config, case.options).model.backbone
    pooled = {'HViTTT': dict(pooled=False), 'RAVLT': dict(last_projection=0)}.get(
        model.type.split('.')[-1], {}
    )
    backbone = MODELS.build(
        {**model, **pooled, 'out_indices': (0, 1, 2, 3), '_scope_': 'mmflatten'}
    )
    official = {
        key: value
        for key, value in case.state.items()
        if not key.startswith(('head.', 'norm.', 'proj.')) and not key.endswith(DROPPED)
    }
    if norm is not None:
        leaves = {
            key.removeprefix('norms.3.')
            for key in backbone.state_dict()
            if key.startswith('norms.3.')
        }
        ours = convert_state_dict(case.state, case.family)
        names = {
            'layer_norm': 'norm1',
            'batch_norm': 'norm2.bn',
            'alpha': 'norm2.alpha',
            'steps': 'total_step',
            'remaining': 'iter',
        }
        for stage, leaf in itertools.product(range(4), sorted(leaves)):
            first, _, last = leaf.partition('.')
            tensor = torch.rand(backbone.state_dict()[f'norms.{stage}.{leaf}'].shape)
            word = leaf if name != 'slab_swin_t' else f'{names[first]}.{last}'.rstrip('.')
            official[f'{norm.format(stage)}.{word}'] = tensor
            if leaf == 'remaining':
                official[f'{norm.format(stage)}.warm'] = torch.zeros(())
        assert not leaves - {key.removeprefix('backbone.norms.3.') for key in ours} or pooled
    ours = convert_state_dict(official, case.family)
    backbone.load_state_dict(
        {key.removeprefix('backbone.'): value for key, value in ours.items()}, strict=True
    )
    back = revert_state_dict(ours, case.family)
    assert back.keys() == official.keys()
    assert all(torch.equal(back[key], official[key]) for key in back)
    detector = {
        **{f'backbone.{key}': value for key, value in official.items()},
        'neck.convs.0.weight': torch.ones(2),
    }
    found = convert_state_dict(detector, case.family)
    assert found.keys() == ours.keys() | {'neck.convs.0.weight'}
    assert revert_state_dict(found, case.family).keys() == detector.keys()
    with pytest.raises(ValueError, match='surplus'):
        convert_state_dict({**detector, 'backbone.surplus': torch.ones(2)}, case.family)


OTHERS = {
    'agent_cswin': ('agent/agent-cswin-t_8xb256_in1k', {}, 'stage1.0.attns.0.ah_bias'),
    'inline_deit': ('inline/inline-deit-t_8xb128_in1k', {}, 'blocks.0.attn.residual.2.weight'),
    'inline_pvt': ('inline/inline-pvt-t_8xb128_in1k', {}, 'block1.0.attn.residual.0.bias'),
    'slab_pvt': ('slab/slab-pvt-t_8xb128_in1k', {}, 'patch_embed2.norm.norm2.bn.running_mean'),
    'slab_cswin': ('slab/slab-cswin-t_8xb256_in1k', {}, 'stage1_conv_embed.2.norm2.alpha'),
    'biformer_stl': ('biformer/biformer-stl_8xb128_in1k', {}, 'stages.3.blocks.1.attn.lepe.weight'),
}


@pytest.mark.parametrize('family', OTHERS)
def test_models_of_the_configs_revert_and_convert(family):
    config, options, name = OTHERS[family]
    model = build_model(load_config(str(ROOT / 'configs' / f'{config}.py'), options))
    state = {
        key: torch.rand(value.shape) if value.is_floating_point() else value
        for key, value in model.state_dict().items()
    }
    official = revert_state_dict(state, family)
    assert name in official
    back = convert_state_dict(official, family)
    assert back.keys() == state.keys() and all(torch.equal(back[key], state[key]) for key in state)


def test_counters_of_progressive_norms(case_of):
    state = case_of('slab_deit_t').state
    state = {**state, 'norm.iter': torch.tensor(700), 'norm.total_step': torch.tensor(1000)}
    ours = convert_state_dict(state, 'slab_deit')
    assert ours['backbone.norms.11.remaining'] == 700 and ours['backbone.norms.11.steps'] == 1000
    assert revert_state_dict(ours, 'slab_deit')['norm.iter'] == 700
    with pytest.raises(ValueError, match=r'norm\.warm.*warm-up'):
        convert_state_dict({**state, 'norm.warm': torch.tensor(3)}, 'slab_deit')


def attention(type: str, **settings):
    return MODELS.build(
        dict(
            type=type, embed_dims=24, num_heads=3, grid_size=(6, 5), _scope_='mmflatten', **settings
        )
    ).eval()


def test_attention_of_efficientvit_alone():
    torch.manual_seed(0)
    x = torch.randn(2, 24, 6, 5)
    state = {
        'qkv.conv.weight': torch.randn(72, 24, 1, 1),
        'aggreg.0.0.weight': torch.randn(72, 1, 5, 5),
        'aggreg.0.1.weight': torch.randn(72, 8, 1, 1),
        'proj.conv.weight': torch.randn(24, 48, 1, 1),
        **{
            f'proj.norm.{name}': torch.rand(24)
            for name in ('weight', 'bias', 'running_mean', 'running_var')
        },
    }
    # The formula with the official layout: for each head, its queries, keys and values lie
    # together.
    qkv = F.conv2d(x, state['qkv.conv.weight'])
    wide = F.conv2d(
        F.conv2d(qkv, state['aggreg.0.0.weight'], padding=2, groups=72),
        state['aggreg.0.1.weight'],
        groups=9,
    )
    q, k, v = torch.cat((qkv, wide), dim=1).view(2, 6, 24, 30).transpose(-2, -1).split(8, dim=-1)
    weights = q.relu() @ k.relu().transpose(-2, -1)
    y = (
        (weights / weights.sum(-1, keepdim=True).clamp(min=1e-15) @ v)
        .transpose(-2, -1)
        .reshape(2, 48, 6, 5)
    )
    y = F.batch_norm(
        F.conv2d(y, state['proj.conv.weight']),
        state['proj.norm.running_mean'],
        state['proj.norm.running_var'],
        state['proj.norm.weight'],
        state['proj.norm.bias'],
    )
    model = attention('MultiScaleLinearAttention', qkv_bias=False)
    heads_first = {
        ours: state[name].unflatten(0, (-1, 3, 8)).transpose(0, 1).flatten(0, 2)
        for ours, name in (
            ('qkv.weight', 'qkv.conv.weight'),
            ('aggregate.0.weight', 'aggreg.0.0.weight'),
            ('aggregate.1.weight', 'aggreg.0.1.weight'),
        )
    }
    ours = {
        **{name: value for name, value in state.items() if name.startswith('proj.norm')},
        **heads_first,
        'qkv.weight': heads_first['qkv.weight'].flatten(1),
        'proj.linear.weight': state['proj.conv.weight'].flatten(1),
    }
    assert not model.load_state_dict(ours, strict=False).unexpected_keys
    found = model(x.flatten(2).transpose(1, 2), (6, 5)).transpose(1, 2).view(y.shape)
    assert (found - y).abs().max() < 1e-3 * y.abs().max()


def test_mila_has_averaged_weights(case_of, tmp_path, capsys):
    case = case_of('mila_t')
    average = {
        key: value + 1 if value.is_floating_point() else value for key, value in case.state.items()
    }
    torch.save(dict(model=case.state, state_dict_ema=average), tmp_path / 'official.pth')
    for words, state in ((['mila'], average), (['mila', '--key', 'model'], case.state)):
        assert (
            convert(
                [
                    str(tmp_path / 'official.pth'),
                    str(tmp_path / 'ours.pth'),
                    '--force',
                    '--family',
                    *words,
                ]
            )
            == 0
        )
        assert 'family mila' in capsys.readouterr().out
        content = torch.load(tmp_path / 'ours.pth', weights_only=True)
        expected = convert_state_dict(state, 'mila')
        assert all(
            torch.equal(content['state_dict'][key], value) for key, value in expected.items()
        )


def test_file_of_no_family_writes_nothing(tmp_path, capsys):
    torch.save(dict(model={'blocks.0.weight': torch.zeros(2)}), tmp_path / 'other.pth')
    assert (
        convert([str(tmp_path / 'other.pth'), str(tmp_path / 'out.pth'), '--family', 'agent_swin'])
        == 1
    )
    assert not (tmp_path / 'out.pth').exists()
    assert 'blocks.0.weight' in capsys.readouterr().err.splitlines()[-1]
