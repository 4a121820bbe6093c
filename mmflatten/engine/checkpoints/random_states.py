"""Random number generators of a run, as plain data for a checkpoint."""
import random
from typing import Any

import numpy as np
import torch
from mmengine.dist import all_gather_object


def capture_all_ranks() -> list[dict[str, Any]]:
    """Return the states of Python, NumPy, PyTorch and the current GPU on each process, in types that load safely.

    Every process must call this function.
    """
    name, keys, position, has_gauss, cached = np.random.get_state()
    states = dict(
        python=random.getstate(),
        numpy=(name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached),
        torch=torch.get_rng_state())
    if torch.cuda.is_available():
        states['cuda'] = torch.cuda.get_rng_state()
    return all_gather_object(states)


def restore(states: dict[str, Any]) -> None:
    """Restore the states of one process. A GPU state is ignored without a GPU."""
    random.setstate(states['python'])
    name, keys, position, has_gauss, cached = states['numpy']
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(states['torch'].cpu())
    if 'cuda' in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states['cuda'].cpu())
