"""Public names are those of `docs/public_names.txt`, and renamed ones work with a warning."""

import difflib

import public_names
import pytest

from mmflatten import apis
from mmflatten.cli import main as command
from mmflatten.config import config_file
from mmflatten.deprecation import RENAMED, Renamed
from mmflatten.registry import HOOKS, MODELS

NAME = 'flatten-swin-nano_digits'


@pytest.fixture
def rename(monkeypatch):
    def add(kind: str, old: str, new: str) -> None:
        monkeypatch.setitem(RENAMED[kind], old, Renamed(new, until='99.1.0'))

    return add


def test_public_names_are_those_of_the_committed_file():
    committed = public_names.FILE.read_text(encoding='utf-8').splitlines()
    changes = difflib.unified_diff(
        committed, public_names.public_names().splitlines(), 'committed', 'code', n=0, lineterm=''
    )
    assert list(changes) == [], 'run: python tools/maintain/public_names.py'


def test_lists_of_every_kind_hold_known_names():
    lines = public_names.FILE.read_text(encoding='utf-8').splitlines()
    assert {NAME, 'flatten_swin_tiny', 'mmflatten.mixers', 'get-flops = flops'} <= set(lines)
    starts = ('train --traceback CONFIG --work-dir', 'get_model(name, pretrained, options)')
    starts += ('MODELS FLattenSwin(arch, attn_types', 'FLattenSwin stages.#.blocks.#.attn')
    starts += ('mmflatten.ops.linear_attention(q_BhNd', 'METRICS PanopticMetric')
    missing = []
    for start in starts:
        if not any(line.startswith(start) for line in lines):
            missing.append(start)
    assert missing == []


@pytest.mark.parametrize('scope', ['', 'mmflatten.'])
def test_old_class_name_gives_the_new_class(rename, scope):
    rename('class', 'OldSwin', 'FLattenSwin')
    rename('class', 'OldHook', 'FiniteLossHook')
    with pytest.warns(FutureWarning, match='class OldSwin.*FLattenSwin.*99.1.0'):
        assert MODELS.get(f'{scope}OldSwin') is MODELS.get('FLattenSwin')
    with pytest.warns(FutureWarning, match='OldHook'):
        hook = HOOKS.build(dict(type=f'{scope}OldHook'))
    assert type(hook) is HOOKS.get('FiniteLossHook')


def test_old_class_name_imports_the_module_of_the_new_one(rename):
    rename('class', 'OldBiFPN', 'BiFPN')
    with pytest.warns(FutureWarning, match='BiFPN'):
        assert MODELS.get('OldBiFPN') is MODELS.get('BiFPN') is not None


@pytest.mark.parametrize('old', ['old-name', 'old-name.py', 'configs/digits/old-name.py'])
def test_old_config_name_finds_the_new_file(rename, old):
    rename('config', 'old-name', NAME)
    with pytest.warns(FutureWarning, match=f'config old-name.*{NAME}'):
        assert config_file(old) == config_file(NAME)


def test_old_command_and_option_run_the_new_ones(rename, capsys):
    rename('command', 'names', 'models')
    rename('option', 'models --about', '--task')
    with pytest.warns(FutureWarning) as warned:
        status = command.main(['names', NAME, '--about=classification'])
    assert status == 0 and NAME in capsys.readouterr().out
    messages = [str(warning.message) for warning in warned]
    assert any('command names: renamed to models' in message for message in messages)
    assert any('option models --about: renamed to --task' in message for message in messages)


def test_old_function_of_apis_is_the_new_one(rename):
    rename('function', 'build', 'get_model')
    with pytest.warns(FutureWarning, match='function build.*get_model'):
        assert apis.build is apis.get_model
    with pytest.raises(AttributeError, match='no_such_name'):
        _ = apis.no_such_name


def test_ended_names_are_found(rename):
    rename('config', 'old-name', NAME)
    assert public_names.ended_names('99.0.7') == []
    assert public_names.ended_names('99.1.0') == public_names.ended_names('100.0') != []
