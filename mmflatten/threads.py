"""Threads of PyTorch on the CPU, in the processes of all commands."""
import os

# While a thread waits for the others, GNU's OpenMP spins by default. A busy core, such as that of a loader process, then
# stops all threads after every operator: docs/benchmark.md has the figures. A thread that sleeps costs a little more on
# an idle machine. The number of threads is PyTorch's: the cores that the process may use.
WAIT_POLICY = 'OMP_WAIT_POLICY'


def choose_wait_policy() -> None:
    """Let waiting threads sleep, in this process and those that it starts, unless the environment has another policy.

    OpenMP reads the variable when its library is loaded, so this must run before PyTorch is imported.
    """
    os.environ.setdefault(WAIT_POLICY, 'PASSIVE')
