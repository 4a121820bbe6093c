"""With the network cut, commands run and no library tries to reach it."""
import json
import os
import subprocess
import sys
from pathlib import Path

ISOLATED = Path(__file__).parent / 'isolated'
ROOT = Path(__file__).resolve().parents[2]


def run_without_network(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess, list[str]]:
    """Run Python and return the attempts of it and its children to reach the network."""
    log = folder / 'attempts.txt'
    log.touch()
    variables = {**os.environ, 'PYTHONPATH': f'{ISOLATED}{os.pathsep}{ROOT}', 'NETWORK_LOG': str(log),
                 'HOME': str(folder), 'OMP_NUM_THREADS': '1'}
    for name in ('CI', 'DO_NOT_TRACK', 'GRADIO_ANALYTICS_ENABLED', 'HF_HUB_DISABLE_TELEMETRY',
                 'RAY_USAGE_STATS_ENABLED'):
        variables.pop(name, None)
    done = subprocess.run([sys.executable, *arguments], env=variables, cwd=folder, text=True, capture_output=True)
    return done, log.read_text().splitlines()


def test_attempts_of_child_processes_are_recorded(tmp_path):
    child = "import urllib.request; urllib.request.urlopen('http://example.org')"
    done, attempts = run_without_network(tmp_path, '-c', f'import subprocess, sys\n'
                                         f'sys.exit(subprocess.run([sys.executable, "-c", {child!r}]).returncode)')
    assert done.returncode == 1 and len(attempts) == 1 and 'example.org' in attempts[0]


def test_commands_do_not_try_to_reach_the_network(tmp_path):
    done, attempts = run_without_network(tmp_path, str(ISOLATED / 'network.py'))
    assert done.returncode == 0, done.stderr
    assert attempts == []
    assert json.loads(done.stdout.splitlines()[-1]) == dict(gradio=False, ray=False, hub=False)
