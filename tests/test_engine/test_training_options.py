"""`--deterministic` and `--compile` of `mmflatten train`."""
import json
import shutil

import pytest
import torch
from torch._dynamo.utils import counters

from mmflatten.cli.train import main as train

EPOCHS = 1  # of four steps


@pytest.fixture(autouse=True)
def restored(tools):
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    torch._dynamo.reset()


def trained(run, name: str, *options: str) -> tuple[dict, list[float]]:
    """Train in a new folder; return the weights and the losses of all steps."""
    folder = run.folder / name
    assert train([str(run.config), '--no-validate', '--work-dir', str(folder), *options, '--cfg-options',
                  f'train_cfg.max_epochs={EPOCHS}', 'default_hooks.logger.interval=1',
                  f'experiment_name={name}']) == 0
    log, = folder.glob('*/vis_data/scalars.json')
    losses = [json.loads(line)['loss'] for line in log.read_text().splitlines()]
    return torch.load(folder / f'epoch_{EPOCHS}.pth', weights_only=False)['state_dict'], losses


def test_two_deterministic_trainings_with_one_seed_are_equal_bit_for_bit(tiny):
    first, losses = trained(tiny, 'first', '--deterministic', '--seed', '3')
    assert torch.are_deterministic_algorithms_enabled()
    again, losses_again = trained(tiny, 'again', '--deterministic', '--seed', '3')
    other, _ = trained(tiny, 'other', '--deterministic', '--seed', '4')
    assert len(losses) == 4 * EPOCHS and losses == losses_again
    assert first.keys() == again.keys() and all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_compiled_training_has_the_losses_and_weights_of_an_eager_one(tiny):
    eager, losses = trained(tiny, 'eager', '--seed', '3')
    counters.clear()
    compiled, compiled_losses = trained(tiny, 'compiled', '--seed', '3', '--compile', 'aot_eager')
    assert counters['stats']['unique_graphs'] > 0
    assert compiled_losses == pytest.approx(losses, rel=1e-4)
    assert eager.keys() == compiled.keys()


def test_compile_needs_a_compiler_on_a_cpu(tiny, fails, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    monkeypatch.setattr(shutil, 'which', lambda name: None)
    assert 'C++ compiler' in fails('train', tiny.config, '--compile')
