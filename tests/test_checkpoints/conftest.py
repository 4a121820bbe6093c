"""Official state dicts for the converters: of the golden cases with weights, and of any shape without."""
import functools
import importlib.util
from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parents[1] / 'data' / 'golden'


class Golden:
    """One golden case: `state` are its official weights, `buffers` the index buffers that its file holds besides."""

    def __init__(self, name: str) -> None:
        spec = importlib.util.spec_from_file_location('golden_synth', GOLDEN / 'synth.py')
        synth = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(synth)
        self.case = synth.load_case(name)
        self.family = self.case['family']
        self.expected = self.case['expected']
        self.image = synth.synth_input(self.case)
        self.state = synth.synth_state_dict(self.case)
        self.buffers = {key: torch.zeros(shape, dtype=torch.int64) for key, shape in self.case['buffers'].items()}

    @property
    def names(self) -> dict[str, torch.Tensor]:
        """The same names and shapes without values, for checks of names."""
        return {key: value.to('meta') for key, value in self.state.items()}


@pytest.fixture(scope='session')
def golden():
    """Loader of golden cases by name; each is drawn once."""
    return functools.cache(Golden)
