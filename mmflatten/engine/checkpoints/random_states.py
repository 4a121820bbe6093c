"""The random number generators of a run, as plain data that a checkpoint can hold."""
import random
from typing import Any

import numpy as np
import torch
from mmengine.dist import all_gather_object


def capture() -> dict[str, Any]:
    """State of Python's, NumPy's, PyTorch's and the current GPU's generators, in types that load without pickle."""
    name, keys, position, has_gauss, cached = np.random.get_state()
    states = dict(
        python=random.getstate(),
        numpy=(name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached),
        torch=torch.get_rng_state())
    if torch.cuda.is_available():
        states['cuda'] = torch.cuda.get_rng_state()
    return states


def restore(states: dict[str, Any]) -> None:
    """Set the generators as `capture` found them; a GPU state is left out where there is no GPU."""
    random.setstate(states['python'])
    name, keys, position, has_gauss, cached = states['numpy']
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(states['torch'].cpu())
    if 'cuda' in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states['cuda'].cpu())


def capture_all_ranks() -> list[dict[str, Any]]:
    """States of every process, in the order of their ranks; every process must call it."""
    return all_gather_object(capture())
