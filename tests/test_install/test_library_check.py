"""What `import mmflatten` says to libraries that are wrong, doubled or missing, in a Python that has only fake ones."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mmflatten.requirements import LIBRARIES, admits

ROOT = Path(__file__).resolve().parents[2]
TESTED = {library.distribution: library.tested for library in LIBRARIES.values()}


def run_with(folder: Path, versions: dict, code: str = 'import mmflatten', requires: str = '') -> tuple[int, str]:
    """Run `code` without site-packages, where package metadata tells of `versions` alone."""
    for name, version in versions.items():
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        needs = f'Requires-Dist: {requires}\n' if name == 'torchvision' and requires else ''
        (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}')
    environment = {**os.environ, 'PYTHONPATH': f'{folder}{os.pathsep}{ROOT}'}
    done = subprocess.run([sys.executable, '-S', '-c', code], env=environment, cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def without(*names: str) -> dict:
    return {name: version for name, version in TESTED.items() if name not in names}


def test_tested_versions_import_silently(tmp_path):
    assert run_with(tmp_path, TESTED) == (0, '')


@pytest.mark.parametrize('name', sorted(LIBRARIES))
def test_wrong_version_of_any_library_names_it_and_the_mending_command(tmp_path, name):
    library = LIBRARIES[name]
    status, output = run_with(tmp_path, {**TESTED, library.distribution: '99.1.2'})
    assert status == 1 and 'ImportError' in output
    assert f'{name} 99.1.2' in output and library.needed in output
    assert re.search(rf'mend it with: .*pip install .*{library.distribution}=={library.tested}', output)


@pytest.mark.parametrize('name', [name for name, library in LIBRARIES.items() if library.original])
def test_unmaintained_original_is_refused_and_its_removal_comes_first(tmp_path, name):
    library = LIBRARIES[name]
    status, output = run_with(tmp_path, {**without(library.distribution), library.original: '1.0.0'})
    assert status == 1
    assert f'distribution {library.original}) is installed' in output
    assert f'pip uninstall -y {library.original} && ' in output


def test_original_beside_its_replacement_is_refused_even_in_a_fitting_version(tmp_path):
    status, output = run_with(tmp_path, {**TESTED, 'mmcv': LIBRARIES['mmcv'].tested})
    assert status == 1
    assert 'side by side' in output
    assert 'pip uninstall -y onedl-mmcv mmcv && ' in output and '--no-build-isolation' in output


def test_all_problems_are_named_at_once(tmp_path):
    status, output = run_with(tmp_path, {**TESTED, 'torch': '2.3.1', 'einops': '0.3.0'})
    assert status == 1 and 'torch 2.3.1' in output and 'einops 0.3.0' in output


def test_missing_torch_is_an_error(tmp_path):
    status, output = run_with(tmp_path, {})
    assert status == 1
    assert 'torch is not installed' in output and 'pip install torch==' in output


def test_torch_alone_imports_with_one_warning_that_names_the_missing(tmp_path):
    code = 'import mmflatten; import importlib; importlib.import_module("mmflatten.version"); import mmflatten'
    status, output = run_with(tmp_path, {'torch': LIBRARIES['torch'].tested}, code)
    assert status == 0
    assert output.count('UserWarning') == 1
    for name in ('mmengine', 'mmcv', 'einops'):
        assert f'{name} is not installed' in output
    assert 'mmdet' not in output


def test_missing_task_library_is_refused_where_it_is_required(tmp_path):
    code = "import mmflatten; from mmflatten.requirements import require; require('torch', 'mmdet')"
    status, output = run_with(tmp_path, without('onedl-mmdetection'), code)
    assert status == 1 and output.count('is not installed') == 1
    assert 'mmdet is not installed' in output and 'pip install onedl-mmdetection==' in output


def test_torchvision_for_another_torch_is_refused(tmp_path):
    status, output = run_with(tmp_path, {**TESTED, 'torchvision': '0.28.0'}, requires='torch==2.13.0')
    assert status == 1
    assert 'compiled for torch 2.13.0' in output and 'pip install torch==2.12.1 torchvision==0.27.1' in output


def test_torchvision_for_this_torch_with_a_build_tag_is_accepted(tmp_path):
    versions = {**TESTED, 'torch': '2.12.1+cu130'}
    assert run_with(tmp_path, versions, requires='torch==2.12.1') == (0, '')


def test_half_removed_library_counts_as_missing(tmp_path):
    (tmp_path / 'einops-0.8.2.dist-info').mkdir()
    status, output = run_with(tmp_path, without('einops'))
    assert status == 0 and 'einops is not installed' in output


def test_source_checkout_without_metadata_counts_as_installed(tmp_path):
    (tmp_path / 'einops').mkdir()
    (tmp_path / 'einops' / '__init__.py').write_text('')
    assert run_with(tmp_path, without('einops')) == (0, '')


@pytest.mark.parametrize('version, fits', [
    ('2.4', True), ('2.4.0', True), ('2.4.0+cpu', True), ('2.13.1', True), ('2.10.0', True),
    ('2.3.9', False), ('2.14', False), ('2.14.0', False), ('2.14.0.dev20260101', False), ('3.0', False),
])
def test_version_ranges_compare_release_numbers(version, fits):
    assert admits('>=2.4,<2.14', version) is fits
