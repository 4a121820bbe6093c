"""Make the virtual environment and install everything pinned:
`python requirements/install.py [VENV]`.

uv is several times faster than pip and skips what is installed, so an interrupted set-up continues
at the next call. Of pip's settings it is given the index and the certificate.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = 'uv==0.13.9'
LISTS = ('runtime', 'mmcv', 'cls', 'det', 'seg', 'analyze', 'export', 'hub', 'docs', 'tests')
LAB = './lab[app,cluster]'
# Variables of the caller that would install packages elsewhere or take others for installed.
FOREIGN = (
    'PIP_USER',
    'PIP_TARGET',
    'PIP_PREFIX',
    'PIP_ROOT',
    'PYTHONPATH',
    'PYTHONHOME',
    'UV_SYSTEM_PYTHON',
)
PIP_SETTINGS = {'index-url': 'UV_DEFAULT_INDEX', 'cert': 'SSL_CERT_FILE'}


def install(folder: Path) -> None:
    """Bring an environment to the pinned versions; one that does not work is made anew."""
    python = folder / ('Scripts' if os.name == 'nt' else 'bin') / 'python'
    variables = {key: value for key, value in os.environ.items() if key not in FOREIGN}

    def run(*command: str, **options: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [python, *command], env=variables, cwd=ROOT, check=True, text=True, **options
        )

    try:
        run('-m', 'pip', '--version', capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        if folder.exists() and any(folder.iterdir()) and not (folder / 'pyvenv.cfg').exists():
            raise SystemExit(
                f'{folder} is not a virtual environment. Remove it, or name another: VENV=.venv2'
            ) from None
        print(f'>> Making {folder.name}', flush=True)
        base = getattr(sys, '_base_executable', None) or sys.executable
        if subprocess.run([base, '-m', 'venv', '--clear', folder], env=variables).returncode:
            raise SystemExit(
                f'{base} cannot make a virtual environment. On Debian and Ubuntu: apt-get install '
                'python3-venv'
            ) from None
    run('-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', UV)
    lines = run('-m', 'pip', 'config', 'list', capture_output=True).stdout.splitlines()
    settings = dict(line.partition('=')[::2] for line in lines)
    for section in (':env:', 'install', 'global'):  # in pip's order of precedence
        for name, variable in PIP_SETTINGS.items():
            if value := settings.get(f'{section}.{name}'):
                variables.setdefault(variable, value.strip('\'"'))
    lists = [word for name in LISTS for word in ('-r', f'requirements/{name}.txt')]
    run(
        '-m',
        'uv',
        'pip',
        'install',
        '--python',
        str(python),
        '-c',
        'requirements/constraints.txt',
        '--override',
        'requirements/overrides.txt',
        *lists,
        './mmcv-torch-ops',
        '-e',
        '.',
        '-e',
        LAB,
    )
    run('-c', 'from mmflatten.requirements import gpu_problem; print(gpu_problem(), end="")')


if __name__ == '__main__':
    place = ROOT / (sys.argv[1] if len(sys.argv) > 1 else '.venv')
    if not place.exists() and shutil.disk_usage(ROOT).free < 9e9:
        print('>> Warning: the environment takes about 8 GB of disk', flush=True)
    try:
        install(place)
    except subprocess.CalledProcessError as error:
        sys.exit(
            f'>> Set-up failed (see above): {" ".join(map(str, error.cmd[1:6]))} ... The next call'
            ' continues.'
        )
