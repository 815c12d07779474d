"""What a SIGTERM does to a run: the same as Ctrl-C."""

import os
import signal
import time

import pytest

from kairoscope.run import run


def test_a_sigterm_interrupts_within_the_run_only():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), run.terminated_as_interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)  # it does not come to its end
    assert signal.getsignal(signal.SIGTERM) is before


def test_signals_are_as_before_once_a_run_has_ended(monkeypatch):
    """A series goes on with the next load, and Ctrl-C must end it."""
    mine = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with run.terminated_as_interrupted():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # as while a run is judged
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, mine)
