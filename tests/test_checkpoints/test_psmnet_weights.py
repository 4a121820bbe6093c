"""Official PSMNet weights: official outputs, lossless conversion in both directions, released
files.
"""

import pytest
import torch

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.checkpoints.converted_files import convert_file
from mmflatten.registry import MODELS

TOLERANCE = 1e-4  # of the largest expected value
TINY = dict(type='mmflatten.PSMNet', base_channels=2, pool_sizes=(4, 2, 2, 1), depths=(1, 2, 1, 1))
FAMILIES = {'psmnet': 'stackhourglass', 'psmnet_basic': 'basic'}


@pytest.fixture
def case(golden):
    return golden('psmnet_256')


def test_psmnet_converted_weights_reproduce_official_outputs(case):
    model = MODELS.build(
        dict(type='mmflatten.PSMNet', max_disp=case.case['settings']['maxdisp'])
    ).eval()
    model.load_state_dict(convert_state_dict(case.state, 'psmnet'), strict=True)
    outputs = {}
    model.aggregation.heads[2].register_forward_hook(
        lambda module, inputs, out: outputs.update(classif3=out)
    )
    with torch.no_grad():
        outputs['output'] = model(dict(zip(('left', 'right'), case.image)))[:, None]
    for key, expected in case.expected.items():
        expected = torch.from_numpy(expected)
        assert outputs[key].shape == expected.shape
        assert (outputs[key] - expected).abs().max() < TOLERANCE * expected.abs().max(), key


@pytest.mark.parametrize('family, aggregation', FAMILIES.items())
def test_psmnet_networks_revert_and_convert_strictly(family, aggregation):
    model = MODELS.build(dict(TINY, aggregation=aggregation))
    official = revert_state_dict(model.state_dict(), family)
    assert {key.split('.')[0] for key in official} == {
        'feature_extraction',
        *(f'dres{k}' for k in range(5)),
        *(['classify'] if aggregation == 'basic' else [f'classif{k}' for k in (1, 2, 3)]),
    }
    model.load_state_dict(convert_state_dict(official, family), strict=True)
    (other,) = FAMILIES.keys() - {family}
    with pytest.raises(ValueError, match=f"'{family}'"):
        convert_state_dict(official, other)


def test_psmnet_released_file_converts_and_reverts(case, tmp_path):
    state = {f'module.{key}': value for key, value in {**case.state, **case.buffers}.items()}
    torch.save(
        dict(epoch=9, state_dict=state, train_loss=1.1), tmp_path / 'pretrained_sceneflow.tar'
    )
    content, weights = convert_file(tmp_path / 'pretrained_sceneflow.tar', 'psmnet')
    assert weights.entry == 'state_dict'
    torch.save(content, tmp_path / 'ours.pth')
    reverted, _ = convert_file(tmp_path / 'ours.pth', 'psmnet', revert=True)
    assert reverted['state_dict'].keys() == state.keys()
    assert all(torch.equal(reverted['state_dict'][key], value) for key, value in state.items())


def test_psmnet_with_attention_cannot_be_reverted():
    model = MODELS.build(
        dict(TINY, attention=dict(type='mmflatten.FactorizedAttention', basis_channels=2))
    )
    with pytest.raises(ValueError, match='features.attention.coefficients.weight'):
        revert_state_dict(model.state_dict(), 'psmnet')
