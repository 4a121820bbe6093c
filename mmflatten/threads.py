"""Threads of PyTorch on the CPU, in the processes of all commands."""

import os

# GNU's OpenMP spins while a thread waits for the others. Where another process keeps a core busy,
# such as a loader, the threads then wait for most of the time: docs/benchmark.md has the figures.
# Sleeping costs little on an idle machine. The number of threads is PyTorch's choice, the cores
# that the process may use.
WAIT_POLICY = 'OMP_WAIT_POLICY'


def choose_wait_policy() -> None:
    """Let waiting threads sleep, in this process and those that it starts, unless the environment
    has another policy.

    OpenMP reads the variable when its library is loaded, so this must run before PyTorch is
    imported.
    """
    os.environ.setdefault(WAIT_POLICY, 'PASSIVE')
