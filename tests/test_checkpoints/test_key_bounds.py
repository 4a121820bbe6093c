"""Names in a checkpoint are bounded before they are compared."""

import time

import pytest
import torch
from safetensors.torch import save_file

from mmflatten.checkpoints.convert import find_family
from mmflatten.checkpoints.key_bounds import MAX_KEYS, MAX_LENGTH, MAX_PARTS
from mmflatten.checkpoints.loading import read_checkpoint
from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.cli.convert import main

ONE = torch.ones(1)


@pytest.mark.parametrize(
    'weights',
    [
        {'.' * 200_000: ONE},
        {'module.' * 30_000 + 'x': ONE},
        {'a' * (MAX_LENGTH + 1): ONE},
        {'a.' * MAX_PARTS + 'a': ONE},
        {str(number): ONE for number in range(MAX_KEYS + 1)},
    ],
    ids=['dots', 'wrappers', 'length', 'parts', 'number'],
)
@pytest.mark.parametrize('entry', [None, 'model'])
def test_long_names_are_refused_at_once(weights, entry, tmp_path, capsys):
    file = tmp_path / 'hostile.pth'
    torch.save({entry: weights} if entry else weights, file)
    start = time.monotonic()
    assert main([str(file), str(tmp_path / 'out.pth'), '--family', 'auto']) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert str(file) in last and 'names' in last and len(last) < 1000
    assert time.monotonic() - start < 10
    with pytest.raises(CheckpointError, match='hostile'):
        read_checkpoint(file)


def test_names_of_safetensors_are_bounded_too(tmp_path):
    save_file({'.' * 2000: ONE}, tmp_path / 'hostile.safetensors')
    with pytest.raises(CheckpointError, match='hostile'):
        read_checkpoint(tmp_path / 'hostile.safetensors')


def test_as_many_names_as_are_allowed_are_compared_in_seconds():
    names = [
        f'layers.{number // 200}.blocks.{number % 200}.' + 'a.' * (MAX_PARTS - 5) + 'a'
        for number in range(MAX_KEYS)
    ]
    start = time.monotonic()
    with pytest.raises(ValueError, match='family'):
        find_family(dict.fromkeys(names, ONE))
    assert time.monotonic() - start < 30  # a third of that on an idle machine


@pytest.mark.parametrize('metadata', [5, [1], {'': 5}, {5: {}}])
def test_versions_of_modules_are_checked(metadata, tmp_path):
    from mmflatten.checkpoints.loading import weights_of

    state = torch.nn.Linear(2, 2).state_dict()
    state._metadata = metadata
    with pytest.raises(CheckpointError, match='_metadata'):
        weights_of(torch.nn.Linear(2, 2), state, 'a.pth')
