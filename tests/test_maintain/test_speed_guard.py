"""The guard against slower models, with invented ratios and tables, and the time of the matrix products alone."""
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from speed_guard import processor_family, read_table, slower, write_table
from torch.profiler import profile

from mmflatten.measure.speed.bound import products_alone
from mmflatten.measure.speed.models import RunSettings, model_subject
from mmflatten.measure.speed.timing import cpu_clock

SWIN = 'FLattenSwin:arch=dict(embed_dims=8,depths=(1,1,1,1),num_heads=(1,1,2,2)),img_size=32'
TABLE = {'inference A': 1., 'inference B': 2., 'training A': .5}


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """Projections by `F.linear`, which the profiler lists by name."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@pytest.mark.parametrize('measured, bad', [
    (TABLE, []),
    ({what: 5 * ratio for what, ratio in TABLE.items()}, []),
    (TABLE | {'inference B': 1.81}, []),
    (TABLE | {'inference B': 1.79}, ['inference B']),
    (TABLE | {'inference A': .8, 'training A': .4}, ['inference A', 'training A']),
    ({'inference A': 1., 'training A': .5}, ['inference B']),
    (TABLE | {'training B': 1.}, ['training B']),
])
def test_slower_lists_lower_and_unmatched_ratios(measured: dict[str, float],
                                                                    bad: list[str]) -> None:
    assert slower(measured, TABLE) == bad


def test_write_table_replaces_only_the_rows_of_its_processor_family(tmp_path: Path) -> None:
    path = tmp_path / 'ratios.csv'
    assert read_table('one', path) == {}
    write_table('one', TABLE, path)
    write_table('other', {'inference A': 3.}, path)
    write_table('one', {'inference A': .25}, path)
    assert read_table('one', path) == {'inference A': .25} and read_table('other', path) == {'inference A': 3.}
    assert read_table('third', path) == {}


def test_speed_guard_needs_a_table_writes_one_and_fails_for_lower_ratios(
        load_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    tool: ModuleType = load_tool('speed_guard')
    path, ratios, threads = tmp_path / 'ratios.csv', dict(TABLE), torch.get_num_threads()
    monkeypatch.setattr(tool, 'measure_ratios', lambda rounds, say: ratios)
    monkeypatch.setattr(tool, 'read_table', lambda family: read_table(family, path))
    monkeypatch.setattr(tool, 'write_table', lambda family, found: write_table(family, found, path))
    assert tool.main([]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert processor_family() in last and '--write' in last
    assert tool.main(['--write']) == 0 and tool.main([]) == 0
    ratios['inference B'] = 1.
    capsys.readouterr()
    assert tool.main([]) == 1
    assert [line.split()[:4] for line in capsys.readouterr().out.splitlines() if 'FAILED' in line] == [
        ['inference', 'B', '1.000', '2.000']]
    torch.set_num_threads(threads)


def test_cpu_clock_does_not_count_sleep() -> None:
    assert cpu_clock(lambda: time.sleep(.05), 1) < .03


def test_products_alone_have_the_shapes_of_the_model(without_onednn) -> None:
    x = torch.randn(2, 5, 7, 8)
    convolution, project = torch.nn.Conv2d(5, 6, 3, padding=1), torch.nn.Linear(8, 3)

    def call() -> torch.Tensor:
        with torch.inference_mode():
            y = project(convolution(x).relu()).flatten(2)
            return (y @ y.transpose(1, 2)).softmax(-1)

    repeat = products_alone(call)
    with profile(record_shapes=True) as profiler:
        repeat()
    run = {event.key: event.input_shapes for event in profiler.key_averages(group_by_input_shape=True)}
    assert run['aten::bmm'] == [[2, 6, 21], [2, 21, 6]]
    assert run['aten::convolution'][:3] == [[2, 5, 7, 8], [6, 5, 3, 3], []]
    assert run['aten::linear'] == [[84, 8], [3, 8], []]
    assert not any(name.removeprefix('aten::') in ('relu', 'softmax', 'add') for name in run)


def test_products_alone_finds_all_products_of_a_backbone(without_onednn) -> None:
    subject = model_subject(SWIN, RunSettings(batch=2, size=(32, 32)))
    names = []
    for call in (subject.call, products_alone(subject.call)):
        with profile() as profiler:
            call()
        counts = {event.key: event.count for event in profiler.key_averages()}
        names.append(tuple(counts[name] for name in ('aten::bmm', 'aten::convolution', 'aten::linear')))
    assert names[0] == names[1]
