"""Many steps of MMEngine's schedulers at once.

A scheduler of MMEngine 0.10 computes a value from the one before, so a training of n iterations
takes n steps of each. Between two of its events (a milestone, a new half-period of a cosine) the
steps of a scheduler have a product in closed form, which equals them up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mmengine.optim.scheduler.momentum_scheduler import MomentumSchedulerMixin
from mmengine.optim.scheduler.param_scheduler import (
    ConstantParamScheduler,
    CosineAnnealingParamScheduler,
    ExponentialParamScheduler,
    LinearParamScheduler,
    MultiStepParamScheduler,
    PolyParamScheduler,
    StepParamScheduler,
    _ParamScheduler,
)

MAX_STEPS = 3_000_000  # taken one by one, at about 2.5 microseconds each


class FastForward:
    """Schedulers of one optimizer that step together.

    Stretches in which two schedulers change the same setting, and schedulers of other classes than
    those in `_CLOSED_FORMS`, are followed step by step.
    """

    def __init__(self, schedulers: Sequence[Any]) -> None:
        self.schedulers = schedulers
        self.single_steps = 0

    def advance(self, steps: int) -> None:
        """Change the parameter groups as `steps` steps of all schedulers do, in turn.

        Raises:
            ValueError: more than `MAX_STEPS` steps would be taken one by one.
        """
        while steps > 0:
            stretch = min([steps, *self._uniform_steps()])
            if stretch > 1:
                for scheduler in self.schedulers:
                    _jump(scheduler, stretch)
            else:
                self._step()
                stretch = 1
            steps -= stretch

    def _uniform_steps(self) -> Iterator[int]:
        """Yield, for each scheduler, the number of its next steps that one jump can take."""
        changed: set[str] = set()
        for scheduler in self.schedulers:
            step = scheduler._global_step + 1
            if step < scheduler.begin:
                yield scheduler.begin - step
            elif step < scheduler.end:
                # Steps of two schedulers do not commute if one has a minimum.
                if scheduler.param_name in changed:
                    yield 1
                else:
                    yield min(_steps_in_closed_form(scheduler), scheduler.end - step)
                changed.add(scheduler.param_name)

    def _step(self) -> None:
        self.single_steps += 1
        if self.single_steps > MAX_STEPS:
            names = ', '.join(type(scheduler).__name__ for scheduler in self.schedulers)
            raise ValueError(
                f'param_scheduler: expected at most {MAX_STEPS:,} iterations without a closed form,'
                f' got more with {names}. Shorten the training, or let one scheduler end before'
                ' another begins.'
            )
        for scheduler in self.schedulers:
            scheduler.step()


class _ClosedForm(NamedTuple):
    """Steps of a class of schedulers, counted by its `last_step` from 0.

    Attributes:
        next_event: first step after `last_step` that `value` does not cover.
        value: value at a step, from the value at `last_step` and the minimum.
    """

    next_event: Callable[[Any], float]
    value: Callable[[Any, float, float, int], float]


def _steps_in_closed_form(scheduler: Any) -> int:
    """Return the number of steps to the scheduler's next event, at least 1."""
    form = _CLOSED_FORMS.get(type(scheduler)._get_value)
    known_step = type(scheduler).step in (_ParamScheduler.step, MomentumSchedulerMixin.step)
    # The first step, 0, applies a start factor.
    if form is None or not known_step or scheduler.last_step < 0:
        return 1
    steps = form.next_event(scheduler) - scheduler.last_step - 1
    return max(1, int(min(steps, scheduler.end)))


def _jump(scheduler: Any, steps: int) -> None:
    """Take steps that `_uniform_steps` has found to be uniform."""
    acts = scheduler.begin <= scheduler._global_step + 1 < scheduler.end
    scheduler._global_step += steps
    if not acts:
        return
    form, name = _CLOSED_FORMS[type(scheduler)._get_value], scheduler.param_name
    target = scheduler.last_step + steps
    for group, base in zip(scheduler.optimizer.param_groups, scheduler.base_values):
        group[name] = form.value(scheduler, group[name], _minimum(scheduler, base), target)
        # Adam's momentum is the first of its betas.
        if getattr(scheduler, 'use_betas', False):
            group['betas'] = (group[name], group['betas'][1])
    scheduler.last_step = target


def _minimum(scheduler: Any, base: float) -> float:
    ratio = getattr(scheduler, 'eta_min_ratio', None)
    return getattr(scheduler, 'eta_min', 0.0) if ratio is None else base * ratio


def _never(scheduler: Any) -> float:
    return math.inf


def _unchanged(scheduler: Any, value: float, minimum: float, step: int) -> float:
    return value


def _multiple_of_step_size(scheduler: Any) -> float:
    return (scheduler.last_step // scheduler.step_size + 1) * scheduler.step_size


def _milestone(scheduler: Any) -> float:
    later = [step for step in scheduler.milestones if step > scheduler.last_step]
    return min(later, default=math.inf)


def _end_of_factor(scheduler: Any) -> float:
    last = scheduler.total_iters
    return last if scheduler.last_step < last else math.inf


def _half_period(scheduler: Any) -> float:
    """First step after an odd number of half-periods, at which the cosine starts to rise."""
    half = scheduler.T_max
    passed = math.floor((scheduler.last_step - 1 - half) / (2 * half))
    return half + 1 + 2 * half * (passed + 1)


def _exponential(scheduler: Any, value: float, minimum: float, step: int) -> float:
    return value * scheduler.gamma ** (step - scheduler.last_step)


def _linear(scheduler: Any, value: float, minimum: float, step: int) -> float:
    def factor(at: int) -> float:
        slope = (scheduler.end_factor - scheduler.start_factor) / scheduler.total_iters
        return scheduler.start_factor + slope * at

    return value * factor(step) / factor(scheduler.last_step)


def _cosine(scheduler: Any, value: float, minimum: float, step: int) -> float:
    def height(at: int) -> float:
        return 1 + math.cos(math.pi * at / scheduler.T_max)

    return minimum + (value - minimum) * height(step) / height(scheduler.last_step)


def _poly(scheduler: Any, value: float, minimum: float, step: int) -> float:
    left, before = scheduler.total_iters - step, scheduler.total_iters - scheduler.last_step
    return minimum + (value - minimum) * (left / before) ** scheduler.power


# By the method that computes a step, which a class with other steps replaces.
_CLOSED_FORMS: dict[Callable, _ClosedForm] = {
    ConstantParamScheduler._get_value: _ClosedForm(_end_of_factor, _unchanged),
    CosineAnnealingParamScheduler._get_value: _ClosedForm(_half_period, _cosine),
    ExponentialParamScheduler._get_value: _ClosedForm(_never, _exponential),
    LinearParamScheduler._get_value: _ClosedForm(_never, _linear),
    MultiStepParamScheduler._get_value: _ClosedForm(_milestone, _unchanged),
    PolyParamScheduler._get_value: _ClosedForm(_never, _poly),
    StepParamScheduler._get_value: _ClosedForm(_multiple_of_step_size, _unchanged),
}
