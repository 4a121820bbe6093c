"""From the wheel alone, in a clean virtual environment and a folder without the checkout, models are found by name."""
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from mmflatten.version import __version__

ROOT = Path(__file__).resolve().parents[2]
NAME, OTHER = 'flatten-swin-nano_digits', 'l2vit-nano_digits'
PROBE = f'''
import json, mmflatten
from mmflatten.apis import get_model, list_models
from mmflatten.cli.main import main
model = get_model({NAME!r}, **{{'backbone.drop_path_rate': 0.}})
found = [mmflatten.__file__, list_models('*nano_digits', task='classification'), type(model).__name__]
with open('found.json', 'w') as file:
    json.dump(found, file)
raise SystemExit(main(['flops', {NAME!r}, 'configs/digits/{OTHER}.py']))
'''
# One process for all commands, because each import of torch and mmdet costs seconds.
COMMANDS = '''
import json, sys
from mmflatten.cli.main import main
for command in json.loads(sys.argv[1]):
    assert main(command) == 0, command
'''


@pytest.fixture(scope='module')
def environment(tmp_path_factory) -> Path:
    """A virtual environment with the wheel; all other libraries come from the one that runs the tests."""
    folder = tmp_path_factory.mktemp('wheel')
    sources = folder / 'sources'
    sources.mkdir()
    for name in ('mmflatten', 'configs', 'tools', 'requirements'):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns('__pycache__'))
    for name in ('setup.py', 'pyproject.toml', 'MANIFEST.in', 'README.md', 'model-index.yml'):
        shutil.copy(ROOT / name, sources)
    pip = [sys.executable, '-m', 'pip', '--disable-pip-version-check', '-q']
    subprocess.run([*pip, 'wheel', '--no-deps', '--no-build-isolation', '-w', folder, sources], check=True)
    wheel, = folder.glob('*.whl')
    venv.create(folder / 'env', with_pip=False)
    subprocess.run([*pip, '--python', folder / 'env', 'install', '--no-deps', '--no-index', wheel], check=True,
                   env=clean_variables())
    packages, = (folder / 'env' / 'lib').glob('*/site-packages')
    (packages / 'libraries.pth').write_text(sysconfig.get_paths()['purelib'] + '\n')
    return folder / 'env'


def clean_variables() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != 'PYTHONPATH'}


def run(environment: Path, folder: Path, *command: str) -> str:
    result = subprocess.run([environment / 'bin' / command[0], *command[1:]], cwd=folder, env=clean_variables(),
                            text=True, capture_output=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_models_and_configs_are_found_by_name_and_path(environment, tmp_path):
    table = run(environment, tmp_path, 'python', '-c', PROBE)
    file, names, kind = json.loads((tmp_path / 'found.json').read_text())
    assert Path(file).is_relative_to(environment)
    assert NAME in names and kind == 'ImageClassifier'
    assert NAME in table and OTHER in table
    assert run(environment, tmp_path, 'mmflatten', '--version').strip() == __version__


def test_a_model_is_trained_and_used_in_a_folder_without_the_checkout(environment, tmp_path):
    images, lists = 'data/digits/images', 'data/digits/annotations'
    commands = [
        ['data', 'digits', '--train', '4', '--val', '2', '--size', '96'],
        ['train', NAME, '--cfg-options', 'train_cfg.max_epochs=1',
         'train_dataloader.num_workers=0', 'train_dataloader.persistent_workers=False',
         'val_dataloader.num_workers=0', 'val_dataloader.persistent_workers=False'],
        ['predict', NAME, f'work_dirs/{NAME}/epoch_1.pth', 'data/digits/crops/val/*/*.png', '--out', 'found'],
        ['init', '--task', 'det', '--base', 'retinanet_flatten-swin-nano_fpn_digits',
         '--images', f'{images}/training', f'{images}/validation',
         '--ann', f'{lists}/instances_train.json', f'{lists}/instances_val.json', '--out', 'mine.py']]
    run(environment, tmp_path, 'python', '-c', COMMANDS, json.dumps(commands))
    assert (tmp_path / 'found' / 'classes.csv').is_file()
    assert 'num_classes' in (tmp_path / 'mine.py').read_text()


@pytest.mark.full
def test_wheels_give_a_working_detector_in_an_empty_environment(tmp_path):
    """Takes 6 GB of disk for a minute; uv finds the packages in the cache that set-up left."""
    sources = tmp_path / 'sources'
    shutil.copytree(ROOT, sources, ignore=shutil.ignore_patterns('.*', '__pycache__', 'build', 'data', 'work_dirs'))
    wheels, python, pins = tmp_path / 'dist', tmp_path / 'env' / 'bin' / 'python', ROOT / 'requirements'
    subprocess.run(['make', 'wheels', f'PYTHON={sys.executable}'], cwd=sources, check=True)
    shutil.move(sources / 'dist', wheels)
    venv.create(tmp_path / 'env', with_pip=False)
    subprocess.run([sys.executable, '-m', 'uv', 'pip', 'install', '-q', '--python', python, '--find-links', wheels,
                    '-c', pins / 'constraints.txt', '--override', pins / 'overrides.txt',
                    'mmflatten[det,demo]'], check=True)
    run(tmp_path / 'env', tmp_path, 'mmflatten', 'data', 'digits', '--train', '4', '--val', '2', '--size', '96')
    run(tmp_path / 'env', tmp_path, 'mmflatten', 'train', 'mask-rcnn_flatten-swin-nano_fpn_digits', '--cfg-options',
        'train_cfg.max_epochs=1', 'train_dataloader.num_workers=0', 'train_dataloader.persistent_workers=False',
        'val_dataloader.num_workers=0', 'val_dataloader.persistent_workers=False')
