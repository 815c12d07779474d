"""How a run ends: by a signal, and with a disk that is full."""

import errno
import io
import os
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console
from run_samples import Run, run_of

from kairoscope.run import finishing, run


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


# The disk of the run folder


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that has been loaded, and on whose disk there is no room for an event any more."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(finishing, "_draw", lambda folder: folder / "report.html")

    def full(**_: object) -> None:
        raise FULL

    made = run_of(tmp_path / "run")
    monkeypatch.setattr(made.state.events, "write", full)
    return made


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FULL, "No space left on device"),
        (KeyboardInterrupt(), "interrupted by the user (Ctrl-C)"),
        (ValueError("odd"), "unexpected error in Kairoscope: ValueError('odd')"),
    ],
)
def test_a_run_comes_to_its_verdict_where_no_event_can_be_written(loaded, monkeypatch, error, why):
    """It ended with a traceback, and with the exit status of a failed verdict."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(run.watched, "look", fail)
    quiet = Console(file=io.StringIO())
    with run.terminated_as_interrupted():
        ran = run._run(loaded.state, None, None, quiet, True, None, None, None, None, False)
    assert ran.status == 2
    assert why in loaded.json("verdict.json")["reasons"][0]
