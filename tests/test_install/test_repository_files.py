"""Size and contents of the committed files."""
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_tracked_files_are_small_and_name_no_home_folder():
    home = re.compile(rb'/(home|Users|root)/\w')
    listing = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip('not a git checkout, so the committed files are unknown')
    files = [ROOT / name for name in listing.stdout.split('\0') if name and (ROOT / name).is_file()]
    assert ROOT / 'pyproject.toml' in files
    assert [str(path) for path in files if path.stat().st_size > 1_000_000 or home.search(path.read_bytes())] == []
