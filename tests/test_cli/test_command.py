"""The `mmflatten` command: help, version and errors."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from mmflatten.cli import main as command
from mmflatten.version import __version__


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, '-m', 'mmflatten', *arguments], capture_output=True, text=True, timeout=120
    )


def test_help_is_one_screen_and_needs_no_torch():
    result = run('--help')
    assert result.returncode == 0 and len(result.stdout.splitlines()) <= 44
    assert all(name in result.stdout for name in command.COMMANDS)
    probe = 'import sys, mmflatten.cli.main as m; m.parser(); sys.exit("torch" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', probe], timeout=60).returncode == 0


@pytest.mark.parametrize(
    'words, status',
    [
        (['models', 'l2vit-t*'], 0),
        (['train', '--help'], 0),
        (['train', 'no-such-config'], 1),
        (['test', 'no-such-config', 'epoch_1.pth'], 1),
    ],
)
def test_command_without_a_model_needs_no_torch(words, status):
    probe = (
        'import sys\nfrom mmflatten.cli.main import main\ntry:\n    sys.exit(main(sys.argv[1:]))\n'
        'finally:\n    print("torch" in sys.modules)'
    )
    ended = subprocess.run(
        [sys.executable, '-c', probe, *words], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == status and ended.stdout.splitlines()[-1] == 'False'


@pytest.mark.parametrize('name', [*command.COMMANDS, *command.LAB])
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([name, '--help'])
    assert stop.value.code == 0 and capsys.readouterr().out.startswith(f'usage: mmflatten {name}')


@pytest.mark.parametrize('alias, name', command.ALIASES.items())
def test_command_has_the_name_of_its_script(alias, name, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([alias, '--help'])
    assert stop.value.code == 0 and capsys.readouterr().out.startswith(f'usage: mmflatten {name}')
    scripts = Path(__file__).parents[2] / 'tools'
    assert [*scripts.rglob(f'{alias.replace("-", "_")}.py')]


def test_package_adds_a_command_and_cannot_replace_one(tmp_path):
    """An entry point of the group `mmflatten.commands`, as `lab/README.md` describes it."""
    (tmp_path / 'speckle.py').write_text(
        dedent("""
        from mmflatten.cli.common import command

        def options(parser):
            parser.add_argument('number', type=int)

        @command('speckle', 'Count speckles.', options)
        def main(args):
            print(args.number + 1)
        """)
    )
    info = tmp_path / 'speckle-1.0.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: speckle\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text(
        '[mmflatten.commands]\nspeckle = speckle:main\ntrain = speckle:main\n'
    )
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(tmp_path), *sys.path])}

    def output(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, '-m', 'mmflatten', *arguments],
            env=environment,
            text=True,
            capture_output=True,
            timeout=120,
            check=True,
        ).stdout

    assert output('speckle', '6') == '7\n'
    assert 'usage: mmflatten speckle' in output('speckle', '--help')
    assert 'usage: mmflatten train' in output('train', '--help')
    assert 'of speckle' in output('--help')


@pytest.mark.parametrize('name', command.LAB)
def test_command_of_the_lab_without_the_lab_says_how_to_install_it(name, capsys, monkeypatch):
    monkeypatch.setattr(command, 'entry_points', lambda group: ())
    assert command.main([name, '--help']) == 1
    assert command.INSTALL_LAB in capsys.readouterr().err.splitlines()[-1]
    with pytest.raises(SystemExit):
        command.main(['--help'])
    assert command.INSTALL_LAB in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(['--version'])
    assert stop.value.code == 0 and capsys.readouterr().out.strip() == __version__


def test_unknown_command_error_names_the_nearest(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(['trian'])
    line = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2 and 'trian' in line and 'train?' in line
    assert command.main([]) == 2


def test_unknown_model_error_names_similar_ones(capsys):
    assert command.main(['models', 'maskrcnn']) == 1
    assert 'mask-rcnn_' in capsys.readouterr().err.splitlines()[-1]


def test_folder_option_rejects_the_name_of_a_file(capsys):
    with pytest.raises(SystemExit):
        command.main(['analyze', 'results.pkl', '--out', 'page.png'])
    line = capsys.readouterr().err.splitlines()[-1]
    assert '--out' in line and 'folder' in line and 'page.png' in line


def test_terminal_shows_a_line_while_libraries_load():
    code = (
        "import pty, sys; sys.exit(pty.spawn([sys.executable, '-m', 'mmflatten', 'models', 'no*'])"
        ' > 255)'
    )
    shown = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, timeout=120
    ).stdout
    assert 'mmflatten models: loading libraries' in shown.splitlines()[0]


@pytest.mark.parametrize(
    'script', ['tools/train.py', 'tools/test.py', 'tools/analysis/get_flops.py']
)
def test_script_of_a_checkout_says_its_own_name(script):
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, script, '--help'], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert result.stdout.startswith(f'usage: {script} ')
