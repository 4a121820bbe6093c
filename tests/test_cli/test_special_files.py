"""Pipes, devices and links that lead nowhere, as files and folders of a command line."""

import os
from pathlib import Path

import pytest

from mmflatten.cli.main import main

DETECTOR = str(
    Path(__file__).parents[2] / 'configs' / 'digits' / 'retinanet_flatten-swin-nano_fpn_digits.py'
)
COMMANDS = [
    'check SPECIAL',
    'train SPECIAL',
    'train CONFIG --work-dir SPECIAL',
    'test CONFIG weights.pth --work-dir SPECIAL',
    'test CONFIG weights.pth --show-dir SPECIAL/deeper',
    'convert SPECIAL out.pth',
    'export CONFIG SPECIAL',
    'init --task det --images SPECIAL --ann SPECIAL --base CONFIG --out mine.py',
    'init --task det --images SPECIAL --ann SPECIAL --base SPECIAL --out mine.py',
    'data index SPECIAL --out one.index',
    'report SPECIAL',
    'analyze SPECIAL',
    'analyze results.pkl --out SPECIAL',
]


@pytest.fixture(params=['a pipe', 'a device', 'missing file', 'symbolic links'])
def special(request, tmp_path, monkeypatch) -> str:
    """What a path is, as a message names it; the path is `special`."""
    monkeypatch.chdir(tmp_path)
    path = Path('special')
    match request.param:
        case 'a pipe':
            os.mkfifo(path)
        case 'a device':
            path.symlink_to('/dev/zero')
        case 'missing file':
            path.symlink_to('gone')
        case 'symbolic links':
            path.symlink_to('special')
    return request.param


@pytest.mark.parametrize('command', COMMANDS)
def test_what_a_path_is_stands_in_the_last_line(command, special, capfd):
    words = command.replace('SPECIAL', 'special').replace('CONFIG', DETECTOR).split()
    try:
        status = main(words)
    except SystemExit as error:  # of the parser
        status = error.code
    assert status in (1, 2)
    last = capfd.readouterr().err.splitlines()[-1]
    assert 'special' in last and special in last
    assert os.listdir() == ['special']
