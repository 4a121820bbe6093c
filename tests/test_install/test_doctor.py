"""Report of `mmflatten doctor` on a working and on a broken installation."""

from mmflatten.cli import doctor
from mmflatten.requirements import LIBRARIES


def test_working_installation_passes(monkeypatch, capsys):
    """Of the libraries mmcv alone is tried in a process; this one has imported the others."""
    in_a_process = doctor._run
    monkeypatch.setattr(
        doctor,
        '_run',
        lambda code: (
            in_a_process(code)
            if 'mmcv.ops' in code or 'gpu_problem' in code
            else (False, 'imports')
        ),
    )
    status, output = doctor.main([]), capsys.readouterr().out
    assert status == 0, output
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.startswith('  ')}
    assert all(rows[name][1:3] == [library.tested, 'ok'] for name, library in LIBRARIES.items())
    assert len(output.splitlines()) <= 40
    lines = output.splitlines()
    headings = [number for number, line in enumerate(lines) if line.endswith(':')]
    assert all(lines[number + 1].startswith('  - ') for number in headings)  # none without an item


def test_doctor_lists_broken_libraries_with_fixes(run_python, distribution, tmp_path):
    distribution('einops', '0.3.0')
    for name, code in {
        'torch': 'import os; os.abort()',
        'mmdet': 'import a_library_that_is_nowhere',
        'mmcv': "raise ImportError('undefined symbol: x\\n\\nframe #0: main')",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / '__init__.py').write_text(code)
    status, output = run_python('-m', 'mmflatten', 'doctor')
    assert status == 1 and 'Traceback' not in output
    for text in (
        'status -6',
        'pip install --force-reinstall torch==',
        'einops 0.3.0',
        'pip install einops==',
        'ImportError: undefined symbol: x',
        '--no-cache-dir --force-reinstall --no-deps onedl-mmcv==',
        "No module named 'a_library_that_is_nowhere'",
        'pip install onedl-mmdetection==',
    ):
        assert text in output, text
