"""How a run ends: by a signal, and with a disk that is full."""

import errno
import gc
import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from run_samples import Run, run_of

from kairoscope import experiment, interrupts, paths, run_folder
from kairoscope.cli import known
from kairoscope.errors import UserError
from kairoscope.hosts.inventory import Inventory
from kairoscope.run import finishing, opening, run
from kairoscope.run_folder import JsonLines
from kairoscope.series import driver
from kairoscope.verdict import conclude


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_within_the_run_only(number):
    # The tests themselves may have been started by nohup.
    mine = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt) as caught, interrupts.as_ctrl_c():
            os.kill(os.getpid(), number)
            time.sleep(60)  # it does not come to its end
        assert interrupts.name(caught.value) == number.name
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, mine)


def test_what_nohup_started_goes_on_without_its_terminal():
    mine = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.as_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, mine)


def test_signals_are_as_before_once_a_run_has_ended():
    """A series goes on with the next load, and Ctrl-C must end it."""
    mine = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupts.as_ctrl_c():
            interrupts.ignore()  # as while a run is judged
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, mine)


@pytest.mark.parametrize("early", [False, True], ids=["under way", "as it starts"])
@pytest.mark.parametrize("number", [signal.SIGINT, *interrupts.SIGNALS])
def test_what_interrupts_a_series_reaches_the_verb_that_it_is_at(number, early):
    """A terminal does not tell that one, which is in a session of its own."""
    told: list[str | int] = []
    process: Any = SimpleNamespace(send_signal=told.append)
    mine = signal.signal(number, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            interrupts.as_ctrl_c(),
            driver._interrupts_passed_on() as to,
        ):
            if early:
                os.kill(os.getpid(), number)
            to(process)
            os.kill(os.getpid(), number)
            told.append("waits for its end")
        assert told == [number, "waits for its end"]
        signal.signal(number, signal.SIG_IGN)
        with interrupts.as_ctrl_c(), driver._interrupts_passed_on() as to:
            to(process)
            os.kill(os.getpid(), number)
            assert signal.getsignal(number) is signal.SIG_IGN
        assert len(told) == 2
    finally:
        signal.signal(number, mine)


# As a run does: it is interrupted, and then says what it came to.
AT_A_TERMINAL = """
import os
import signal
import time
from pathlib import Path
from kairoscope import interrupts
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may have been started by nohup
os.open(os.ttyname(0), os.O_RDWR)  # by which it is the terminal of this session
try:
    with interrupts.as_ctrl_c():
        print("up", flush=True)
        time.sleep(60)
except KeyboardInterrupt as interrupt:
    print("the verdict", flush=True)
    Path("ended").write_text(interrupts.name(interrupt))
"""


def test_a_run_whose_terminal_is_closed_comes_to_its_end(tmp_path):
    """It was gone at once, with faults in force, and what it says at its end was an error."""
    ours, its = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(paths.CHECKOUT)},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    ) as process:
        os.close(its)
        assert os.read(ours, 100).strip() == b"up"
        os.close(ours)
        assert process.wait(60) == 0
    assert (tmp_path / "ended").read_text() == "SIGHUP"


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
    with interrupts.as_ctrl_c():
        ran = run._run(loaded.state, None, None, quiet, True, None, None, None, None, False)
    assert ran.status == 2
    assert why in loaded.json("verdict.json")["reasons"][0]


def test_a_run_that_cannot_be_judged_ends_with_a_sentence(loaded, monkeypatch):
    def odd(_: Path) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(finishing.conclude, "judge", odd)
    with (
        pytest.raises(UserError, match="could not be judged: ZeroDivisionError") as caught,
        interrupts.as_ctrl_c(),
    ):
        finishing.finish(loaded.state, Console(file=io.StringIO()))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("ends", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_folder_that_cannot_be_filled_is_no_run(monkeypatch, tmp_path, ends):
    """It would have no verdict, and every page that lists runs would have it."""
    (tmp_path / "latest").symlink_to("the-one-before")
    monkeypatch.setattr(opening, "_manifest", lambda *_: {})

    def full(path, document):
        raise ends

    monkeypatch.setattr(run_folder, "write_json", full)
    plan = known.plan(experiment.load("laptop"), "local")
    expected = UserError if isinstance(ends, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        opening.open_folder(plan, Inventory(tmp_path, [], [], []), None, tmp_path, None)
    if expected is UserError:
        assert "(No space left); nothing was sent, and there is no run" in caught.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]


def test_what_a_full_disk_did_not_take_is_not_written_when_the_run_has_ended(tmp_path):
    """The lengths of its files are noted then: with other ones it could not be judged again."""
    made = run_of(tmp_path)
    events = tmp_path / run_folder.EVENTS
    made.state.note("one", "before")
    mine = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (events.stat().st_size + 10, mine[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            made.state.note("two", "there is room for a part of it")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, mine)
    made.read_back()
    made.end()
    noted = events.stat().st_size
    made.state.events = None  # as this process would end
    gc.collect()
    assert events.stat().st_size == noted
    assert conclude.again(tmp_path).verdict.verdict == "pass"


def test_what_was_cut_off_takes_no_later_event_along(tmp_path):
    path = tmp_path / "events.jsonl"
    events = JsonLines(path)
    mine = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, mine[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            events.write(what="one", detail="longer than there is room for")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, mine)
    events.write(what="two")
    events.write(what="three")
    assert [record["what"] for record in run_folder.records(path)] == ["two", "three"]
