"""What is done as a load ends: servers killed, with all that is below them, until they serve again;
points counted until queries find them all."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from rich.console import Console

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.run import killing, visible

_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_servers_children_are_killed_with_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        assert killing._kill([parent.pid]) == 2
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert killing._kill([parent.pid]) == 0  # It is gone by now.


class Server:
    """A session of servers that are well when they were asked so often."""

    def __init__(self, well_after: int) -> None:
        self.left = well_after

    def check_ready(self) -> None:
        self.left -= 1
        if self.left >= 0:
            raise UserError("x-1 is not healthy")


def test_it_waits_until_the_servers_are_well_or_says_what_is_amiss() -> None:
    pauses: list[float] = []
    slow: Any = Server(well_after=3)
    assert killing._back(slow, 60, pauses.append) >= 0
    assert len(pauses) == 3
    gone: Any = Server(well_after=10_000)
    with pytest.raises(UserError, match=r"not back 0 s after a kill: x-1 is not healthy"):
        killing._back(gone, 0, pauses.append)


def test_hosts_of_their_own_are_refused() -> None:
    class Managed:
        managed = True

    hosts: Any = Managed()
    with pytest.raises(UserError, match="is for target local"):
        killing.after(5, hosts)


@pytest.mark.parametrize(
    ("answers", "record"),
    [
        ([3, 7, 10], {"wanted": 10, "found": 10, "looks": 3}),
        ([10], {"wanted": 10, "found": 10, "looks": 1}),
        ([3], {"wanted": 10, "found": 3, "looks": 1}),
        ([None], None),
        ([OSError("refused")], None),
    ],
)
def test_points_are_counted_until_all_are_found(
    answers: list[Any],
    record: dict[str, int] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = SimpleNamespace(acknowledged=10, sent=11)
    found = SimpleNamespace(counts=counts, acknowledges=True)
    monkeypatch.setattr(visible.outcomes, "read", lambda *_: found)
    notes: list[str] = []
    state: Any = SimpleNamespace(
        schedule=SimpleNamespace(spec=SimpleNamespace(end_ms=1_000)),
        folder=tmp_path,
        note=lambda *said: notes.append(" ".join(said)),
    )
    left = list(answers)

    def ask(_: Any) -> Any:
        said = left.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    session: Any = SimpleNamespace(visible=ask)
    patience_s = 60.0 if answers[-1] == 10 else 0.0
    visible.watch(state, session, Console(quiet=True), lambda _: None, patience_s)
    path = tmp_path / run_folder.VISIBLE
    assert path.exists() == (record is not None)
    if record is not None:
        told = json.loads(path.read_text())
        assert (told.pop("after_due_s") is not None) == (record["found"] == 10)
        assert told == record
    assert notes == (["points not counted refused"] if answers != [None] and not record else [])
