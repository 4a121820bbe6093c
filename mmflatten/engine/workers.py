"""Number of loader processes for `num_workers='auto'`."""
import os

MAX_WORKERS = 16  # enough for 3,000 images per second (docs/datasets.md); each holds batches in memory


def loader_workers() -> int:
    """Return the CPUs of this training process minus one for the training itself, from 1 to `MAX_WORKERS`.

    The CPUs are those that the process may run on, divided by the processes that torchrun or Open MPI started on this
    machine.
    """
    processes = os.environ.get('LOCAL_WORLD_SIZE') or os.environ.get('OMPI_COMM_WORLD_LOCAL_SIZE') or 1
    return min(max(len(os.sched_getaffinity(0)) // int(processes) - 1, 1), MAX_WORKERS)
