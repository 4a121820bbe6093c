"""The family that `convert --family auto` finds for the state dicts of many models."""

import json
import re
from pathlib import Path

import pytest
import timm
import torch

from mmflatten.checkpoints import FAMILIES, convert_state_dict, revert_state_dict
from mmflatten.checkpoints.convert import find_family
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config

ROOT = Path(__file__).parents[2]
DATA = ROOT / 'tests' / 'data'
CASES = sorted([*DATA.glob('golden/*.json'), *DATA.glob('golden_frontier/*.json')])
# Golden cases whose family in the file is the name of the model, or whose blocks are all softmax
# blocks.
OTHER_NAMES = {'deit': 'vit', 'mavit': 'mala', 'ravlt': 'rala'}
SAME_NAMES = {'mala', 'rala'}  # their authors' codes use the same names for all weights

TIMM = {
    'vit_tiny_patch16_224': 'vit',
    'vit_small_patch32_224': 'vit',
    'vit_base_patch8_224': 'vit',
    'deit_small_patch16_224': 'vit',
    'deit3_small_patch16_224': 'vit',
    'vit_small_patch14_dinov2': 'vit',
    'vit_small_patch14_reg4_dinov2': 'timm_vit_reg',
    'vit_giant_patch14_dinov2': 'timm_vit_giant',
    'vit_giant_patch14_reg4_dinov2': 'timm_vit_reg_giant',
    'vit_small_patch16_dinov3': 'timm_dinov3',
    'vit_small_plus_patch16_dinov3_qkvb': 'timm_dinov3',
    'swin_tiny_patch4_window7_224': 'timm_swin',
    'pvt_v2_b0': 'timm_pvt_v2',
}
OF_CONFIGS = {
    'agent_cswin': 'agent/agent-cswin-t_8xb256_in1k',
    'biformer_stl': 'biformer/biformer-stl_8xb128_in1k',
    'deit': 'flatten_deit/flatten-deit-t_8xb128_in1k',
    'inline_deit': 'inline/inline-deit-t_8xb128_in1k',
    'inline_pvt': 'inline/inline-pvt-t_8xb128_in1k',
    'pvt': 'flatten_pvt/pvt-t_8xb128_in1k',
    'slab_cswin': 'slab/slab-cswin-t_8xb256_in1k',
    'slab_pvt': 'slab/slab-pvt-t_8xb128_in1k',
}
SOFTMAX_MODELS = {
    'flatten_cswin': 'flatten_cswin/cswin-t_8xb256_in1k',
    'flatten_pvt': 'flatten_pvt/flatten-pvt-t_8xb128_in1k_ssss',
    'flatten_swin': 'flatten_swin/swin-t_8xb128_in1k',
    'vit': 'flatten_deit/deit-t_8xb128_in1k',
}


def state_of(config: str) -> dict[str, torch.Tensor]:
    with torch.device('meta'):
        return build_model(load_config(str(ROOT / 'configs' / f'{config}.py'))).state_dict()


@pytest.mark.parametrize('path', CASES, ids=lambda path: path.stem)
def test_official_names_have_their_own_family(path):
    case = json.loads(path.read_text())
    shapes = {**case['parameters'], **case['buffers']}
    state = {name: torch.empty(shape, device='meta') for name, shape in shapes.items()}
    expected = OTHER_NAMES.get(case['family'], case['family'])
    if expected not in SAME_NAMES:
        assert find_family(state) == expected
        return
    with pytest.raises(ValueError, match='mala, rala'):
        find_family(state)


@pytest.mark.parametrize('name, family', TIMM.items())
def test_models_of_timm_have_their_own_family(name, family):
    with torch.device('meta'):
        state = timm.create_model(name).state_dict()
    assert find_family(state) == family


@pytest.mark.parametrize('family, config', OF_CONFIGS.items())
def test_models_of_configs_have_their_own_family(family, config):
    assert find_family(revert_state_dict(state_of(config), family)) == family


@pytest.mark.parametrize('family', [name for name, family in FAMILIES.items() if family.base])
def test_softmax_models_belong_to_the_base(family):
    """A model without a block of the family's own attention has the names of the base, and converts
    the same.
    """
    base = FAMILIES[family].base
    official = revert_state_dict(state_of(SOFTMAX_MODELS[base]), family)
    assert find_family(official) == base
    assert convert_state_dict(official, base).keys() == convert_state_dict(official, family).keys()


def test_wrong_family_suggests_the_base_alone():
    with torch.device('meta'):
        state = timm.create_model('vit_tiny_patch16_224').state_dict()
    with pytest.raises(ValueError, match="'vit'") as error:
        convert_state_dict(state, 'timm_swin')
    assert 'agent_deit' not in str(error.value)


@pytest.mark.parametrize('name', ['vit_base_patch16_clip_224', 'deit_tiny_distilled_patch16_224'])
def test_models_of_no_family_are_refused(name):
    with torch.device('meta'):
        state = timm.create_model(name).state_dict()
    with pytest.raises(ValueError, match='--family'):
        find_family(state)


def test_page_lists_all_families():
    page = (ROOT / 'docs' / 'checkpoints.md').read_text(encoding='utf-8')
    table = page.partition('## Families')[2].partition('`--family auto`')[0]
    first_cells = [line.split('|')[1] for line in table.splitlines() if line.startswith('| `')]
    names = re.findall(r'`(\w+)`', ' '.join(first_cells))
    assert sorted(names) == sorted(FAMILIES)
