"""A file that is no config, or a part of one, is named with the reason and the mend."""
import pytest

from mmflatten.engine.config_files import ConfigError, read_config


def last_line(capsys) -> str:
    return capsys.readouterr().err.rstrip().splitlines()[-1]


def refused(path) -> str:
    with pytest.raises((ConfigError, FileNotFoundError)) as raised:
        read_config(str(path))
    return str(raised.value)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'family').mkdir()
    for name in ('mask-rcnn_small_coco.py', 'small_in1k.py'):
        (tmp_path / 'family' / name).write_text('a = 1\n')
    return tmp_path


def test_a_folder_is_told_from_a_file_that_does_not_exist(folder):
    assert refused(folder) == f'config {folder} is a folder; {folder} has family/'
    family = folder / 'family'
    assert refused(family) == f'config {family} is a folder; {family} has mask-rcnn_small_coco.py, small_in1k.py'
    (folder / 'empty').mkdir()
    assert refused(folder / 'empty').endswith('has no configs')


def test_a_name_nearly_right_is_suggested_from_the_folder_or_below_it(folder):
    right = folder / 'family' / 'mask-rcnn_small_coco.py'
    for wrong in (folder / 'mask-rcnn_smal_coco.py', folder / 'famly' / 'mask_rcnn_small_coco.py'):
        assert refused(wrong) == f'config {wrong} does not exist; did you mean {right}?'
    assert refused(folder / 'family' / 'x.py').endswith('family has mask-rcnn_small_coco.py, small_in1k.py')


@pytest.mark.parametrize('name, text, words', [
    ('a.md', '# Title', 'must be one of .py, .json, .yaml, .yml'),
    ('a.json', '{"a": 1', "a.json is not JSON: Expecting ',' delimiter: line 1 column 8"),
    ('a.yml', 'a: [1,\n', 'a.yml cannot be read: ParserError'),
    ('a.py', 'a = 1\nb = unknown\n', "a.py, line 2 cannot be read: NameError: name 'unknown' is not defined"),
    ('a.py', "_base_ = ['gone.py']\n", 'gone.py, which does not exist; mend its _base_'),
    ('a.py', "_base_ = ['b.json']\n", 'b.json is not JSON'),
    ('a.py', 'import os\nfrom pathlib import Path\nimport torch\nwith open("x") as file:\n    pass\n', 'a.py cannot'),
])
def test_the_file_and_the_reason_are_named(tmp_path, name, text, words):
    (tmp_path / 'b.json').write_text('[')
    (tmp_path / name).write_text(text)
    message = refused(tmp_path / name)
    assert words in message and str(tmp_path) in message, message


def test_a_tool_given_as_its_own_config_is_refused(tools, tiny, capsys):
    assert tools.train([__file__]) == 1
    line = last_line(capsys)
    assert line.startswith(f'config {__file__}, line ') and line.endswith('is it a config?')


def test_a_part_of_a_config_says_what_it_lacks(tools, tmp_path, capsys):
    part = tmp_path / 'part.py'
    part.write_text("model = dict(type='ImageClassifier')\ntrain_cfg = dict(by_epoch=True, max_epochs=1)\n")
    assert tools.train([part, '--work-dir', tmp_path]) == 1
    assert f'config {part} has no train_dataloader, optim_wrapper; a file of configs/_base_' in last_line(capsys)
    checkpoint = tmp_path / 'a.pth'
    checkpoint.write_bytes(b'\x80')
    assert tools.test([part, checkpoint, '--work-dir', tmp_path]) == 1
    assert f'config {part} has no test_dataloader, test_cfg, test_evaluator' in last_line(capsys)


@pytest.mark.parametrize('word', ['train_cfg.max_epochs', '=3'])
def test_an_option_without_a_key_or_a_value_is_an_error_of_the_command_line(tools, tiny, capsys, word):
    with pytest.raises(SystemExit) as stop:
        tools.train([tiny.config, '--cfg-options', 'a.b=1', word])
    assert stop.value.code == 2
    assert f"--cfg-options: '{word}' must be KEY=VALUE" in last_line(capsys)


@pytest.mark.parametrize('seed', ['-1', '4294967296', 'x'])
def test_a_seed_that_is_none_is_an_error_of_the_command_line(tools, tiny, capsys, seed):
    with pytest.raises(SystemExit) as stop:
        tools.train([tiny.config, '--seed', seed])
    assert stop.value.code == 2
    assert '--seed' in last_line(capsys)
