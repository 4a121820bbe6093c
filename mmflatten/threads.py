"""Threads of PyTorch on the CPU, in the processes of all commands."""

import os

# Threads of OpenMP wait for each other after every operator. GNU's spin for milliseconds by
# default: where another process keeps a core busy, such as a loader, they spin for most of the
# time. A thread that sleeps at once pays for waking up, which in a model of small operators is a
# fifth of a step. So threads spin for a few microseconds, then sleep; other OpenMP libraries read
# the policy alone. docs/benchmark.md has the figures.
WAIT_POLICY, SPIN_COUNT = 'OMP_WAIT_POLICY', 'GOMP_SPINCOUNT'
SPINS = '1000'


def choose_wait_policy() -> None:
    """Let waiting threads sleep soon, in this process and those that it starts, unless the
    environment has another policy.

    OpenMP reads the variables when its library is loaded, so this must run before PyTorch is
    imported. The number of threads is PyTorch's choice, the cores that the process may use.
    """
    if WAIT_POLICY in os.environ or SPIN_COUNT in os.environ:
        return
    os.environ[WAIT_POLICY] = 'PASSIVE'
    os.environ[SPIN_COUNT] = SPINS
