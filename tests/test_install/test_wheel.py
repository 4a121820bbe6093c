"""The wheel: its contents, and its use in a clean virtual environment and an empty folder, with the
network cut.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from email.parser import Parser
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from mmflatten import __version__

ROOT = Path(__file__).resolve().parents[2]
ISOLATED = Path(__file__).parent / 'isolated'
PIP = [sys.executable, '-m', 'pip', '--disable-pip-version-check', '-q']
NAME, OTHER = 'flatten-swin-nano_digits', 'l2vit-nano_digits'
CHILD = "import urllib.request; urllib.request.urlopen('http://example.org')"
SWITCHES = ('CI', 'DO_NOT_TRACK', 'GRADIO_ANALYTICS_ENABLED', 'HF_HUB_DISABLE_TELEMETRY')


@pytest.fixture(scope='module')
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy of the checkout, beside that of the lab."""
    folder = tmp_path_factory.mktemp('wheel')
    build(copy_sources(folder / 'sources'), folder)
    build(folder / 'sources' / 'lab', folder)
    return next(folder.glob('mmflatten-*.whl'))


def copy_sources(folder: Path) -> Path:
    folder.mkdir()
    for name in ('mmflatten', 'configs', 'lab', 'tools', 'requirements'):
        shutil.copytree(
            ROOT / name,
            folder / name,
            ignore=shutil.ignore_patterns('__pycache__', 'build', '*.egg-info'),
        )
    for name in ('pyproject.toml', 'setup.py', 'README.md', 'LICENSE', 'model-index.yml'):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def build(sources: Path, target: Path) -> None:
    """Build the wheel of a folder as `make wheels` does."""
    subprocess.run(
        [*PIP, 'wheel', '--no-deps', '--no-index', '--no-build-isolation', '-w', target, sources],
        check=True,
    )


@pytest.fixture(scope='module')
def environment(wheel) -> Path:
    """A virtual environment with the wheel; all other libraries come from the one that runs the
    tests.
    """
    folder = wheel.parent / 'env'
    venv.create(folder, with_pip=False)
    subprocess.run(
        [
            *PIP,
            '--python',
            folder,
            'install',
            '--no-deps',
            '--no-index',
            *wheel.parent.glob('*.whl'),
        ],
        check=True,
        env=clean_variables(),
    )
    (packages,) = (folder / 'lib').glob('*/site-packages')
    (packages / 'libraries.pth').write_text(sysconfig.get_paths()['purelib'] + '\n')
    return folder


@pytest.fixture(scope='module')
def used(environment, tmp_path_factory) -> SimpleNamespace:
    """The `folder` in which `isolated/wheel.py` ran, its `results`, and its `attempts` to reach the
    network.
    """
    folder = tmp_path_factory.mktemp('use')
    run(environment, folder, 'python', str(ISOLATED / 'wheel.py'), **cut_network(folder))
    return SimpleNamespace(
        folder=folder,
        results=json.loads((folder / 'results.json').read_text()),
        attempts=attempts(folder),
    )


def clean_variables() -> dict[str, str]:
    """Return the environment without the checkout, and without settings that turn telemetry off."""
    return {key: value for key, value in os.environ.items() if key not in ('PYTHONPATH', *SWITCHES)}


def cut_network(folder: Path) -> dict[str, str]:
    """Return variables that cut Python off the network (`isolated/sitecustomize.py`), and log what
    it tries.
    """
    return dict(
        PYTHONPATH=str(ISOLATED),
        NETWORK_LOG=str(folder / 'attempts.txt'),
        HOME=str(folder),
        OMP_NUM_THREADS='1',
    )


def attempts(folder: Path) -> list[str]:
    log = folder / 'attempts.txt'
    return log.read_text().splitlines() if log.exists() else []


def run(environment: Path, folder: Path, *command: str, **variables: str) -> str:
    result = subprocess.run(
        [environment / 'bin' / command[0], *command[1:]],
        cwd=folder,
        env={**clean_variables(), **variables},
        text=True,
        capture_output=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_wheel_has_all_files_of_the_package_and_runtime_requirements(wheel):
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith('.dist-info/METADATA'))
        info = Parser().parsestr(archive.read(metadata).decode())
    files = [path.relative_to(ROOT) for path in (ROOT / 'mmflatten').rglob('*') if path.is_file()]
    expected = {path.as_posix() for path in files if '__pycache__' not in path.parts}
    assert {
        name for name in names if name.startswith('mmflatten/') and '/.mim/' not in name
    } == expected
    assert {
        'mmflatten/hub/models/garment-classifier/model.safetensors',
        'mmflatten/.mim/model-index.yml',
        'mmflatten/.mim/configs/digits/l2vit-nano_digits.py',
        'mmflatten/.mim/tools/train.py',
    } <= names
    assert not any(name.startswith('mmflatten/.mim/tools/maintain') for name in names)
    assert info['Version'] == __version__
    declared = [Requirement(line) for line in info.get_all('Requires-Dist')]
    runtime = (ROOT / 'requirements' / 'runtime.txt').read_text().splitlines()
    assert {str(item) for item in declared if item.marker is None} == {
        str(Requirement(line)) for line in runtime if line and not line.startswith('#')
    }


def test_builds_are_equal_byte_for_byte(wheel, tmp_path):
    """The second build is of files with other times and permissions, under another umask."""
    sources, mask = copy_sources(tmp_path / 'elsewhere'), os.umask(0o077)
    try:
        for path in sources.rglob('*'):
            os.utime(path, (1_700_000_000, 1_700_000_000))
        (sources / 'README.md').chmod(0o600)
        build(sources, tmp_path)
    finally:
        os.umask(mask)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_only_the_extras_of_tasks_bring_mmcv(wheel):
    with ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith('.dist-info/METADATA'))
        info = Parser().parsestr(archive.read(metadata).decode())
    declared = [Requirement(line) for line in info.get_all('Requires-Dist')]
    extras = {}
    for extra in info.get_all('Provides-Extra'):
        extras[extra] = {
            item.name
            for item in declared
            if item.marker is None or item.marker.evaluate({'extra': extra})
        }
    with_mmcv = {
        extra
        for extra, names in extras.items()
        if 'onedl-mmcv' in names and 'mmcv-torch-ops' in names
    }
    assert with_mmcv == {'cls', 'det', 'seg', 'stereo', 'all'}
    assert extras['timm'] == {
        'timm',
        'torch',
        'torchvision',
        'numpy',
        'einops',
        'filelock',
        'onedl-mmengine',
        'safetensors',
        'pydantic',
    }
    assert extras['det'] - extras['stereo'] == {'onedl-mmdetection', 'hotcoco'}


def test_wheel_command_lists_models(environment, tmp_path):
    assert NAME in run(environment, tmp_path, 'mmflatten', 'models', '*nano_digits')


def test_wheel_models_are_found_built_and_counted_by_name(environment, used):
    assert Path(used.results['file']).is_relative_to(environment)
    assert NAME in used.results['models'] and used.results['kind'] == 'ImageClassifier'
    assert NAME in used.results['flops'] and OTHER in used.results['flops']


def test_wheel_predicts_with_a_model_of_the_package(environment, used):
    (facts,) = (environment / 'lib').glob(
        '*/site-packages/mmflatten/hub/models/garment-classifier/mmflatten.json'
    )
    with open(used.folder / 'first' / 'classes.csv', newline='') as file:
        _, *rows = csv.reader(file)
    names = set().union(*(row[1::2] for row in rows))
    assert len(rows) == len(list(used.folder.glob('data/digits/crops/val/*/*.png'))) > 0
    assert names and names <= {*json.loads(facts.read_text())['classes']}


def test_wheel_trains_tests_exports_and_serves_without_the_checkout(used):
    for name in ('tested.pkl', 'found/classes.csv', 'model.onnx'):
        assert (used.folder / name).stat().st_size > 0
    assert 'num_classes' in (used.folder / 'mine.py').read_text() and used.results['page'] == 200


def test_attempts_of_child_processes_are_recorded(environment, tmp_path):
    """The next test would pass without a record."""
    code = (
        'import subprocess, sys\nassert subprocess.run([sys.executable, "-c",'
        f' {CHILD!r}]).returncode == 1'
    )
    run(environment, tmp_path, 'python', '-c', code, **cut_network(tmp_path))
    (attempt,) = attempts(tmp_path)
    assert 'example.org' in attempt


def test_commands_do_not_try_to_reach_the_network(used):
    assert used.attempts == []
    assert used.results['reports_use'] == dict(gradio=False, hub=False)


@pytest.mark.full
def test_wheels_train_a_detector_in_an_empty_environment(tmp_path):
    """Takes 6 GB of disk for a minute; uv finds the packages in the cache that set-up left."""
    sources = tmp_path / 'sources'
    shutil.copytree(
        ROOT,
        sources,
        ignore=shutil.ignore_patterns('.*', '__pycache__', 'build', 'data', 'work_dirs'),
    )
    wheels, python, pins = (
        tmp_path / 'dist',
        tmp_path / 'env' / 'bin' / 'python',
        ROOT / 'requirements',
    )
    subprocess.run(['make', 'wheels', f'PYTHON={sys.executable}'], cwd=sources, check=True)
    shutil.move(sources / 'dist', wheels)
    venv.create(tmp_path / 'env', with_pip=False)
    subprocess.run(
        [
            sys.executable,
            '-m',
            'uv',
            'pip',
            'install',
            '-q',
            '--python',
            python,
            '--find-links',
            wheels,
            '-c',
            pins / 'constraints.txt',
            '--override',
            pins / 'overrides.txt',
            'mmflatten[det,analyze]',
        ],
        check=True,
    )
    run(
        tmp_path / 'env',
        tmp_path,
        'mmflatten',
        'data',
        'digits',
        '--train',
        '4',
        '--val',
        '2',
        '--size',
        '96',
    )
    run(
        tmp_path / 'env',
        tmp_path,
        'mmflatten',
        'train',
        'mask-rcnn_flatten-swin-nano_fpn_digits',
        '--cfg-options',
        'train_cfg.max_epochs=1',
        'train_dataloader.num_workers=0',
        'train_dataloader.persistent_workers=False',
        'val_dataloader.num_workers=0',
        'val_dataloader.persistent_workers=False',
    )
