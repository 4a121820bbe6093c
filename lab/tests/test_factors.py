"""Local term, gate and positions around a mixer, against an explicit composition."""

import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import DefaultScope

from mmflatten.models import FLattenDeiT
from mmflatten.models.attention import Windowed, build_mixer
from mmflatten_lab.models.factors import WithLocalTermAndGate, gates_of

SIZE = dict(embed_dims=24, num_heads=3, grid_size=(4, 5))
MIXERS = {
    'softmax': dict(type='SoftmaxAttention'),
    'linear': dict(type='LinearAttention', feature_map='elu'),
    'focused': dict(type='FocusedLinearAttention', kernel_size=None),
    'agent': dict(type='AgentAttention', num_agents=4, kernel_size=None),
    'inline': dict(type='InLineAttention', image_conv=False),
    'rala': dict(type='RankAugmentedLinearAttention', gated=False),
    'mala': dict(type='MagnitudeAwareLinearAttention', gated=False),
    'polaformer': dict(type='PolarityAwareLinearAttention', gated=False, kernel_size=None),
}
GATES = {'none': None, 'plain': lambda x: x, 'silu': F.silu}


def wrapped(name='softmax', **factors):
    torch.manual_seed(0)
    module = build_mixer(
        dict(type='WithLocalTermAndGate', mixer=MIXERS[name], **factors), **SIZE
    ).double()
    for parameter in module.parameters():
        parameter.data.normal_(std=0.3)
    return module


def values_and_gradients(function, x, parameters):
    y = function(x)
    return y, *torch.autograd.grad((y * y.sin()).sum(), [x, *parameters])


@pytest.mark.parametrize('gate', GATES)
@pytest.mark.parametrize('kernel', [0, 5])
@pytest.mark.parametrize('name', MIXERS)
def test_wrapper_equals_the_explicit_composition(name, kernel, gate):
    module = wrapped(name, local_kernel=kernel, gate=gate)
    operator = build_mixer(MIXERS[name], **SIZE).double()
    parts = module.mixer.state_dict()
    operator.load_state_dict(
        {
            **operator.state_dict(),
            **{key: parts[key] for key in parts if 'lepe' not in key},
            'proj.weight': torch.eye(24),
            'proj.bias': torch.zeros(24),
        }
    )
    shared = dict(module.mixer.named_parameters())
    for key, parameter in shared.items():
        if 'lepe' not in key:
            *path, last = key.split('.')
            setattr(operator.get_submodule('.'.join(path)), last, parameter)

    def composed(x):
        y = operator(x, (4, 5))
        if kernel:
            values = F.linear(x, shared['qkv.weight'], shared['qkv.bias'])[..., 48:72]
            values = values.transpose(1, 2).unflatten(2, (4, 5))
            local = F.conv2d(
                values, shared['lepe.conv.weight'], shared['lepe.conv.bias'], padding=2, groups=24
            )
            y = y + local.flatten(2).transpose(1, 2)
        if gate != 'none':
            y = y * GATES[gate](F.linear(x, module.gate.weight, module.gate.bias))
        return F.linear(y, module.proj.weight, module.proj.bias)

    x = torch.randn(2, 20, 24, dtype=torch.float64, requires_grad=True)
    parameters = list(module.parameters())
    expected = values_and_gradients(composed, x, parameters)
    actual = values_and_gradients(lambda x: module(x, (4, 5)), x, parameters)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize('name', ['rala', 'mala', 'polaformer'])
def test_positions_inside_a_mixer_can_be_removed(name):
    changed = {}
    for positions in (True, False):
        module = wrapped(name, positions=positions)
        x, order = torch.randn(2, 20, 24, dtype=torch.float64), torch.randperm(20)
        changed[positions] = (module(x, (4, 5))[:, order] - module(x[:, order], (4, 5))).abs().max()
    assert changed[False] < 1e-9 < 0.01 < changed[True]


def test_agent_without_its_tables_is_agent_with_tables_of_zeros():
    module = wrapped('agent', positions=False)
    assert not [name for name in module.state_dict() if 'bias.' in name]
    tables = wrapped('agent')
    tables.load_state_dict(module.state_dict(), strict=False)
    x = torch.randn(2, 20, 24, dtype=torch.float64)
    assert (tables(x, (4, 5)) - module(x, (4, 5))).abs().max() > 0.01
    for table in (tables.mixer.key_bias, tables.mixer.query_bias):
        for parameter in table.parameters():
            parameter.data.zero_()
    torch.testing.assert_close(module(x, (4, 5)), tables(x, (4, 5)))
    larger = torch.randn(2, 80, 24, dtype=torch.float64)
    torch.testing.assert_close(module(larger, (8, 10)), tables(larger, (8, 10)))


def test_wrapper_stands_in_backbones_and_windows():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = FLattenDeiT(
            arch=dict(embed_dims=24, depth=2, num_heads=3),
            img_size=32,
            patch_size=8,
            linear_attention=dict(type='WithLocalTermAndGate', mixer=MIXERS['rala'], gate='silu'),
        )
    assert sum(isinstance(module, WithLocalTermAndGate) for module in model.modules()) == 2
    assert model(torch.randn(1, 3, 32, 32))[0].isfinite().all() and gates_of(model) == {'silu'}
    module = wrapped(local_kernel=3)
    assert Windowed(module, (2, 2)).mask_shift and not gates_of(module)
    reduced = dict(type='WithLocalTermAndGate', mixer=MIXERS['softmax'], local_kernel=3, sr_ratio=2)
    reduced = build_mixer(reduced, **SIZE)
    assert reduced(torch.randn(2, 80, 24), (8, 10)).shape == (2, 80, 24)


@pytest.mark.parametrize(
    'mixer, gates',
    [
        ('SoftmaxAttention', set()),
        ('RankAugmentedLinearAttention', {'plain'}),
        ('NormAwareLinearAttention', {'silu'}),
        ('CirculantAttention', {'other'}),
    ],
)
def test_gates_of_mixers(mixer, gates):
    assert gates_of(build_mixer(dict(type=mixer), **SIZE)) == gates


@pytest.mark.parametrize(
    'mixer, factors, message',
    [
        ('SoftmaxAttention', dict(gate='loud'), "gate: .* 'loud'"),
        ('TTTAttention', dict(gate='silu'), 'gate: .*TTT'),
        ('CirculantAttention', dict(gate='plain'), 'gate: .*Circulant'),
        ('SoftmaxAttention', dict(positions=False), 'positions: .*Softmax'),
    ],
)
def test_wrong_factors_are_errors(mixer, factors, message):
    with pytest.raises(ValueError, match=message):
        build_mixer(dict(type='WithLocalTermAndGate', mixer=dict(type=mixer), **factors), **SIZE)
