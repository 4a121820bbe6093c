"""Text of unknown origin on the terminal: whoever prints it, it does not move the cursor."""

import io
import logging
import os
import subprocess
import sys

import pytest

from mmflatten.console import ERROR_FOLDER_VARIABLE, MESSAGE, command_line, print_progress
from mmflatten.text import Escaped, figure_text

STEERING = '\x1b[2J\x07\x08\x9b31m\r\u202e\u2066\x7f\ud800'


@pytest.mark.parametrize(
    'prints',
    [
        lambda: print('name', STEERING),
        lambda: print_progress(STEERING),
        lambda: sys.stderr.writelines([STEERING]),
        lambda: logging.StreamHandler().handle(logging.makeLogRecord(dict(msg=STEERING))),
        lambda: int(STEERING),
        lambda: {}[STEERING],
        lambda: open(STEERING.replace('\ud800', '')),
    ],
)
def test_no_text_steers_the_terminal(capsys, prints):
    main = command_line(lambda argv: prints())
    main([])
    printed = ''.join(capsys.readouterr())
    assert '2J' in printed and all(char.isprintable() or char in '\n\t' for char in printed)


@pytest.mark.parametrize('lines', [1, 10_000])
def test_command_whose_output_is_not_read_ends_without_a_message(lines):
    code = f"""
from mmflatten.console import command_line
def main(argv):
    for number in range({lines}):
        print(number)
raise SystemExit(command_line(main)([]))
"""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, '-c', code], stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, '')


def test_options_that_are_wrong_and_messages_for_the_launcher_are_escaped(
    capsys, tmp_path, monkeypatch
):
    from mmflatten.cli.main import main

    with pytest.raises(SystemExit):
        main(['report', 'x', '--wrong\x1b[2J'])
    assert main(['report', str(tmp_path / '\x1b[2J')]) == 1
    assert '\x1b' not in ''.join(capsys.readouterr())
    monkeypatch.setenv(ERROR_FOLDER_VARIABLE, str(tmp_path))
    command_line(lambda argv: open('\x1b[2J'))([])
    (note,) = tmp_path.iterdir()
    assert '2J' in note.read_text() and '\x1b' not in note.read_text()


def test_warnings_are_escaped_and_loggers_of_openmmlab_have_no_colours():
    code = (
        'import warnings\n'
        'from mmflatten.console import command_line\n'
        'def main(argv):\n'
        '    warnings.warn("steering \\x1b[2J \\ud800")\n'
        '    from mmengine.logging import MMLogger\n'
        '    MMLogger.get_instance("a").warning("news")\n'
        'command_line(main)([])'
    )
    ended = subprocess.run(
        [sys.executable, '-c', code],
        capture_output=True,
        check=True,
        env={**os.environ, 'FORCE_COLOR': '1'},
    )
    assert b'WARNING - news' in ended.stdout
    assert b'\\x1b' not in ended.stdout
    assert b'\x1b' not in ended.stdout
    assert rb'steering \x1b[2J \ud800' in ended.stderr


def test_lines_tabs_and_progress_bars_are_kept():
    stream = io.StringIO()
    bar = Escaped(Escaped(stream))
    for text in ('a\tb\n', '\r[>> ] 1/2', 'c\rd', 'Tiếng Việt', '👩\u200d🚀'):
        assert bar.write(text) == len(text)
    assert stream.getvalue() == 'a\tb\n\r[>> ] 1/2c\\rdTiếng Việt👩\u200d🚀'


def test_long_messages_are_cut_and_lines_of_results_are_not(capsys):
    def main(argv):
        print('y' * 10**5)
        raise ValueError('x' * 10**7)

    assert command_line(main)([]) == 1
    printed = capsys.readouterr()
    assert len(printed.out) == 10**5 + 1 and MESSAGE <= len(printed.err) < 2 * MESSAGE


def test_decoders_are_silent_and_a_command_still_prints(capfdbinary):
    code = (
        'import os, sys\n'
        'from mmflatten.console import command_line, quiet_decoders\n'
        'def main(argv):\n'
        '    with quiet_decoders():\n'
        '        os.write(2, b"libpng error")\n'
        '        print("seen\\x1b", file=sys.stderr)\n'
        'command_line(main)([])'
    )
    subprocess.run([sys.executable, '-c', code], check=True)
    assert capfdbinary.readouterr().err == b'seen\\x1b\n'


def test_figures_draw_names_as_they_are():
    assert figure_text('US$ 5 or $10^') == r'US\$ 5 or \$10^'
    assert figure_text('\x1b') == r'\x1b' and len(figure_text('x' * 10**6)) == 40
