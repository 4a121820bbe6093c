"""What is committed stays small and names no machine."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked_files() -> list[Path]:
    """Files git tracks; in an unpacked archive without git, every file outside what is made here."""
    listing = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode == 0:
        return [ROOT / name for name in listing.stdout.split('\0') if name and (ROOT / name).is_file()]
    made = ('.', 'data', 'work_dirs', 'build', 'dist')
    return [path for path in ROOT.rglob('*') if path.is_file() and not path.relative_to(ROOT).parts[0].startswith(made)]


def test_no_tracked_file_exceeds_one_megabyte_or_names_a_home_folder():
    home = re.compile(rb'/(home|Users|root)/\w')
    files = tracked_files()
    assert ROOT / 'setup.py' in files
    assert [str(path) for path in files if path.stat().st_size > 1_000_000 or home.search(path.read_bytes())] == []
