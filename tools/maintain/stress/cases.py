"""Cases of the campaign: a piece of work in a process of its own, with limits of time and memory."""
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mmflatten.cli.main import main
from mmflatten.text import align

MORE_MEMORY = 2 * 2**30  # bytes above those of the parent, in physical memory
ADDRESSES = 12 * 2**30  # bytes of address space, so that a case cannot stop the machine


@dataclass
class Ended:
    """End of a process. `status` is negative for a signal, None if it was killed because its time was over."""

    status: int | None
    output: str
    memory: int  # largest physical memory in bytes
    killed: bool = False  # as planned

    @property
    def last_line(self) -> str:
        return next((line for line in reversed(self.output.splitlines()) if line.strip()), '')

    def fault(self, before: int) -> str:
        """Describe the worst that any command may not do; '' if it did not."""
        if self.status is None:
            return 'did not end'
        if self.status < 0:
            return f'ended by signal {-self.status}'
        if 'Traceback (most recent call last)' in self.output:
            return f'traceback: {self.last_line[:200]}'
        if not all(char.isprintable() or char in '\n\t\r' for char in self.output):
            return 'text of the file reached the terminal as it was'
        if self.memory > before + MORE_MEMORY:
            return f'took {self.memory / 2**30:.1f} GiB'
        return ''


@dataclass
class Outcome:
    """Result of a case; `lost` says what was wrong, '' if it held."""

    campaign: str
    case: str
    lost: str
    seconds: float


class Results:
    """Outcomes of all cases, written to a file after each."""

    def __init__(self, path: Path) -> None:
        self.path, self.outcomes = path, []

    def add(self, campaign: str, case: str, lost: str, seconds: float) -> None:
        self.outcomes.append(Outcome(campaign, case, lost, seconds))
        self.path.write_text(json.dumps(list(map(asdict, self.outcomes)), indent=1))
        if lost:
            print(f'LOST {campaign}: {case}: {lost}', file=sys.stderr, flush=True)

    def table(self) -> str:
        """Format the number of cases tried, held and lost of each campaign, as Markdown."""
        rows = []
        for name in dict.fromkeys(outcome.campaign for outcome in self.outcomes):
            those = [outcome for outcome in self.outcomes if outcome.campaign == name]
            lost = sum(bool(outcome.lost) for outcome in those)
            rows.append((name, str(len(those)), str(len(those) - lost), str(lost),
                         f'{sum(outcome.seconds for outcome in those) / 60:.1f}'))
        return align(rows, ('campaign', 'tried', 'held', 'lost', 'minutes'), {0}, markdown=True)


def command(words: Sequence[object], folder: Path) -> Callable[[], int]:
    """Return a call of `mmflatten` from a folder."""
    def call() -> int:
        os.chdir(folder)
        return main([str(word) for word in words])
    return call


def run(call: Callable[[], int | None], output: Path, seconds: float, kill_after: float | None = None,
        file_bytes: int | None = None) -> Ended:
    """Run a call in a forked process, whose prints go to `output`.

    Args:
        seconds: limit, after which the process and its children are killed.
        kill_after: seconds after which it is killed with -9; the status is then -9.
        file_bytes: largest size of a file that it may write.
    """
    process = os.fork()
    if not process:
        _child(call, output, file_bytes)
    start, end, killed = time.monotonic(), None, False
    while True:
        finished, status, usage = os.wait4(process, os.WNOHANG)
        if finished:
            end = os.waitstatus_to_exitcode(status)
            break
        passed = time.monotonic() - start
        if passed > min(seconds, kill_after or seconds):
            os.killpg(process, signal.SIGKILL)
            _, _, usage = os.wait4(process, 0)
            killed = kill_after is not None and passed < seconds
            end = -signal.SIGKILL if killed else None
            break
        time.sleep(.01)
    _kill_group(process)  # what it left behind
    return Ended(end, output.read_text(errors='replace') if output.exists() else '', usage.ru_maxrss * 1024,
                 killed)


def _child(call: Callable[[], int | None], output: Path, file_bytes: int | None) -> None:
    os.setsid()
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = sys.__stdout__ = os.fdopen(1, 'w', closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, 'w', buffering=1, closefd=False)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    if file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as in Python's own start
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    status = 1
    try:
        status = call() or 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _kill_group(process: int) -> None:
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def memory_now() -> int:
    """Largest physical memory of this process so far, in bytes; children begin with it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def one_line(ended: Ended, *names: str) -> str:
    """Describe what is wrong with the end of a command that had to refuse a file; '' if nothing is.

    The last line must hold one of the names, and the status must tell of an error.
    """
    if ended.status == 0:
        return 'no error'
    text = re.sub(r'\s+', ' ', ended.last_line)
    if not any(name in text for name in names):
        return f'the last line names none of {", ".join(names)}: {text[:200]}'
    return ''
