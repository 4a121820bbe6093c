"""Comparison of trainings by their last validation."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmflatten.results.page.comparison import summary_table
from mmflatten.results.work_dir import TrainedRun


def write_log(work_dir: Path, *records: dict) -> Path:
    log = work_dir / '20260101_000000' / 'vis_data' / 'scalars.json'
    log.parent.mkdir(parents=True)
    log.write_text('\n'.join(map(json.dumps, records)))
    return work_dir


def training(iteration: int, seconds: float) -> dict:
    return dict(
        loss=1.0, lr=0.1, time=seconds, data_time=0.1, iter=iteration, epoch=1, step=iteration
    )


def validation(epoch: int, **metrics: float) -> dict:
    return {
        **{f'stereo/{key}': value for key, value in metrics.items()},
        'time': 9.0,
        'data_time': 9.0,
        'step': epoch,
    }


@pytest.fixture
def runs(tmp_path) -> list[Path]:
    one = write_log(
        tmp_path / 'plain',
        training(10, 0.9),
        training(20, 0.3),
        training(30, 0.4),
        validation(1, epe=4, d1=50),
        training(60, 0.4),
        validation(2, epe=2, d1=30, own=1),
    )
    two = write_log(tmp_path / 'attention', training(60, 0.5), validation(2, epe=1.5, d1=31))
    return [one, two]


def test_tool_prints_shared_metrics_and_the_difference(load_tool, runs, capsys):
    module = load_tool('compare_runs')
    assert module.main([str(run) for run in runs]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines['plain'] == ['attention', 'difference']
    assert lines['s'] == ['per', 'iteration', '0.4', '0.5', '+0.1']
    assert lines['validated'] == [
        'after',
        '2',
        '2',
        '+0',
    ]
    assert lines['stereo/epe'] == ['2', '1.5', '-0.5'] and lines['stereo/d1'] == ['30', '31', '+1']
    assert 'stereo/own' not in lines and lines['iterations'] == ['60', '60', '+0']
    assert module.main([str(runs[0].parent / 'nowhere')]) == 1
    assert 'nowhere' in capsys.readouterr().err


def test_three_runs_have_no_difference(load_tool, runs, tmp_path):
    third = write_log(tmp_path / 'third', training(60, 0.5), validation(2, epe=1))
    table = load_tool('compare_runs').render_comparison([*runs, third])
    assert 'difference' not in table and 'third' in table and 'd1' not in table


def test_log_without_validation_is_named(load_tool, tmp_path):
    with pytest.raises(ValueError, match='bare.*validation'):
        load_tool('compare_runs').render_comparison([write_log(tmp_path / 'bare', training(10, 1))])


def run_of(macs: float, params: float) -> TrainedRun:
    counts = SimpleNamespace(macs=macs)
    return TrainedRun(Path('run'), 'run', cost=SimpleNamespace(params=params, counts=counts))


@pytest.mark.parametrize(
    'one, other, cells',
    [
        (20_300_000, 19_800_000, ('0.0203', '0.0198', '-0.0005')),
        (4_490_000_000, 4_489_999_000, ('4.49', '4.49', '+0.00')),
        (148_300_000_000, 4_490_000, ('148.30000', '0.00449', '-148.29551')),
    ],
)
def test_report_prints_costs_with_enough_digits(one, other, cells):
    table = summary_table([run_of(one, 1e6), run_of(other, 1e6)])
    rows = {name: cells for name, *cells in table.rows}
    assert tuple(rows['multiply-accumulates (G)']) == cells
    assert rows['parameters (M)'] == ['1.00', '1.00', '+0.00']
