"""The guard against slower models, with invented ratios and tables."""

import time
from pathlib import Path
from types import ModuleType

import pytest
import torch
from speed_guard import (
    cpu_clock,
    median_ratios,
    processor_family,
    read_table,
    slower,
    write_table,
)

from mmflatten.measure.speed.models import RunSettings

TABLE = {'inference A': 1.0, 'inference B': 2.0, 'training A': 0.5}


@pytest.mark.parametrize(
    'measured, bad',
    [
        (TABLE, []),
        ({what: 5 * ratio for what, ratio in TABLE.items()}, []),
        (TABLE | {'inference B': 1.81}, []),
        (TABLE | {'inference B': 1.79}, ['inference B']),
        (TABLE | {'inference A': 0.8, 'training A': 0.4}, ['inference A', 'training A']),
        ({'inference A': 1.0, 'training A': 0.5}, ['inference B']),
        (TABLE | {'training B': 1.0}, []),
    ],
)
def test_slower_lists_lower_and_missing_ratios(measured: dict[str, float], bad: list[str]) -> None:
    assert slower(measured, TABLE) == bad


def test_write_table_replaces_only_the_rows_of_its_processor_family(tmp_path: Path) -> None:
    path = tmp_path / 'ratios.csv'
    assert read_table('one', path) == {}
    write_table('one', TABLE, path)
    write_table('other', {'inference A': 3.0}, path)
    write_table('one', {'inference A': 0.25}, path)
    assert read_table('one', path) == {'inference A': 0.25}
    assert read_table('other', path) == {'inference A': 3.0}
    assert read_table('third', path) == {}


def test_speed_guard_needs_a_table_writes_one_and_fails_for_lower_ratios(
    load_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    tool: ModuleType = load_tool('speed_guard')
    path, ratios, threads = tmp_path / 'ratios.csv', dict(TABLE), torch.get_num_threads()
    monkeypatch.setattr(tool, 'measure_ratios', lambda: ratios)
    monkeypatch.setattr(tool, 'read_table', lambda family: read_table(family, path))
    monkeypatch.setattr(tool, 'write_table', lambda family, found: write_table(family, found, path))
    assert tool.main([]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert processor_family() in last and '--write' in last
    assert tool.main(['--write']) == 0 and tool.main([]) == 0
    ratios['inference B'] = 1.0
    capsys.readouterr()
    assert tool.main([]) == 1
    assert [
        line.split()[:4] for line in capsys.readouterr().out.splitlines() if 'FAILED' in line
    ] == [['inference', 'B', '1.000', '2.000']]
    torch.set_num_threads(threads)


def test_ratios_are_those_to_the_reference_by_mode() -> None:
    spec = 'FLattenDeiT:arch=tiny,img_size=32'
    settings = RunSettings(batch=1, size=(32, 32), train=True)
    ratios = median_ratios({'same': spec}, reference=spec, settings=settings, rounds=3)
    assert list(ratios) == ['training same'] and 0.2 < ratios['training same'] < 5


def test_cpu_clock_does_not_count_sleep() -> None:
    assert cpu_clock(lambda: time.sleep(0.05), 1) < 0.03
