"""Official weights of the newer attentions: official outputs, and lossless conversion in both directions."""
import functools
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mmflatten.building import build_model
from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.checkpoints.convert import family_of
from mmflatten.cli.convert import main as convert
from mmflatten.engine.setup import load_config

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / 'tests' / 'data' / 'golden_frontier'
NAMES = sorted(path.stem for path in FOLDER.glob('*.json'))
FAMILIES = {'mavit': 'mala', 'ravlt': 'rala'}  # of the cases whose name is that of the model
TOLERANCE = 1e-5  # of the largest expected value
DROPPED = ('rotations', 'angle', 'relative_position_index', 'attn_mask')


class Case:
    """A golden case: official weights, an image and what the authors' code made of it."""

    def __init__(self, name: str) -> None:
        spec = importlib.util.spec_from_file_location('frontier_synth', FOLDER / 'frontier_synth.py')
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
    assert family_of(case.state) in (case.family, 'mala')  # RALA and MALA have the same names
    ours = convert_state_dict(case.state, case.family)
    official = revert_state_dict(ours, case.family)
    assert all(torch.equal(case.state[key], value) for key, value in official.items())
    left = {key for key in case.state.keys() - official.keys() if not key.endswith(DROPPED)}
    assert left <= {'norm.weight', 'norm.bias'} if case.family == 'polaformer_pvt' else not left
    for key in [*official][::40]:
        with pytest.raises(ValueError, match=key.replace('.', r'\.')):
            convert_state_dict({name: value for name, value in case.state.items() if name != key}, case.family)


def test_shapes_that_a_layout_does_not_allow_are_named(case_of):
    agent, pola = case_of('agent_swin_t'), case_of('polaformer_pvt_t_sr1111')
    wrong = next(key for key in agent.state if key.endswith('ha_bias'))
    with pytest.raises(ValueError, match=wrong.replace('.', r'\.')):
        convert_state_dict({**agent.state, wrong: torch.zeros(2, 3, 14, 1, 9)}, 'agent_swin')
    wrong = next(key for key in pola.state if key.endswith('qg.weight'))
    with pytest.raises(ValueError, match=wrong.replace('.', r'\.')):
        convert_state_dict({**pola.state, wrong: torch.zeros(6, 64)}, 'polaformer_pvt')


def test_auto_finds_the_family_and_mila_its_averaged_weights(case_of, tmp_path, capsys):
    case = case_of('mila_t')
    average = {key: value + 1 if value.is_floating_point() else value for key, value in case.state.items()}
    torch.save(dict(model=case.state, state_dict_ema=average), tmp_path / 'official.pth')
    for family, entry in (('auto', 'model'), ('mila', 'state_dict_ema')):
        assert convert([str(tmp_path / 'official.pth'), str(tmp_path / f'{family}.pth'), '--family', family]) == 0
        assert 'family mila' in capsys.readouterr().out
        content = torch.load(tmp_path / f'{family}.pth', weights_only=True)
        expected = convert_state_dict(average if entry != 'model' else case.state, 'mila')
        assert all(torch.equal(content['state_dict'][key], value) for key, value in expected.items())


@pytest.mark.parametrize('words', [['--family', 'auto'], ['--family', 'agent_swin'], ['--family', 'auto', '--revert']])
def test_file_of_no_family_writes_nothing(tmp_path, capsys, words):
    torch.save(dict(model={'blocks.0.weight': torch.zeros(2)}), tmp_path / 'other.pth')
    assert convert([str(tmp_path / 'other.pth'), str(tmp_path / 'out.pth'), *words]) == 1
    assert not (tmp_path / 'out.pth').exists()
    line = capsys.readouterr().err.splitlines()[-1]
    assert 'blocks.0.weight' in line or '--family' in line
