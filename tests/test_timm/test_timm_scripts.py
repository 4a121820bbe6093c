"""timm's train.py and validate.py on folders of digits, and the timm functions that they use."""

import json
import os
import runpy
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image
from sklearn.datasets import load_digits
from timm import utils
from timm.data import create_dataset, create_loader, resolve_data_config
from timm.loss import LabelSmoothingCrossEntropy
from timm.models import load_checkpoint, resume_checkpoint
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2

import mmflatten.timm  # noqa: F401  registers the models

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / 'data' / f'timm-{timm.__version__}'
SOURCE = f'https://raw.githubusercontent.com/huggingface/pytorch-image-models/v{timm.__version__}'
ARCH = dict(embed_dims=16, depths=(1, 1, 1, 1), num_heads=(1, 2, 4, 8))
SIZE = 32


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> Path:
    """Folder of digits for timm's ImageFolder: `train/<class>/*.png` and
    `validation/<class>/*.png`.
    """
    root, digits = tmp_path_factory.mktemp('digits'), load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images[:400], digits.target)):
        path = root / ('validation' if number % 5 == 0 else 'train') / str(label) / f'{number}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype('uint8')).convert('RGB').save(path)
    return root


def new_model():
    torch.manual_seed(0)
    return timm.create_model(
        'flatten_swin_tiny',
        num_classes=10,
        drop_rate=0.1,
        drop_path_rate=0.1,
        arch=ARCH,
        img_size=SIZE,
    )


def test_timm_training_functions_accept_model(folder, tmp_path):
    model = new_model()
    config = resolve_data_config(dict(img_size=SIZE), model=model)
    assert config['input_size'] == (3, SIZE, SIZE) and config['crop_mode'] == 'squash'
    loader = create_loader(
        create_dataset('', root=folder, split='train', is_training=True),
        config['input_size'],
        40,
        is_training=True,
        color_jitter=0.4,
        re_prob=0.25,
        num_workers=0,
        persistent_workers=False,
        mean=config['mean'],
        std=config['std'],
        device=torch.device('cpu'),
    )
    optimizer = create_optimizer_v2(model, 'adamw', lr=1e-3, weight_decay=0.05, layer_decay=0.9)
    scheduler, epochs = create_scheduler_v2(optimizer, 'cosine', num_epochs=2, warmup_epochs=0)
    average = utils.ModelEmaV3(model, decay=0.9)
    saver = utils.CheckpointSaver(
        model, optimizer, args=None, model_ema=average, checkpoint_dir=str(tmp_path)
    )
    loss_fn, losses = LabelSmoothingCrossEntropy(), []
    for epoch in range(epochs):
        model.train()
        for image, target in loader:
            loss = loss_fn(model(image), target)
            loss.backward()
            utils.dispatch_clip_grad(timm.models.model_parameters(model, exclude_head=True), 5.0)
            optimizer.step()
            optimizer.zero_grad()
            average.update(model)
            losses.append(loss.item())
        saver.save_checkpoint(epoch, metric=-loss.item())
        scheduler.step(epoch + 1)
    assert sum(losses[-4:]) < sum(losses[:4])

    again = new_model()
    assert (
        resume_checkpoint(
            again,
            str(tmp_path / 'last.pth.tar'),
            create_optimizer_v2(again, 'adamw', lr=1e-3, weight_decay=0.05, layer_decay=0.9),
        )
        == 2
    )
    averaged = new_model()
    load_checkpoint(averaged, str(tmp_path / 'last.pth.tar'), use_ema=True)
    for loaded, source in ((again, model), (averaged, average.module)):
        state = source.state_dict()
        assert all(torch.equal(value, state[key]) for key, value in loaded.state_dict().items())


def script(name: str) -> str:
    """Return the path of a script of timm's repository for the installed version, downloaded
    once.
    """
    path = SCRIPTS / name
    if not path.exists():
        try:
            with urllib.request.urlopen(f'{SOURCE}/{name}', timeout=20) as answer:
                text = answer.read()
        except OSError as error:
            pytest.skip(f'{SOURCE}/{name} cannot be fetched ({error}); put it at {path}')
        SCRIPTS.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return str(path)


def run(folder: Path, *arguments: str) -> str:
    """Run `python -m mmflatten.timm` in a folder and return its output."""
    environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
    done = subprocess.run(
        [sys.executable, '-m', 'mmflatten.timm', *arguments],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.full
def test_timm_scripts_train_resume_and_validate(folder, tmp_path):
    model = [
        '--data-dir',
        str(folder),
        '--model',
        'flatten_swin_tiny',
        '--num-classes',
        '10',
        '--img-size',
        str(SIZE),
        '--device',
        'cpu',
        '--workers',
        '0',
        '-b',
        '40',
        '--model-kwargs',
        f'arch={ARCH}',
        f'img_size={SIZE}',
        'attn_types=LLLS',
    ]
    train = [
        script('train.py'),
        *model,
        '--opt',
        'adamw',
        '--lr',
        '2e-3',
        '--warmup-epochs',
        '0',
        '--layer-decay',
        '0.9',
        '--model-ema',
        '--model-ema-decay',
        '0.9',
        '--mixup',
        '0.2',
        '--grad-checkpointing',
        '--experiment',
        'nano',
    ]
    run(tmp_path, *train, '--epochs', '1')
    results = tmp_path / 'output' / 'train' / 'nano'
    assert (results / 'last.pth.tar').exists()
    out = run(tmp_path, *train, '--epochs', '2', '--resume', str(results / 'last.pth.tar'))
    assert 'Train: 1' in out and 'Train: 0' not in out
    out = run(
        tmp_path,
        script('validate.py'),
        *model,
        '--checkpoint',
        str(results / 'model_best.pth.tar'),
        '--use-ema',
    )
    report = json.loads(out.partition('--result')[2])
    assert report['model'] == 'flatten_swin_tiny'
    assert report['img_size'] == SIZE
    assert report['top5'] > 50


def test_timm_command_requires_script(monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['mmflatten.timm'])
    with pytest.raises(SystemExit, match='SCRIPT'):
        runpy.run_module('mmflatten.timm', run_name='__main__')


def test_timm_command_runs_script_with_its_arguments(tmp_path, monkeypatch, capsys):
    script = tmp_path / 'script.py'
    script.write_text(
        'import sys, timm\nprint(sys.argv[1:], timm.is_model("flatten_swin_tiny"), __name__)'
    )
    monkeypatch.setattr(sys, 'argv', ['mmflatten.timm', str(script), '--epochs', '1'])
    runpy.run_module('mmflatten.timm', run_name='__main__')
    assert capsys.readouterr().out == "['--epochs', '1'] True __main__\n"
