"""Signals that end a command."""

import os
import signal

import pytest

from mmflatten.console import command_line


@pytest.fixture
def usual_signals():
    """The handlers of a program that a shell starts in the foreground."""
    endings = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(ending, signal.SIG_DFL) for ending in endings]
    yield
    for ending, handler in zip(endings, before):
        signal.signal(ending, handler)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_a_command_as_ctrl_c_does(number, usual_signals):
    closed = []

    @command_line
    def inner(argv):
        try:
            signal.raise_signal(number)
        finally:
            for ending in (signal.SIGTERM, signal.SIGHUP):  # a closing terminal sends several
                signal.raise_signal(ending)
            closed.append(True)

    outer = command_line(lambda argv: inner(argv))
    assert outer([]) == 128 + number and closed == [True]
    assert signal.getsignal(number) == signal.SIG_DFL


def test_error_that_an_interrupt_causes_keeps_the_status(usual_signals):
    @command_line
    def main(argv):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt('with a message') from error

    assert main([]) == 128 + signal.SIGTERM


def test_ignored_signal_stays_ignored(usual_signals):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    assert command_line(lambda argv: signal.raise_signal(signal.SIGHUP))([]) == 0
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_process_of_a_distributed_training_ends_at_once(usual_signals, monkeypatch):
    monkeypatch.setenv('WORLD_SIZE', '2')
    handlers = []
    assert command_line(lambda argv: handlers.append(signal.getsignal(signal.SIGTERM)))([]) == 0
    assert handlers == [signal.SIG_DFL]


def test_forked_process_ends_by_the_signal(usual_signals):
    statuses = []

    @command_line
    def main(argv):
        process = os.fork()
        if not process:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                os._exit(99)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))

    assert main([]) == 0 and statuses == [-signal.SIGTERM]
