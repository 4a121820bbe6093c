"""The parts of `mmflatten benchmark`: rounds, ratios, memory, crossovers, models by name."""

import math
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from mmflatten.measure.flops.meta import parameters_on_meta
from mmflatten.measure.speed import machine, timing
from mmflatten.measure.speed.launches import CALL, Work, work_of
from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.models import (
    DTYPES,
    ZOO,
    RunSettings,
    build_from_spec,
    make_call,
    model_subject,
    parse_spec,
)
from mmflatten.measure.speed.operators import OPERATORS, map_of, operator_subject
from mmflatten.measure.speed.results import (
    crossover,
    format_crossover,
    ratio_columns,
    result_rows,
    result_table,
)
from mmflatten.measure.speed.timing import MIN_ROUNDS, Subject, clock_of, measure

SWIN = 'FLattenSwin:arch=dict(embed_dims=8,depths=(1,1,1,1),num_heads=(1,1,2,2))'
SMALL = RunSettings(batch=2, size=(32, 32))


def test_every_operator_runs_and_trains() -> None:
    settings = RunSettings(batch=1, train=True)
    for name in OPERATORS:
        subject = operator_subject(name, 20, 8, 2, settings)
        subject.call()
        assert subject.params > 0 and subject.tokens == 20
    assert map_of(20) == (4, 5) and map_of(196) == (14, 14) and map_of(7) == (1, 7)


@pytest.mark.parametrize('train', [False, True])
def test_compiled_model_has_a_dynamic_batch_in_inference(train) -> None:
    sizes = []

    def backend(graph, inputs):
        sizes.extend(value for value in inputs if isinstance(value, int | torch.SymInt))
        return graph.forward

    model = torch.nn.Linear(4, 4)
    make_call(model, model, torch.ones(3, 4), RunSettings(train=train, compile=backend))()
    assert bool(sizes) != train


class FakeTime:
    """A clock that only calls of `subject` advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.calls = 0.0, []
        monkeypatch.setattr(timing, 'time', SimpleNamespace(monotonic=lambda: self.now))

    def subject(self, name: str, seconds: float) -> Subject:
        def call() -> None:
            self.calls.append(name)
            self.now += seconds

        return Subject(name, call)

    def clock(self, call: timing.Call, number: int) -> float:
        start = self.now
        for _ in range(number):
            call()
        return (self.now - start) / number


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    return FakeTime(monkeypatch)


def test_subjects_take_turns_in_every_round(fake_time: FakeTime) -> None:
    reports = []
    times = measure(
        [fake_time.subject(name, 0.03) for name in 'abc'],
        rounds=4,
        clock=fake_time.clock,
        progress=lambda *report: reports.append(report),
    )
    # two calls each to warm up
    assert fake_time.calls == ['a', 'a', 'b', 'b', 'c', 'c'] + list('abc') * 4
    assert [rounds for rounds, _, _ in reports] == [1, 2, 3, 4]
    assert [elapsed for _, elapsed, _ in reports] == pytest.approx([0.09, 0.18, 0.27, 0.36])
    assert [left for _, _, left in reports] == pytest.approx([0.27, 0.18, 0.09, 0])
    assert np.array(times) == pytest.approx(np.full((3, 4), 0.03))


def test_short_calls_are_repeated_within_a_sample(fake_time: FakeTime) -> None:
    times, _ = measure(
        [fake_time.subject(name, 0.003) for name in 'ab'], rounds=2, clock=fake_time.clock
    )
    runs = [(name, len(list(run))) for name, run in groupby(fake_time.calls)]
    assert runs == [('a', 2), ('b', 2)] + [('a', 7), ('b', 7)] * 2  # 7 calls take 20 ms
    assert times == pytest.approx([0.003, 0.003])  # per call, not per sample


def test_time_limit_ends_a_run_after_the_minimum_of_rounds(fake_time: FakeTime) -> None:
    slow = fake_time.subject('slow', 0.05)
    assert len(measure([slow], seconds=0.01, clock=fake_time.clock)[0]) == MIN_ROUNDS
    assert len(measure([slow, slow], seconds=0.26, clock=fake_time.clock)[0]) == 5


def test_clock_makes_the_calls_and_returns_seconds() -> None:
    calls = []
    assert timing.clock_of('cpu')(lambda: calls.append(None), 3) >= 0
    assert len(calls) == 3


def test_ratio_is_taken_within_rounds() -> None:
    # the machine became nine times slower in the middle of the run
    reference = (1.0, 1.0, 1.0, 9.0, 9.0)
    assert set(ratio_columns((0.5, 0.5, 0.5, 4.5, 4.5), reference).values()) == {2}


def test_work_counts_overlapping_events_once_and_annotations_not() -> None:
    def event(name, device, start, duration):
        return SimpleNamespace(
            name=lambda: name,
            device_type=lambda: device,
            start_ns=lambda: start,
            duration_ns=lambda: duration,
        )

    gpu, cpu = DeviceType.CUDA, DeviceType.CPU
    events = [
        event('gemm', gpu, 100, 50),
        event('copy', gpu, 120, 60),
        event('norm', gpu, 300, 20),
        event(CALL, gpu, 100, 220),
        event(CALL, cpu, 0, 90),
        event('aten::mm', cpu, 10, 30),
    ]
    assert work_of(events, gpu) == Work(100e-9, 3, 90e-9)


def test_work_of_a_real_profile() -> None:
    x = torch.randn(64, 64)
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function(CALL):
        for _ in range(3):
            x = x.tanh()
    work = work_of(profiler.profiler.kineto_results.events(), DeviceType.CPU)
    assert work.launches == 3 and 0 < work.busy_s < work.host_s < 10


def test_table_has_the_work_of_a_gpu() -> None:
    arguments = [Subject('one', print)], [(1.0,)], [0], SMALL, None
    on_cpu, on_gpu = (
        result_table(result_rows(*arguments, works)) for works in ([], [Work(0.0375, 1556, 0.069)])
    )
    assert 'launches' not in on_cpu
    assert all(text in on_gpu for text in ('launches', '37.50', '1556', '69.00'))


@pytest.mark.parametrize(
    'seconds, expected', [((4.0, 1.0, 3.0, 2.0, 5.0), (2, 3, 4)), ((7.0,), (7, 7, 7))]
)
def test_row_holds_quartiles_and_median(
    seconds: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    (row,) = result_rows([Subject('one', print)], [seconds], [2**20], SMALL, reference=None)
    assert tuple(row[name] for name in ('q1_s', 'median_s', 'q3_s')) == expected
    assert (row['peak_mib'], row['reference'], row['ratio']) == (1, '', '')


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a GPU')
def test_gpu_has_its_own_clock_and_peak_memory() -> None:
    x = torch.ones(2048, 2048, device='cuda')
    assert peak_memory(lambda: x @ x, 'cuda') == x.nbytes
    assert 0 < clock_of('cuda')(lambda: x @ x, 10) < 1


def test_crossover_interpolates_in_logarithmic_axes() -> None:
    tokens = [100, 1000, 10000]
    quadratic, linear = [n * n * 1e-6 for n in tokens], [n * 5e-4 for n in tokens]
    assert crossover(tokens, quadratic, linear) == pytest.approx(500, rel=1e-9)
    assert crossover(tokens, quadratic, [value / 1e4 for value in linear]) == 0
    assert crossover(tokens, quadratic, [value * 1e4 for value in linear]) == math.inf
    # cheaper for good from there on
    assert crossover(tokens, [1, 1, 4], [0.5, 2, 2]) == pytest.approx(10**3.5)
    assert crossover(tokens, [1, 1, 1], [2, 1, 0.5]) == pytest.approx(1000)
    assert [format_crossover(tokens, number) for number in (0, 500.2, math.inf)] == [
        'below 100',
        'about 500',
        'above 10000',
    ]


def test_peak_memory_counts_tensors_alive_at_once() -> None:
    given = torch.zeros(1000)

    def call() -> torch.Tensor:
        first = given + 1
        second = torch.cat((first, first))
        del first
        return second[:10] + 1

    peak = peak_memory(call)
    # 4 kB and 8 kB together; 10 numbers more after the first is gone
    assert 12000 <= peak <= 12000 + 100
    assert peak_memory(call) == peak


def test_training_keeps_activations_and_leaves_no_gradients() -> None:
    forward, step = (model_subject(SWIN, replace(SMALL, train=train)) for train in (False, True))
    assert peak_memory(step.call) > 1.5 * peak_memory(forward.call)
    model = build_from_spec(SWIN, (32, 32))
    call = make_call(model, model, torch.randn(1, 3, 32, 32), replace(SMALL, train=True))
    call()
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize('dtype', ['bf16', 'fp16'])
def test_half_precision_runs_under_autocast(dtype: str) -> None:
    assert model_subject(SWIN, replace(SMALL, dtype=dtype)).call().dtype == DTYPES[dtype]


def test_specs_are_parsed_like_calls() -> None:
    assert parse_spec('FLattenSwin') == ('FLattenSwin', {})
    assert parse_spec(
        "A:arch=tiny,ratios=(8, 4),stem='4L',on=True,rate=.1,nested=dict(type=B)"
    ) == (
        'A',
        dict(arch='tiny', ratios=(8, 4), stem='4L', on=True, rate=0.1, nested=dict(type='B')),
    )


def test_every_model_of_the_zoo_builds() -> None:
    with parameters_on_meta():
        for spec in ZOO.values():
            assert sum(p.numel() for p in build_from_spec(spec, (224, 224)).parameters()) > 5e6


def test_load_of_others_is_that_of_the_system_without_this_process(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine, 'PROC', tmp_path)
    assert math.isnan(machine.seconds_of_others())
    monkeypatch.setattr(
        machine,
        'os',
        SimpleNamespace(sysconf=lambda name: 100, times=lambda: (3.0, 1.0, 0.5, 0.5, 99.0)),
    )
    # user, nice, system, idle, iowait, irq, softirq, steal, guest, in 1/100 s; idle and iowait do
    # not count.
    (tmp_path / 'stat').write_text(
        'cpu  1000 200 300 90000 800 10 20 70 5 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n'
    )
    assert machine.seconds_of_others() == pytest.approx(16 - 5)


def test_processor_is_read_from_proc(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine, 'PROC', tmp_path)
    assert machine.cpuinfo() == {}
    (tmp_path / 'cpuinfo').write_text(
        'processor\t: 0\nmodel name\t: Fast\n\nprocessor\t: 1\nmodel name\t: Slow\n'
    )
    assert machine.cpuinfo()['model name'] == 'Fast'
