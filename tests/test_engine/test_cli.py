"""How a tool ends: exit status, last line, what it leaves for the launcher."""
import json

import pytest
from mmengine.registry import Registry

from mmflatten.engine.build_failures import accepted_arguments
from mmflatten.engine.cli import ERROR_FILE_VARIABLE, command_line, tool_parser
from mmflatten.engine.errors import explain


def ending_with(error):
    @command_line
    def main(argv):
        raise error

    return main


def caught(function, *arguments, **keywords) -> Exception:
    with pytest.raises(Exception) as raised:
        function(*arguments, **keywords)
    return raised.value


@pytest.mark.parametrize('error, status, line', [
    (KeyboardInterrupt(), 130, 'interrupted'),
    (PermissionError(13, 'Permission denied', '/some/file'), 1, '/some/file: Permission denied'),
    (FileExistsError(17, 'File exists', 'run'), 1, 'run is a file where a folder is to be made'),
    (RuntimeError('error:\n  something\n'), 1, 'RuntimeError: error: something (tests/test_engine/test_cli.py:'),
    (RuntimeError('DataLoader worker (pid 7) is killed by signal: Killed. '), 1, 'a data-loading process died'),
    (ModuleNotFoundError("No module named 'mmdet'", name='mmdet'), 1, "No module named 'mmdet'; install mmdet"),
])
def test_failure_gives_a_status_and_one_last_line(capsys, error, status, line):
    assert ending_with(error)([]) == status
    assert capsys.readouterr().err.splitlines()[-1].startswith(line)


def test_success_is_status_zero_and_a_returned_status_is_kept():
    assert command_line(lambda argv: None)([]) == 0
    assert command_line(lambda argv: 3)([]) == 3


def test_parser_errors_keep_their_status(capsys):
    @command_line
    def main(argv):
        tool_parser('Does a thing.').parse_args(argv)

    with pytest.raises(SystemExit) as stop:
        main(['--wrong'])
    assert stop.value.code == 2


def test_traceback_is_shown_on_request(capsys, monkeypatch):
    monkeypatch.setenv('MMFLATTEN_TRACEBACK', '1')
    ending_with(ZeroDivisionError('division by zero'))([])
    assert 'Traceback (most recent call last)' in capsys.readouterr().err


def test_first_failing_process_leaves_its_message_for_the_launcher(tmp_path, monkeypatch):
    note = tmp_path / 'note'
    note.touch()
    monkeypatch.setenv(ERROR_FILE_VARIABLE, str(note))
    monkeypatch.setenv('WORLD_SIZE', '2')
    for rank, text in (('1', 'first'), ('0', 'second')):
        monkeypatch.setenv('RANK', rank)
        ending_with(ModuleNotFoundError(text))([])
    assert note.read_text().startswith('rank 1: ') and 'first' in note.read_text()


def test_gpu_out_of_memory_says_what_to_lower():
    class OutOfMemoryError(RuntimeError):
        """Stands in for PyTorch's, which is recognised by its name."""

    message = explain(OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...'))
    assert 'CUDA out of memory' in message and 'batch_size' in message and '--amp' in message


def test_file_that_is_not_json_is_found_in_the_frames(tmp_path):
    path = tmp_path / 'a.json'
    path.write_text('{')

    def load(annotation_file):
        with open(annotation_file) as file:
            json.load(file)

    assert f'annotation file {path} is not JSON' in explain(caught(load, str(path)))


def test_annotations_that_only_a_metric_misses_name_its_field(tmp_path):
    class SomeMetric:
        def __init__(self, ann_file):
            open(ann_file)

    missing = tmp_path / 'digits' / 'instances_val.json'
    assert explain(caught(SomeMetric, missing)).startswith(
        f'{missing} does not exist, and the metric reads it by itself: set val_evaluator.ann_file')


class Parent:
    def __init__(self, width, depth=1):
        self.size = width, depth


class Child(Parent):
    def __init__(self, height, **kwargs):
        super().__init__(**kwargs)
        self.height = height


@pytest.fixture
def registry():
    registry = Registry('shape', scope='test_cli')
    registry.register_module(module=Child)
    return registry


def test_arguments_of_parents_are_listed_where_they_are_passed_on():
    assert accepted_arguments(Child) == ['height', 'width', 'depth']


def test_unknown_and_missing_arguments_name_the_class(registry):
    unknown = explain(caught(registry.build, dict(type='Child', height=1, widht=2)))
    assert "unknown argument 'widht' for Child" in unknown and "did you mean 'width'" in unknown
    missing = explain(caught(registry.build, dict(type='Child', height=1)))
    assert "also needs 'width'; it was given: height" in missing


def test_unknown_type_suggests_a_known_one(registry):
    assert "did you mean 'Child'" in explain(caught(registry.build, dict(type='Chlid')))


def test_wrapped_errors_are_peeled_to_the_cause():
    def wrap():
        try:
            raise ValueError('embed_dims (100) must be divisible')
        except ValueError as error:
            raise ValueError(f'class `X` in y.py: {error}') from error

    assert explain(caught(wrap)).startswith('ValueError: embed_dims (100) must be divisible (')
