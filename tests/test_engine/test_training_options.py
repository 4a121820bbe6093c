"""`--deterministic` and `--compile` of `mmflatten train`, and errors of memory that name the config's fields."""
import json
import shutil

import pytest
import torch
from torch._dynamo.utils import counters

from mmflatten.cli.train import main as train
from mmflatten.models import FLattenSwin

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


def run_out_of_memory(monkeypatch, error: RuntimeError, in_training: bool = True) -> None:
    """Make the second step of a training, or the first of a validation, fail."""
    forward, steps = FLattenSwin.forward, []

    def failing(self, images):
        steps.append(self.training)
        if self.training is in_training and len(steps) > 1:
            raise error
        return forward(self, images)

    monkeypatch.setattr(FLattenSwin, 'forward', failing)


def test_out_of_memory_names_batch_crop_and_checkpointing(tiny, fails, monkeypatch):
    run_out_of_memory(monkeypatch, torch.OutOfMemoryError(
        'CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB.'))
    line = fails('train', tiny.config)
    assert line == (
        'out of memory in the train loop (CUDA out of memory. Tried to allocate 2.00 GiB). Lower: '
        'train_dataloader.batch_size (4), train_dataloader.dataset.pipeline.1.crop_size (32). '
        'Set: model.backbone.with_cp=True (False), --amp.')


def test_out_of_memory_of_a_detector_names_the_assigner(detection, fails, monkeypatch):
    with pytest.raises(RuntimeError) as failure:
        torch.empty(2**60)
    run_out_of_memory(monkeypatch, failure.value)  # of the CPU's allocator
    line = fails('train', detection.config, '--cfg-options', 'model.train_cfg.assigner.gpu_assign_thr=500',
                 'train_dataloader.batch_size=1')
    assert 'train_dataloader.batch_size (1)' in line
    assert 'model.train_cfg.assigner.gpu_assign_thr=100 for images with many boxes (500)' in line


def test_out_of_memory_in_validation_names_its_batch(tiny, fails, monkeypatch):
    run_out_of_memory(monkeypatch, torch.OutOfMemoryError('CUDA out of memory.'), in_training=False)
    line = fails('train', tiny.config, '--cfg-options', 'val_dataloader.batch_size=8')
    assert 'val_dataloader.batch_size (8)' in line and 'with_cp' not in line and 'train_dataloader' not in line
