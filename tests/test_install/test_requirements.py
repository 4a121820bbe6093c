"""Errors and warnings about libraries that are too old, duplicated, missing or newer than
tested.
"""

import pytest

from mmflatten.requirements import LIBRARIES

TESTED = {library.distribution: library.tested for library in LIBRARIES.values()}
CHECK = 'from mmflatten.requirements import check_task as check; check({0!r}); check({0!r})'


@pytest.fixture
def check_task(run_python, distribution):
    """Check a task twice in a Python without site-packages, with package metadata of `versions`
    only.
    """

    def check(versions: dict, scope: str = 'mmdet', torchvision_needs: str = '') -> tuple[int, str]:
        for name, version in versions.items():
            distribution(name, version, torchvision_needs if name == 'torchvision' else '')
        return run_python('-S', '-c', CHECK.format(scope))

    return check


def without(*names: str) -> dict:
    return {name: version for name, version in TESTED.items() if name not in names}


def test_check_task_accepts_tested_versions(check_task):
    assert check_task(TESTED, torchvision_needs=f'torch=={TESTED["torch"]}') == (0, '')


def test_check_task_names_missing_and_old_libraries(check_task, tmp_path):
    (tmp_path / 'numpy-2.2.6.dist-info').mkdir()  # partly removed: without METADATA
    old = {'torch': '2.3.1', 'einops': '0.3.0', 'onedl-mmdetection': '3.5.0'}
    status, output = check_task({**without('onedl-mmengine', 'numpy'), **old})
    assert status == 1 and 'ImportError' in output
    for name in ('torch', 'einops', 'mmdet', 'mmengine', 'numpy'):
        library = LIBRARIES[name]
        assert f'{library.distribution} {old.get(library.distribution, "")}' in output
        assert library.required in output and f'{library.distribution}=={library.tested}' in output


def test_check_task_warns_once_of_untested_versions(check_task):
    status, output = check_task(
        {**TESTED, 'torch': '2.16.0', 'onedl-mmdetection': '4.0', 'numpy': '2.99'}
    )
    assert status == 0
    assert len(output.splitlines()) == 1
    assert 'torch 2.16.0' in output and 'onedl-mmdetection 4.0' in output and 'numpy' not in output


@pytest.mark.parametrize('version', ['2.10', '2.10.0+cpu', '2.11.0', '2.15.1+cu132'])
def test_check_task_compares_release_numbers(check_task, version):
    assert check_task({**TESTED, 'torch': version}) == (0, '')


@pytest.mark.parametrize(
    'versions, removed',
    [
        ({**without('onedl-mmcv'), 'mmcv': '2.2.0'}, 'mmcv'),
        ({**TESTED, 'mmcv': LIBRARIES['mmcv'].tested}, 'onedl-mmcv mmcv'),
        ({**TESTED, 'mmcv-full': '1.7.2'}, 'onedl-mmcv mmcv-full'),
    ],
)
def test_check_task_rejects_original_mmcv(check_task, versions, removed):
    status, output = check_task(versions)
    assert status == 1
    assert (
        f'pip uninstall -y {removed} && pip install --no-cache-dir --find-links dist onedl-mmcv=='
        in output
    )


@pytest.mark.parametrize(
    'transformers, scope, refused',
    [('5.24.0', 'mmpretrain', True), ('4.57.6', 'mmpretrain', False), ('5.24.0', 'mmdet', False)],
)
def test_check_task_rejects_transformers_5_beside_mmpretrain(
    check_task, transformers, scope, refused
):
    status, output = check_task({**TESTED, 'transformers': transformers}, scope)
    assert (status == 1) is refused
    assert (
        f"beside transformers {transformers}\n    fix it with: pip install 'transformers<5'"
        in output
    ) is refused


@pytest.mark.parametrize(
    'scope, refused', [('mmdet', True), ('mmseg', False), ('mmflatten', False)]
)
def test_check_task_requires_only_libraries_of_the_task(check_task, scope, refused):
    status, output = check_task(without('onedl-mmdetection'), scope)
    assert (status == 1) is refused and ('pip install onedl-mmdetection==' in output) is refused


@pytest.mark.parametrize(
    'torch, needs, refused',
    [
        ('2.15.0+cu132', 'torch==2.15.0', False),
        ('2.14.1', 'torch==2.15.0', True),
        ('2.15.0', 'torch (>=2.14.0)', False),
        ('2.13.0', 'torch (>=2.14.0)', True),
    ],
)
def test_check_task_rejects_torchvision_for_another_torch(check_task, torch, needs, refused):
    status, output = check_task({**TESTED, 'torch': torch}, torchvision_needs=needs)
    assert (status == 1) is refused and ('torch==2.15.0 torchvision==0.29.2' in output) is refused


def test_check_task_accepts_a_checkout_without_metadata(check_task, tmp_path):
    (tmp_path / 'einops').mkdir()
    (tmp_path / 'einops' / '__init__.py').touch()
    assert check_task(without('einops')) == (0, '')
