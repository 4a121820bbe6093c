"""FactorizedAttention and ConventionalAttention: the eight modules of the paper and the official
outputs.
"""

import importlib.util
import re
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import nn

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention
from mmflatten.registry import MODELS

CLASSES = [FactorizedAttention, ConventionalAttention]
# The paper's four forms (Table 8) at 16 channels; two classes give its eight modules.
FORMS = {
    'dot': dict(reprojection=False),
    'bot': dict(value_channels=8),
    'multi': dict(value_channels=8, num_heads=4),
    'Tfm': dict(value_channels=8, num_heads=4, feed_forward_channels=64),
}
GRIDS = {2: (5, 7), 3: (2, 5, 3)}


def build(cls, ndim=2, dtype=torch.float64, **kwargs):
    torch.manual_seed(0)
    return cls(16, basis_channels=8, ndim=ndim, **kwargs).to(dtype)


def images(ndim=2, dtype=torch.float64):
    return torch.randn(
        2, 16, *GRIDS[ndim], generator=torch.Generator().manual_seed(1), dtype=dtype
    ).requires_grad_()


def golden_case():
    path = Path(__file__).parents[1] / 'data' / 'golden' / 'synth.py'
    spec = importlib.util.spec_from_file_location('golden_synth_of_factorized', path)
    synth = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(synth)
    case = synth.load_case('efficient_attention_h4')
    return case, synth.synth_state_dict(case), synth.synth_input(case)


def test_converted_weights_reproduce_official_output():
    case, state, image = golden_case()
    settings = case['settings']
    module = MODELS.build(
        dict(
            type='FactorizedAttention',
            in_channels=settings['in_channels'],
            basis_channels=settings['key_channels'],
            value_channels=settings['value_channels'],
            num_heads=settings['head_count'],
        )
    )
    module.load_state_dict(convert_state_dict(state, family='efficient_attention'), strict=True)
    expected = torch.from_numpy(case['expected']['output'])
    with torch.no_grad():
        difference = (module(image) - expected).abs().max().item()
    assert difference < 1e-5 * expected.abs().max().item()


def test_conversion_is_reversible_and_checks_keys():
    _, state, _ = golden_case()
    converted = convert_state_dict(state, family='efficient_attention')
    assert torch.equal(converted['coefficients.weight'], state['queries.weight'])
    assert torch.equal(converted['basis.bias'], state['keys.bias'])
    reverted = revert_state_dict(converted, family='efficient_attention')
    assert reverted.keys() == state.keys()
    assert all(torch.equal(reverted[key], state[key]) for key in state)
    with pytest.raises(ValueError, match='keys.bias'):
        convert_state_dict(
            {key: value for key, value in state.items() if key != 'keys.bias'},
            'efficient_attention',
        )
    with pytest.raises(ValueError, match='surplus.weight'):
        convert_state_dict({**state, 'surplus.weight': torch.zeros(1)}, 'efficient_attention')
    with pytest.raises(ValueError, match='efficient_attention'):
        convert_state_dict(converted, 'efficient_attention')


@pytest.mark.parametrize('form, ndim', list(product(FORMS, GRIDS)))
def test_dot_modules_have_equal_values_and_gradients(form, ndim):
    results = []
    for cls in CLASSES:
        module, x = build(cls, ndim, normalization='dot', **FORMS[form]), images(ndim)
        out = module(x)
        leaves = [x, *module.parameters()]
        results.append((out, *torch.autograd.grad(out.square().sum(), leaves)))
    for ours, conventional in zip(*results, strict=True):
        scale = conventional.abs().max().clamp(min=1)
        torch.testing.assert_close(ours / scale, conventional / scale, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    'cls, normalization, form, ndim', list(product(CLASSES, ['gaussian', 'dot'], FORMS, GRIDS))
)
def test_forms_keep_shape_and_train_all_parameters(cls, normalization, form, ndim):
    module, x = build(cls, ndim, normalization=normalization, **FORMS[form]), images(ndim)
    out = module(x)
    assert out.shape == x.shape and out.is_contiguous()
    out.square().sum().backward()
    # The bias of the basis cancels in a softmax over the keys.
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
    assert all(
        parameter.grad.any()
        for name, parameter in module.named_parameters()
        if name != 'basis.bias'
    )


@pytest.mark.parametrize('cls', CLASSES)
def test_gaussian_rows_sum_to_one(cls):
    module = build(cls, num_heads=4, residual=False, reprojection=False)
    nn.init.zeros_(module.values.weight)
    nn.init.ones_(module.values.bias)
    out = module(images())
    torch.testing.assert_close(out, torch.ones_like(out), rtol=1e-12, atol=1e-12)


def test_factors_are_normalised_and_multiply_to_the_attention():
    module, x = (
        build(FactorizedAttention, num_heads=4, residual=False, reprojection=False),
        images(),
    )
    coefficients, basis = module.factors(x)
    assert coefficients.shape == basis.shape == (2, 4, 2, 5, 7)
    for total in (coefficients.sum(2), basis.sum((-2, -1))):
        torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-12, atol=1e-12)
    matrix = torch.einsum('bhdn,bhdm->bhnm', coefficients.flatten(3), basis.flatten(3))
    rows = matrix.sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=1e-12, atol=1e-12)
    values = module.values(x).flatten(2).unflatten(1, (4, -1))
    expected = torch.einsum('bhnm,bhem->bhen', matrix, values).flatten(1, 2).unflatten(-1, (5, 7))
    torch.testing.assert_close(module(x), expected, rtol=1e-10, atol=1e-10)


def test_volume_of_one_frame_equals_a_map():
    on_map, on_volume = (
        build(FactorizedAttention, ndim, num_heads=2, value_channels=4) for ndim in (2, 3)
    )
    on_volume.load_state_dict(
        {
            key: value.unsqueeze(2) if value.dim() == 4 else value
            for key, value in on_map.state_dict().items()
        }
    )
    x = images()
    torch.testing.assert_close(on_volume(x[:, :, None])[:, :, 0], on_map(x), rtol=1e-12, atol=1e-12)


def test_heads_equal_separate_modules():
    """Eq. 5: two heads equal two modules of one head, each with its half of the channels."""
    options = dict(normalization='dot', residual=False, reprojection=False)
    both, x = build(FactorizedAttention, num_heads=2, **options), images()
    for half in range(2):
        one = FactorizedAttention(16, basis_channels=4, value_channels=8, **options).double()
        one.load_state_dict({key: value.chunk(2)[half] for key, value in both.state_dict().items()})
        torch.testing.assert_close(both(x).chunk(2, 1)[half], one(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('cls, form', list(product(CLASSES, FORMS)))
def test_zero_init_is_identity_and_learns(cls, form):
    module, x = build(cls, zero_init=True, **FORMS[form]), images()
    module.init_weights()
    assert torch.equal(module(x), x)
    module(x).square().sum().backward()
    last = module.values if module.reprojection is None else module.reprojection
    assert last.weight.grad.any()


def test_zero_init_overrides_surrounding_initialisation():
    from mmengine.model import Sequential

    network = Sequential(
        FactorizedAttention(8, basis_channels=4, zero_init=True),
        init_cfg=dict(type='Xavier', layer='Conv2d', bias=1.0),
    )
    network.init_weights()
    assert not network[0].reprojection.weight.any() and not network[0].reprojection.bias.any()
    assert network[0].basis.bias.all()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('cls, normalization', list(product(CLASSES, ['gaussian', 'dot'])))
def test_modules_are_finite_under_autocast(cls, normalization, dtype):
    module = build(
        cls, dtype=torch.float32, normalization=normalization, value_channels=8, num_heads=2
    )
    x = (
        torch.randn(1, 16, 40, 40, generator=torch.Generator().manual_seed(2))
        .mul(8)
        .requires_grad_()
    )
    with torch.autocast('cpu', dtype=dtype):
        out = module(x)
    out.float().mean().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


@pytest.mark.parametrize('cls, normalization', list(product(CLASSES, ['gaussian', 'dot'])))
def test_modules_run_in_half_precision(cls, normalization):
    options = dict(normalization=normalization, value_channels=8, feed_forward_channels=8)
    x = images(dtype=torch.bfloat16)
    out, exact = build(cls, dtype=torch.bfloat16, **options)(x), build(cls, **options)(x.double())
    assert out.dtype == torch.bfloat16
    assert (out - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize(
    'wrong, named',
    [
        (dict(basis_channels=10, num_heads=4), r'basis_channels: .*\(4\), got 10'),
        (dict(value_channels=6, num_heads=4), r'value_channels: .*\(4\), got 6'),
        (dict(value_channels=8, reprojection=False), r'value_channels: .*\(16\).* got 8'),
        (dict(basis_channels=0), 'basis_channels: .* got 0'),
        (dict(basis_channels=8.0), r'basis_channels: .* got 8\.0'),
        (dict(num_heads=-1), 'num_heads: .* got -1'),
        (dict(feed_forward_channels=0), 'feed_forward_channels: .* got 0'),
        (dict(normalization='softmax'), r"normalization: .*\['dot', 'gaussian'\], got 'softmax'"),
        (dict(ndim=1), 'ndim: .* got 1'),
        (dict(zero_init=True, residual=False), 'zero_init: .* got True'),
    ],
)
@pytest.mark.parametrize('cls', CLASSES)
def test_modules_reject_invalid_arguments(cls, wrong, named):
    with pytest.raises(ValueError, match=named):
        cls(16, **wrong)


@pytest.mark.parametrize('shape', [(2, 8, 5, 7), (2, 16, 5, 7, 3)])
def test_module_rejects_wrong_input_shapes(shape):
    with pytest.raises(
        ValueError, match=re.escape(f'(B, C, H, W) with C = in_channels (16), got {shape}')
    ):
        build(FactorizedAttention)(torch.zeros(shape).double())


@pytest.mark.parametrize(
    'settings, parameters',
    [
        (dict(in_channels=128, value_channels=128), 49_536),
        (dict(in_channels=256, value_channels=256), 164_480),
        (dict(in_channels=1024, value_channels=1024), 2_230_400),
    ],
)
def test_parameters_match_official_module(settings, parameters):
    assert (
        sum(parameter.numel() for parameter in FactorizedAttention(**settings).parameters())
        == parameters
    )
