"""Official state dicts of the golden cases."""

import functools
import importlib.util
from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parents[1] / 'data' / 'golden'


class Golden:
    """A golden case: `state` are the official weights, `buffers` the index buffers in its file."""

    def __init__(self, name: str) -> None:
        spec = importlib.util.spec_from_file_location('golden_synth', GOLDEN / 'synth.py')
        synth = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(synth)
        self.case = synth.load_case(name)
        self.family = self.case['family']
        self.expected = self.case['expected']
        self.image = synth.synth_input(self.case)
        self.state = synth.synth_state_dict(self.case)
        self.buffers = {
            key: torch.zeros(shape, dtype=torch.int64)
            for key, shape in self.case['buffers'].items()
        }

    @property
    def names(self) -> dict[str, torch.Tensor]:
        """State dict with the same names and shapes on the meta device, for checks of names."""
        return {key: value.to('meta') for key, value in self.state.items()}


@pytest.fixture(scope='session')
def golden():
    """Cached loader of golden cases by name."""
    return functools.cache(Golden)
