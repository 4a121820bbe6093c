"""Messages of own errors, the lab's included, do not begin with the name of a Python class."""

from pathlib import Path

from mmflatten.console import is_ours
from mmflatten_lab.commands.study import main


def test_error_of_the_lab_is_shown_as_it_is(tmp_path, capsys):
    study = Path(tmp_path, 'study.yaml')
    study.write_text('epochs: 3\n')
    assert main([str(study), '--dry-run']) == 1
    assert not capsys.readouterr().err.splitlines()[-1].startswith('StudyError')


def test_errors_of_other_packages_are_not_ours():
    kind = type('Other', (ValueError,), {'__module__': 'mmflattened.errors'})
    assert not is_ours(kind())
