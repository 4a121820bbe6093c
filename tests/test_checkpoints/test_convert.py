"""Conversion of state dicts in both directions, and messages for invalid ones."""

import itertools

import pytest
import torch

from mmflatten.checkpoints import FAMILIES, convert_state_dict, revert_state_dict
from mmflatten.checkpoints.convert import unwrapped

CLASSIFIERS = [
    'flatten_swin_t_224',
    'flatten_pvt_t_224',
    'flatten_pvt_v2_b0_224',
    'flatten_cswin_t_224',
    'l2vit_t_224',
    'deit_t_224',
    'focal_t_224',
]
CASES = [*CLASSIFIERS, 'psmnet_256']

UNUSED = {'flatten_pvt': {'norm.weight', 'norm.bias'}}  # in the official forward pass


def message(function, state: dict, family: str) -> str:
    with pytest.raises(ValueError) as error:
        function(state, family)
    return str(error.value)


def without(state: dict, *names: str) -> dict:
    return {key: value for key, value in state.items() if key not in names}


@pytest.mark.parametrize('name', CASES)
def test_revert_restores_converted_state_dict(golden, name):
    case = golden(name)
    converted = convert_state_dict(case.state, case.family)
    reverted = revert_state_dict(converted, case.family)
    assert reverted.keys() == case.state.keys() - UNUSED.get(case.family, set())
    assert all(torch.equal(case.state[key], value) for key, value in reverted.items())
    again = convert_state_dict(reverted, case.family)
    assert again.keys() == converted.keys()
    assert all(torch.equal(again[key], value) for key, value in converted.items())


@pytest.mark.parametrize('name', CASES)
def test_convert_drops_index_buffers_without_changing_input(golden, name):
    case = golden(name)
    buffers = {
        key: value for key, value in case.buffers.items() if not key.endswith('num_batches_tracked')
    }
    given = {**case.names, **buffers}
    before = dict(given)
    assert (
        convert_state_dict(given, case.family).keys()
        == convert_state_dict(case.names, case.family).keys()
    )
    assert list(given) == list(before) and all(given[key] is before[key] for key in given)


@pytest.mark.parametrize('name', CASES)
def test_convert_names_missing_keys(golden, name):
    case = golden(name)
    for function, names in (
        (convert_state_dict, case.names),
        (revert_state_dict, convert_state_dict(case.names, case.family)),
    ):
        for key in [*list(names)[:: max(1, len(names) // 24)], list(names)[-1]]:
            assert key in message(function, without(names, key), case.family)


@pytest.mark.parametrize('name', CLASSIFIERS)
def test_convert_names_unknown_keys(golden, name):
    case = golden(name)
    names = case.names
    block = next(key.rsplit('norm1', 1)[0] for key in names if 'norm1' in key)
    last = list(names)[-3]
    for key in (
        'surplus.weight',
        'head',
        'head.scale',
        'head_dist.weight',
        f'{block}norm9.weight',
        f'{block}norm1',
        f'{last}.weight',
        f'module.{last}',
        last.replace('.', '.0', 1),
        'norm0.weight',
        'norms.weight',
    ):
        assert key in message(convert_state_dict, {**names, key: torch.zeros(1)}, case.family), key
    ours = convert_state_dict(names, case.family)
    for key in (
        'backbone.norms.7.weight',
        'backbone.surplus',
        'neck.weight',
        'head.fc',
        'head.weight',
    ):
        assert key in message(revert_state_dict, {**ours, key: torch.zeros(1)}, case.family), key


def test_convert_suggests_matching_family(golden):
    names = golden('flatten_swin_t_224').names
    converted = convert_state_dict(names, 'flatten_swin')
    assert 'this project' in message(convert_state_dict, converted, 'flatten_swin')
    assert 'the official code' in message(revert_state_dict, names, 'flatten_swin')
    assert "'flatten_swin'" in message(convert_state_dict, names, 'flatten_pvt')
    assert 'surplus' in message(convert_state_dict, {'surplus': torch.zeros(1)}, 'flatten_swin')


@pytest.mark.parametrize('name, step', [('flatten_swin_t_224', 19), ('psmnet_256', 61)])
def test_convert_rejects_truncated_state_dict(golden, name, step):
    case = golden(name)
    for length in range(1, len(case.names), step):
        message(convert_state_dict, dict(itertools.islice(case.names.items(), length)), case.family)


def test_convert_detects_missing_blocks_and_stages(golden):
    names = golden('flatten_swin_t_224').names

    def cut(*beginnings: str) -> dict:
        return {key: value for key, value in names.items() if not key.startswith(beginnings)}

    assert 'layers.2.blocks.3.norm1.weight' in message(
        convert_state_dict, cut('layers.2.blocks.3.'), 'flatten_swin'
    )
    assert 'layers.1.blocks.0.norm1.weight' in message(
        convert_state_dict, cut('layers.1.blocks.'), 'flatten_swin'
    )
    assert 'layers.2.blocks.0.norm1.weight' in message(
        convert_state_dict, cut('layers.2.'), 'flatten_swin'
    )
    assert 'layers.3.blocks.0.norm1.weight' in message(
        convert_state_dict, cut('layers.3.'), 'flatten_swin'
    )
    # Without its last stage and downsampling, a checkpoint has the names of a model with three
    # stages.
    text = message(convert_state_dict, cut('layers.3.', 'layers.2.downsample'), 'flatten_swin')
    assert 'head.fc.weight' in text and '768' in text


def test_convert_names_unexpected_indices(golden):
    names = golden('flatten_swin_t_224').names
    for key in (
        'layers.999999999999.blocks.0.norm1.weight',
        'layers.0.blocks.999999999999.attn_mask',
        'layers.3.downsample.norm.weight',
        'layers.2.blocks.6.norm1.weight',
    ):
        assert key in message(convert_state_dict, {**names, key: torch.zeros(1)}, 'flatten_swin')


def test_convert_rejects_block_of_two_kinds(golden):
    names = golden('flatten_swin_t_224').names
    for key in (
        'layers.0.blocks.0.attn.relative_position_bias_table',
        'layers.3.blocks.0.attn.scale',
    ):
        assert key in message(convert_state_dict, {**names, key: torch.zeros(1)}, 'flatten_swin')


def test_convert_requires_qkv_bias_in_all_blocks_or_none(golden):
    names = golden('flatten_swin_t_224').names
    biases = [key for key in names if key.endswith('qkv.bias')]
    assert len(convert_state_dict(without(names, *biases), 'flatten_swin')) == len(names) - len(
        biases
    )
    assert biases[5] in message(convert_state_dict, without(names, biases[5]), 'flatten_swin')


def test_convert_requires_focal_neighbours_in_whole_stage(golden):
    names = golden('focal_t_224').names
    tables = [key for key in names if key.endswith('_to_neighbors')]
    # the last stage fits into one window
    assert {key.split('.')[1] for key in tables} == {'0', '1', '2'}
    last = [key for key in tables if key.startswith('layers.2.')]
    assert len(convert_state_dict(without(names, *last), 'focal')) == len(names) - len(last)
    assert last[3] in message(convert_state_dict, without(names, last[3]), 'focal')
    first = [key for key in tables if key.startswith('layers.0.')]
    assert first[0] in message(convert_state_dict, without(names, *first), 'focal')


def test_convert_concatenates_query_and_key_value(golden):
    case = golden('flatten_pvt_t_224')
    query, key_value = (case.state[f'block3.1.attn.{name}.weight'] for name in ('q', 'kv'))
    joined = convert_state_dict(case.state, 'flatten_pvt')[
        'backbone.stages.2.blocks.1.attn.fn.qkv.weight'
    ]
    assert torch.equal(joined, torch.cat((query, key_value)))
    wrong = {**case.state, 'block3.1.attn.kv.weight': key_value[:-1]}
    assert 'block3.1.attn.kv.weight' in message(convert_state_dict, wrong, 'flatten_pvt')
    ours = convert_state_dict(case.state, 'flatten_pvt')
    name = 'backbone.stages.2.blocks.1.attn.fn.qkv.weight'
    assert name in message(revert_state_dict, {**ours, name: ours[name][:-1]}, 'flatten_pvt')


@pytest.mark.parametrize(
    'state', [{}, None, [], {'model': {}}, {'norm.weight': 3.0}, {1: torch.zeros(1)}]
)
def test_convert_rejects_invalid_state_dict(state):
    assert 'state_dict' in message(convert_state_dict, state, 'flatten_swin')


def test_convert_rejects_unknown_family():
    text = message(convert_state_dict, {'norm.weight': torch.zeros(1)}, 'swin')
    assert "'swin'" in text and 'flatten_swin' in text


@pytest.mark.parametrize('family', FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize('side', ['official', 'ours'])
def test_families_have_distinct_kinds(family, side):
    for part in family.parts:
        if part.ours is not None:
            for index in ('{i', '{j'):
                assert (index in part.official) == (index in part.ours)
        required = set()
        for keys in part.kinds.values():
            names = names_of(keys, side)
            assert len(set(names)) == len(names)
            required.add(frozenset(names_of([key for key in keys if key.option is None], side)))
        assert len(required) == len(part.kinds)


def names_of(keys, side: str) -> list[str]:
    return list(itertools.chain.from_iterable(key.names(side) for key in keys))


@pytest.mark.parametrize(
    'name, expected, bare',
    [
        ('module.model._orig_mod.a', '', 'a'),
        ('stages._orig_mod.0.a', '', 'stages.0.a'),
        ('a.module.b', '', 'a.module.b'),
        ('module', '', 'module'),
        ('_orig_mod.backbone.a', 'backbone.', 'backbone.a'),
        ('module.head.a', 'backbone.', 'module.head.a'),
        ('module.model.a', ['model.a'], 'model.a'),
        ('module.model.a', ['a'], 'a'),
        ('model._orig_mod.a', ['model._orig_mod.a'], 'model._orig_mod.a'),
        ('module.a', ['b'], 'module.a'),
        ('_fsdp_wrapped_module.stages._fsdp_wrapped_module.0.a', ['stages.0.a'], 'stages.0.a'),
        ('net.a', ['a'], 'a'),
        ('network.module.a', ['a'], 'a'),
        ('net.a', ['net.a'], 'net.a'),
    ],
)
def test_wrappers_are_removed_as_far_as_the_model_has_none(name, expected, bare):
    found, removed = unwrapped({name: 1}, expected)
    assert found == {bare: 1}
    assert {*removed} == {f'{part}.' for part in name.split('.') if part not in bare.split('.')}


def test_wrapped_weight_does_not_replace_another():
    assert unwrapped({'module.a': 1, 'a': 2})[0] == {'module.a': 1, 'a': 2}
    assert unwrapped({'module.a': 1, 'model.a': 2, 'b': 3}, ['a', 'b'])[0] == {
        'a': 1,
        'model.a': 2,
        'b': 3,
    }
