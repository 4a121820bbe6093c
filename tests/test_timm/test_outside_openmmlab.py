"""Runs the code of docs/other_tools.md: timm models, a training loop, a Trainer, weights."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / 'docs' / 'other_tools.md').read_text(encoding='utf-8')
CHECK = """
assert hugging_face_accuracy > .8, hugging_face_accuracy
with torch.no_grad():
    expected, logits = (model.eval()(images[:4]).logits for model in (wrapped, again))
torch.testing.assert_close(logits, expected)
print('checked')
"""


def block(containing: str) -> str:
    """Return the Python code block of the document that contains a text."""
    (found,) = (
        code for code in re.findall(r'```python\n(.*?)```', TEXT, re.DOTALL) if containing in code
    )
    return found


@pytest.fixture(scope='module')
def names() -> dict:
    """Return the names defined by the first block and the training loop."""
    names: dict = {}
    torch.manual_seed(0)
    exec(block('import timm\n'), names)
    exec(block('optimizer.step()'), names)
    return names


def test_document_models_have_stated_shapes(names):
    assert names['logits'].shape == (1, 10)
    mixer = names['hydra'].backbone.stages[1].blocks[0].attn.fn.mixer
    assert type(mixer).__name__ == 'HydraAttention'
    assert [tuple(m.shape[2:]) for m in names['maps']] == [(25, 42), (13, 21), (7, 11)]


def test_document_loop_learns_digits(names):
    assert names['accuracy'] > 0.8


@pytest.mark.full
def test_document_trainer_learns_digits_and_its_folder_loads(tmp_path):
    """Installs transformers in a separate folder, because mmpretrain 1.3.6 cannot be imported with
    version 5.
    """
    install = [
        sys.executable,
        '-m',
        'pip',
        'install',
        '-q',
        '--target',
        tmp_path / 'site',
        '-c',
        ROOT / 'requirements' / 'constraints.txt',
    ]
    subprocess.run([*install, 'transformers>=5,<6'], check=True)
    subprocess.run([*install, '--no-deps', 'accelerate>=1.10,<2'], check=True)
    blocks = [block(text) for text in ('import timm\n', 'optimizer.step()', 'trainer.train()')]
    page = '\n'.join(['import torch', 'torch.manual_seed(0)', *blocks, CHECK])
    (tmp_path / 'page.py').write_text(page, encoding='utf-8')
    environment = {
        **os.environ,
        'PYTHONPATH': f'{tmp_path / "site"}{os.pathsep}{ROOT}',
        'OMP_NUM_THREADS': '1',
        'HF_HUB_OFFLINE': '1',
    }
    done = subprocess.run(
        [sys.executable, 'page.py'],
        cwd=tmp_path,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0 and 'checked' in done.stdout, done.stdout


def test_document_weights_load(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {key: value.clone() for key, value in names['model'].state_dict().items()}
    exec(block('save_file('), names)
    for model in ('model', 'loaded'):
        after = names[model].state_dict()
        assert all(torch.equal(after[key], value) for key, value in before.items())
    assert names['tuned'].head.fc.out_features == 3
    after = names['tuned'].state_dict()
    assert torch.equal(
        after['backbone.stages.3.blocks.0.ffn.fn.fc1.weight'],
        before['backbone.stages.3.blocks.0.ffn.fn.fc1.weight'],
    )
