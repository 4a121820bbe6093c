"""What is committed stays small, and the entry points can be executed."""
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_BYTES = 1_000_000


def tracked_files() -> list[Path]:
    """Files git tracks; in an unpacked archive without git, every file outside folders that start with a dot."""
    listing = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode == 0:
        return [ROOT / name for name in listing.stdout.split('\0') if name and (ROOT / name).is_file()]
    generated = ('data', 'work_dirs', 'build', 'dist')
    return [path for path in ROOT.rglob('*') if path.is_file()
            and not path.relative_to(ROOT).parts[0].startswith(('.', *generated))]


def test_no_tracked_file_exceeds_one_megabyte():
    files = tracked_files()
    assert ROOT / 'setup.py' in files
    assert [str(path) for path in files if path.stat().st_size > LIMIT_BYTES] == []


def test_ci_entry_point_runs_the_make_target_everyone_runs():
    script = ROOT / '.ci' / 'run'
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert lines[0] == '#!/usr/bin/env bash' and 'set -euo pipefail' in lines and lines[-1] == 'exec make test'
