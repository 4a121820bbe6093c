"""The command by which a reader repeats one cell of the third study."""

import re
import shlex
from pathlib import Path

from mmflatten_lab.commands import study as command

ROOT = Path(__file__).parents[3]
PAGE = ROOT / 'lab/docs/third_study.md'


def test_the_command_of_the_page_has_one_run_of_the_trained_length(monkeypatch, capsys):
    section = PAGE.read_text().partition('## Repeat one cell in ten minutes\n')[2]
    block = re.search(r'```shell\n(.*?)```', section, re.DOTALL)[1]
    lines = block.replace('\\\n', ' ').splitlines()
    (study,) = [shlex.split(line) for line in lines if line.startswith('mmflatten study')]
    monkeypatch.chdir(ROOT)
    assert command.main([*study[2:], '--dry-run']) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.startswith('recipe')]
    assert [row[1:3] for row in rows] == [['softmax', '1']]
    assert '1500' in rows[0] and '1 run,' in printed
