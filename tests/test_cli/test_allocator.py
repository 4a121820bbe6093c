"""Memory that is freed and used again: pages that the system must make anew."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
# Four blocks of 8 MiB, ten times: 80,000 pages if each block is new.
FAULTS = """
import resource

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def use():
    blocks = [bytearray(2**23) for _ in range(4)]
    for block in blocks:
        block[::4096] = bytes(len(block[::4096]))

use()
before = faults()
for _ in range(10):
    use()
print(faults() - before)
"""
# A command reads a config, which is a program.
COMMAND = [sys.executable, '-m', 'mmflatten', 'check']
# The frame of every command, without its libraries.
FRAME = """
from mmflatten.console import command_line
command_line(lambda argv: exec({code!r}, {{}}))([])
"""


def new_pages(words: list[str], **settings: str) -> int:
    environment = {'PATH': '', 'PYTHONPATH': str(REPOSITORY), 'HOME': '/nonexistent', **settings}
    done = subprocess.run(words, env=environment, cwd=REPOSITORY, capture_output=True, text=True)
    return int(done.stdout.split()[0])


@pytest.mark.skipif(sys.platform != 'linux', reason='the GNU C library')
def test_commands_use_freed_memory_again(tmp_path):
    config = tmp_path / 'config.py'
    config.write_text(FAULTS)
    assert new_pages([sys.executable, str(config)]) > 10_000
    assert new_pages([*COMMAND, str(config)]) < 10_000
    frame = [sys.executable, '-c', FRAME.format(code=FAULTS)]
    assert new_pages(frame) < 10_000
    assert new_pages(frame, MALLOC_TRIM_THRESHOLD_='131072') > 10_000
