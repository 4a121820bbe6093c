"""What `tools/analysis/benchmark.py` is made of: turns in rounds, ratios, memory, crossovers, models by name."""
import math
import subprocess
import sys
import time
from dataclasses import replace
from itertools import groupby

import pytest
import torch

from mmflatten.analysis.flops.counter import count_operations
from mmflatten.analysis.flops.meta import parameters_on_meta
from mmflatten.analysis.speed.machine import ALLOCATOR, Load, LoadWatch, restart_environment
from mmflatten.analysis.speed.memory import peak_memory
from mmflatten.analysis.speed.models import (
    DTYPES,
    ZOO,
    RunSettings,
    build_model,
    make_call,
    model_subject,
    parse_spec,
    plain_linear,
    with_plain_linear,
)
from mmflatten.analysis.speed.operators import OPERATORS, crossover, map_of, operator_subject, say_crossover
from mmflatten.analysis.speed.timing import MIN_ROUNDS, Measurement, Subject, Timing, clock_of, measure

SWIN = 'FLattenSwin:arch=dict(embed_dims=8,depths=(1,1,1,1),num_heads=(1,1,2,2))'
SMALL = RunSettings(batch=2, size=(32, 32))


def test_every_operator_runs_and_trains() -> None:
    settings = RunSettings(batch=1, train=True)
    for name in OPERATORS:
        subject = operator_subject(name, 20, 8, 2, settings)
        with subject.around():
            subject.call()
        assert subject.params > 0
    assert map_of(20) == (4, 5) and map_of(196) == (14, 14) and map_of(7) == (1, 7)


def test_subjects_take_turns_in_every_round() -> None:
    calls = []
    subjects = [Subject(name, lambda name=name: (calls.append(name), time.sleep(0.03))) for name in 'abc']
    told = []
    timings = measure(subjects, rounds=4, progress=lambda *report: told.append(report)).timings
    assert calls == ['a', 'a', 'b', 'b', 'c', 'c'] + list('abc') * 4  # two calls each to warm up
    assert [len(timing.seconds) for timing in timings] == [4, 4, 4]
    assert [rounds for rounds, _, _ in told] == [1, 2, 3, 4] and told[-1][2] == 0
    assert all(seconds >= 0.03 for timing in timings for seconds in timing.seconds)


def test_short_calls_are_repeated_within_a_sample() -> None:
    calls = []
    subjects = [Subject(name, lambda name=name: (calls.append(name), time.sleep(0.002))) for name in 'ab']
    timing, _ = measure(subjects, rounds=2).timings
    runs = [(name, len(list(run))) for name, run in groupby(calls)]
    assert [name for name, _ in runs] == list('ab' * 3) and all(number > 2 for _, number in runs[2:])
    assert all(0.002 <= seconds < 0.02 for seconds in timing.seconds)  # per call, not per sample


def test_time_bounds_a_run_but_leaves_rounds_for_a_spread() -> None:
    slow = Subject('slow', lambda: time.sleep(0.05))
    assert len(measure([slow], seconds=0.01).timings[0].seconds) == MIN_ROUNDS
    start = time.monotonic()
    number = len(measure([slow, slow], seconds=0.25).timings[0].seconds)
    assert MIN_ROUNDS <= number <= 5 and time.monotonic() - start < 2
    with pytest.raises(ValueError, match='the measurement never ends'):
        measure([slow])


def test_gpu_is_timed_by_its_own_events_and_asked_for_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    log = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append('record')

        def elapsed_time(self, end: 'Event') -> float:
            return 6.  # milliseconds

    monkeypatch.setattr(torch.cuda, 'Event', Event)
    monkeypatch.setattr(torch.cuda, 'synchronize', lambda: log.append('wait'))
    assert clock_of('cuda:0')(lambda: log.append('call'), 3) == pytest.approx(0.002)
    assert log == ['wait', 'record', 'call', 'call', 'call', 'record', 'wait']
    monkeypatch.setattr(torch.cuda, 'reset_peak_memory_stats', lambda: log.append('reset'))
    monkeypatch.setattr(torch.cuda, 'memory_allocated', lambda: 100)
    monkeypatch.setattr(torch.cuda, 'max_memory_allocated', lambda: 350)
    log.clear()
    assert peak_memory(Subject('call', lambda: log.append('call')), 'cuda') == 250
    assert log == ['call', 'wait', 'reset', 'call', 'wait']


def test_ratio_is_taken_within_rounds_and_withstands_a_change_of_load() -> None:
    reference = Timing((1., 1., 1., 9., 9.))  # the machine became nine times slower in the middle of the run
    twice_as_fast = Timing((.5, .5, .5, 4.5, 4.5))
    ratio = twice_as_fast.against(reference)
    assert (ratio.median, ratio.quartiles, ratio.best) == (2, (2, 2), 2)
    timing = Timing((4., 1., 3., 2., 5.))
    assert (timing.median, timing.quartiles, timing.best) == (3, (2, 4), 1)
    assert Timing((7.,)).quartiles == (7, 7)


def test_disturbed_rounds_are_left_out_where_enough_remain() -> None:
    timings = [Timing((1., 8., 1., 1., 9.)), Timing((2., 9., 2., 2., 9.))]
    kept = Measurement(timings, [0., 1.5, 0.02, 0.1, 0.7]).undisturbed()
    assert kept.timings == [Timing((1., 1., 1.)), Timing((2., 2., 2.))] and kept.others == [0., 0.02, 0.1]
    for others in ([0., 1., 0., 1., 1.], [None] * 5):  # too few, or nothing known
        assert Measurement(timings, others).undisturbed().timings == timings


def test_crossover_is_where_straight_lines_in_logarithmic_axes_meet() -> None:
    tokens = [100, 1000, 10000]
    quadratic, linear = [n * n * 1e-6 for n in tokens], [n * 5e-4 for n in tokens]
    assert crossover(tokens, quadratic, linear) == pytest.approx(500, rel=1e-9)
    assert crossover(tokens, quadratic, [value / 1e4 for value in linear]) == 0
    assert crossover(tokens, quadratic, [value * 1e4 for value in linear]) == math.inf
    assert crossover(tokens, [1, 1, 4], [.5, 2, 2]) == pytest.approx(10 ** 3.5)  # cheaper for good from there on
    assert crossover(tokens, [1, 1, 1], [2, 1, .5]) == pytest.approx(1000)
    assert [say_crossover(tokens, number) for number in (0, 500.2, math.inf)] == ['below 100', 'about 500',
                                                                                  'above 10000']


def test_peak_memory_counts_what_lives_at_once() -> None:
    given = torch.zeros(1000)

    def call() -> torch.Tensor:
        first = given + 1
        second = torch.cat((first, first))
        del first
        return second[:10] + 1

    peak = peak_memory(Subject('call', call))
    assert 12000 <= peak <= 12000 + 100  # 4 kB and 8 kB together; 10 numbers more after the first is gone
    assert peak_memory(Subject('call', call)) == peak


def test_training_keeps_activations_and_leaves_no_gradients() -> None:
    forward, step = (model_subject(SWIN, replace(SMALL, train=train)) for train in (False, True))
    assert peak_memory(step) > 1.5 * peak_memory(forward)
    model = build_model(SWIN, (32, 32))
    call = make_call(model, model, torch.randn(1, 3, 32, 32), replace(SMALL, train=True))
    call()
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize('dtype', ['bf16', 'fp16'])
def test_half_precision_runs_under_autocast(dtype: str) -> None:
    assert model_subject(SWIN, replace(SMALL, dtype=dtype, channels_last=True)).call().dtype == \
        DTYPES[dtype]


def test_plain_linear_exchanges_every_projection_and_puts_it_back() -> None:
    subject = model_subject(SWIN, replace(SMALL, batch=1))
    plain = with_plain_linear(subject)

    def linear_layers(case: Subject) -> int:
        with case.around():
            operators = count_operations(case.call).by_operator
        return sum(number for name, number in operators.items() if name in ('aten::mm', 'aten::addmm', 'aten::linear'))

    assert plain.name == f'{SWIN} (plain)' and linear_layers(plain) > 2 * linear_layers(subject)
    expected = subject.call()
    with pytest.raises(RuntimeError, match='inside'), plain_linear():
        torch.testing.assert_close(subject.call(), expected, rtol=1e-4, atol=1e-5)
        raise RuntimeError('inside')
    assert linear_layers(subject) < linear_layers(plain)


def test_specs_are_read_like_calls() -> None:
    assert parse_spec('FLattenSwin') == ('FLattenSwin', {})
    assert parse_spec("A:arch=tiny,ratios=(8, 4),stem='4L',on=True,rate=.1,nested=dict(type=B)") == (
        'A', dict(arch='tiny', ratios=(8, 4), stem='4L', on=True, rate=.1, nested=dict(type='B')))


def test_every_model_of_the_zoo_builds() -> None:
    with parameters_on_meta():
        for spec, goal in ZOO.values():
            assert sum(p.numel() for p in build_model(spec, (224, 224)).parameters()) > 5e6 and goal > 0


def test_load_of_others_is_seen_and_warned_of() -> None:
    watch = LoadWatch()
    with subprocess.Popen([sys.executable, '-c', 'while True: pass']) as busy:
        time.sleep(0.8)
        load = watch.stop()
        busy.kill()
    assert load.others > 0.1 and 'other processes used' in load.warnings()[0]
    assert Load(3., 3., 0.02).warnings() == Load(0.1, 2., None).warnings() == Load(None, None, None).warnings() == []
    assert 'load average 3.00' in Load(3., 3., None).warnings()[0]


def test_process_starts_again_only_without_the_allocator_settings() -> None:
    environment = restart_environment({'HOME': '/'})
    assert environment['HOME'] == '/' and environment.items() >= ALLOCATOR.items()
    assert restart_environment(environment) is None
    assert restart_environment({'MALLOC_MMAP_MAX_': '7'})['MALLOC_MMAP_MAX_'] == '7'  # the user's choice stays
