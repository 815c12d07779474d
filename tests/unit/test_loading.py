"""How the load of a run is stopped, and what looks at it beside it."""

import io
import shutil
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from run_samples import Run, run_of
from stub.stack import Captures

from kairoscope.errors import UserError
from kairoscope.hosts.sampling import Periodic
from kairoscope.run import loading, run, samplers
from kairoscope.run.uninterrupted import uninterrupted


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that is about to load a server that is not looked at."""
    monkeypatch.setattr(loading, "_after", lambda *_: None)
    monkeypatch.setattr(loading, "_processes", lambda *_: Periodic("processes", 60, lambda: None))
    return run_of(tmp_path)


def load(made: Run, captures: Captures, run: Any) -> None:
    """Load it; `run` is what the loaders do, given what stops them."""
    session = SimpleNamespace(
        captures=lambda: captures,
        backlog=lambda: None,
        endpoints=lambda: (made.schedule.spec.nodes, made.schedule.spec.telnet),
        store=lambda: None,
        credentials=None,
    )

    def fleet(_: Any, folder: Path, show: Any, stop: threading.Event, **__: Any) -> list[Any]:
        run(stop)
        return []

    loaders = SimpleNamespace(run=fleet, readers_died=[])
    quiet = Console(file=io.StringIO())
    loading.measured_load(made.state, session, loaders, quiet, None, None, None)


@pytest.mark.parametrize("room_for_a_note", [True, False])
def test_a_load_stops_before_the_disk_of_its_folder_is_full(made, monkeypatch, room_for_a_note):
    """Wherever the servers have theirs."""
    free = shutil.disk_usage(made.folder)._replace(free=samplers.FOLDER_FREE_BYTES - 1)
    monkeypatch.setattr(samplers.shutil, "disk_usage", lambda _: free)

    def full(**_: object) -> None:
        raise OSError("No space left on device")

    if not room_for_a_note:
        monkeypatch.setattr(made.state.events, "write", full)
    load(made, Captures(), lambda stop: stop.wait(60))
    assert made.state.stop.is_set()
    assert made.facts.incomplete[0] == (f"the disk is nearly full: 50 MB left at {made.folder}")


def test_a_small_disk_of_the_run_folder_alone_is_room_enough(made, monkeypatch):
    """What servers need beside their queue is not what a run needs to be written down."""
    free = shutil.disk_usage(made.folder)._replace(free=samplers.MIN_FREE_BYTES - 1)
    looked = threading.Event()

    def usage(_: Path) -> Any:
        looked.set()
        return free

    monkeypatch.setattr(samplers.shutil, "disk_usage", usage)
    monkeypatch.setattr(loading, "_ROOM_EVERY_S", 0.01)

    def loaders(_: threading.Event) -> None:
        assert looked.wait(60)
        looked.clear()
        assert looked.wait(60)  # what the first look found has been said

    load(made, Captures(), loaders)
    assert not made.state.stop.is_set()
    assert made.facts.incomplete == []


def test_a_run_whose_folder_has_no_room_is_refused_before_anything_is_sent(made, monkeypatch):
    free = shutil.disk_usage(made.folder)._replace(free=samplers.FOLDER_FREE_BYTES - 1)
    monkeypatch.setattr(samplers.shutil, "disk_usage", lambda _: free)
    monkeypatch.setattr(run.inventory, "load", lambda _: made.state.inventory)
    monkeypatch.setattr(run, "check_deployed", lambda *_: None)

    def connect(*_: Any) -> None:
        raise AssertionError("it went on to the servers")

    stack, into = SimpleNamespace(connect=connect), made.folder / "runs"
    with pytest.raises(UserError, match=r"50 MB left at .*runs, and a run needs 50 MB"):
        run.load(made.state.plan, stack, Console(file=io.StringIO()), into=into)
    assert not into.exists()


def test_all_captures_have_ended_though_ctrl_c_is_pressed_again_meanwhile(made):
    """One that went on wrote while the run was judged, which could not be judged again then."""
    looks: list[int] = []

    def look_slowly() -> None:
        looks.append(1)
        if made.state.stop.is_set():
            return
        while not made.state.stop.is_set():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)

    captures = Captures()
    captures.samplers = [Periodic("first", 0.01, look_slowly), Periodic("second", 0.01, list)]

    def interrupted(stop: threading.Event) -> None:
        while not looks:
            time.sleep(0.01)
        stop.set()
        raise KeyboardInterrupt("the first")

    with pytest.raises(KeyboardInterrupt):
        load(made, captures, interrupted)
    assert not any(sampler.is_alive() for sampler in captures.samplers)


def test_captures_that_cannot_be_written_are_noted_and_lose_no_ctrl_c(made, monkeypatch):
    """On a full disk, where people press it; what ended the load was the error then."""

    def full() -> list[str]:
        raise OSError("No space left on device")

    def interrupted(_: threading.Event) -> None:
        raise KeyboardInterrupt("by the user")

    captures = Captures()
    monkeypatch.setattr(captures, "stop", full)
    with pytest.raises(KeyboardInterrupt):
        load(made, captures, interrupted)
    assert made.facts.incomplete == ["a capture ended early: No space left on device"]


def test_ctrl_c_while_work_fails_that_is_done_to_its_end_is_not_lost():

    def work() -> None:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
        raise OSError("No space left on device")

    with pytest.raises(KeyboardInterrupt) as raised:
        uninterrupted(work)
    assert isinstance(raised.value.__cause__, OSError)
