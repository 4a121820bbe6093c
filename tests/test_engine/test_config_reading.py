"""Errors in config files name the file, also an inherited one, and the reason."""

import os
from argparse import ArgumentParser

import pytest

from mmflatten.cli.common import add_config_options
from mmflatten.config import ConfigError, option_value, read_config


def refused(path) -> str:
    with pytest.raises((ConfigError, FileNotFoundError)) as raised:
        read_config(str(path))
    return str(raised.value)


def test_missing_config_error_lists_existing_ones(tmp_path):
    family = tmp_path / 'family'
    family.mkdir()
    for name in ('mask-rcnn_small_coco.py', 'small_in1k.py'):
        (family / name).write_text('a = 1\n')
    assert f'{tmp_path} is a folder' in refused(tmp_path)
    line = refused(family / 'mask_rcnn_small_coco.py')
    assert f'config {family}/mask_rcnn_small_coco.py' in line and 'mask-rcnn_small_coco.py' in line
    assert f'{tmp_path}/famly' in refused(tmp_path / 'famly' / 'x.py')


def test_config_that_is_no_file_is_named(tmp_path):
    os.mkfifo(tmp_path / 'pipe.py')
    (tmp_path / 'device.py').symlink_to('/dev/zero')
    (tmp_path / 'loop.py').symlink_to('loop.py')
    (tmp_path / 'broken.py').symlink_to('gone.py')
    assert f'config {tmp_path}/pipe.py is a pipe' in refused(tmp_path / 'pipe.py')
    assert f'config {tmp_path}/device.py is a device' in refused(tmp_path / 'device.py')
    assert 'symbolic links' in refused(tmp_path / 'loop.py')
    assert 'missing file' in refused(tmp_path / 'broken.py')


@pytest.mark.parametrize('word', ['flatten-swin-nano_digit', 'flatten-swin-nano_digit.py'])
def test_name_without_folder_is_searched_in_package_and_working_directory(
    word, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'odd.py').write_text('a = 1\n')
    line = refused(word)
    assert 'flatten-swin-nano_digits' in line
    assert '`mmflatten models`' in line
    assert 'odd.py' not in line
    (tmp_path / 'my-flatten-swin-nano_digit.py').write_text('a = 1\n')
    assert 'my-flatten-swin-nano_digit.py, ' in refused(word)
    assert 'odd.py' in refused('od.py')


@pytest.mark.parametrize(
    'name, text, words',
    [
        ('a.md', '# Title', ['a.md', 'py']),
        ('a.json', '{"a": 1', ['a.json', 'line 1 column 8']),
        ('a.yml', 'a: [1,\n', ['a.yml', 'ParserError']),
        ('a.py', "a = 1\nmodel = dict(type='x'\nb = 2\n", ['a.py', 'line 2']),
        ('a.py', 'a = 1\nb = unknown\n', ['a.py, line 2', 'unknown']),
        ('a.py', "_base_ = ['gone.py']\n", ['a.py', 'gone.py']),
        ('a.py', "_base_ = ['b.json']\n", ['b.json', 'line 1 column 2']),
        ('a.py', "_base_ = 'child.py'\n", ['broken.py, line 1', 'unknown']),
        (
            'a.py',
            (
                'import os\nfrom pathlib import Path\nimport torch\nwith open("x") as file:\n   '
                ' pass\n'
            ),
            ['a.py'],
        ),
    ],
)
def test_unreadable_config_error_names_file_and_reason(tmp_path, name, text, words):
    (tmp_path / 'b.json').write_text('[')
    (tmp_path / 'child.py').write_text("_base_ = 'broken.py'\n")
    (tmp_path / 'broken.py').write_text('a = unknown\n')
    (tmp_path / name).write_text(text)
    message = refused(tmp_path / name)
    assert str(tmp_path) in message and all(word in message for word in words), message


@pytest.mark.parametrize(
    'text, value',
    [
        ("{'type':'BN','eps':1e-3}", {'type': 'BN', 'eps': 1e-3}),
        ('{}', {}),
        ("[{'type': 'BN'}, 2]", [{'type': 'BN'}, 2]),
        ("{'a': {'b': (1, 2)}}", {'a': {'b': (1, 2)}}),
        ('dict(type=1)', None),
        ("{'type': BN}", None),
        ("{'type'", None),
    ],
)
def test_dictionaries_in_options(text, value, capsys):
    parser = ArgumentParser()
    add_config_options(parser, 'a=1')
    words = ['--cfg-options', 'a.first=1', f'a.norm_cfg={text}', 'a.last=x']
    if value is not None:
        assert parser.parse_args(words).cfg_options == {
            'a.first': 1,
            'a.norm_cfg': value,
            'a.last': 'x',
        }
        return
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert 'a.norm_cfg: expected a dictionary' in capsys.readouterr().err


@pytest.mark.parametrize(
    'text, value',
    [
        ('/my data/a.pth', '/my data/a.pth'),
        ("['traffic light','car']", ['traffic light', 'car']),
        ('[traffic light, car]', ['traffic light', 'car']),
        ('(traffic light, car)', ('traffic light', 'car')),
        ("'a, b.pth'", 'a, b.pth'),
        ('a b,c d', ['a b', 'c d']),
        ("car, 'traffic, light'", ['car', 'traffic, light']),
        ("it's one,two", ["it's one", 'two']),
        ('/data/run (1)/a{0}.pth', '/data/run (1)/a{0}.pth'),
        ('1', 1),
        ('08', 8),
        ('1e-3', 1e-3),
        ('inf', float('inf')),
        ('true', True),
        ('None', None),
        ('1,2', [1, 2]),
        ('(1, 2)', (1, 2)),
        ('[(a, 1), (b c, 2.5)]', [('a', 1), ('b c', 2.5)]),
        ('[]', []),
        ('', ''),
        ('SS', 'SS'),
    ],
)
def test_option_values_keep_their_blanks(text, value):
    found = option_value(text)
    assert found == value and type(found) is type(value)


def test_brackets_that_do_not_match_are_named():
    with pytest.raises(ValueError, match='brackets'):
        option_value('[(a, b, c]')


def test_configs_that_inherit_from_each_other_are_named(tmp_path):
    for name, base in (('a', 'b'), ('b', 'folder/../a')):
        (tmp_path / f'{name}.py').write_text(f"_base_ = ['{base}.py']\n")
    (tmp_path / 'folder').mkdir()
    with pytest.raises(ConfigError, match='config .*a.py: _base_: .*a.py -> .*b.py -> .*a.py'):
        read_config(str(tmp_path / 'a.py'))
