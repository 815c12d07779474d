"""`kairoscope queue …` on this machine, with a stand-in for the tool in KairosDB's bundle."""

import base64
import contextlib
import io
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kairoscope import paths
from kairoscope.deploy.operate import drain, queue
from kairoscope.deploy.operate.queue import Choice, Contents
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, services
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.hosts.supervisor import Process
from kairoscope.stacks.kairosdb.given_up import dead_letters
from kairoscope.stacks.kairosdb.servers import client

# Keeps its points in a file of JSON lines, and speaks as io.kairoscope.kairosdb.queue.QueueTool.
TOOL = """#!PYTHON
import collections, json, pathlib, sys
arguments = sys.argv[sys.argv.index("io.kairoscope.kairosdb.queue.QueueTool") + 1:]
assert sys.argv[sys.argv.index("-cp") + 1].endswith("/lib/*"), "for Java to expand"
verb, folder, options = arguments[0], pathlib.Path(arguments[1]), arguments[2:]
metric = options[options.index("--metric") + 1] if "--metric" in options else None
file = folder / "points"
if not file.exists():
    sys.exit(f"{folder} has no queue")
points = [json.loads(line) for line in file.read_text().splitlines()]
if verb == "drop" and (folder / "in-use").exists():
    print("Exception in thread main", file=sys.stdout)
    sys.exit("a running KairosDB has the folder")
chosen = [p for p in points if metric is None or p["name"] == metric]
if verb == "inspect":
    print("Picked up JAVA_TOOL_OPTIONS: -Dx")
    counts = collections.Counter(p["name"] for p in points)
    torn = len(list(folder.glob("torn")))
    print(json.dumps(dict(waiting=len(points), since_checkpoint=7, bytes=52428800,
        oldest_taken_at=1700000000000 if points else None, unreadable=torn, metrics=counts)))
elif verb == "export":
    for point in chosen:
        print(json.dumps(point))
elif verb == "drop":
    assert metric is not None or "--all" in options
    file.write_text("".join(json.dumps(p) + "\\n" for p in points if p not in chosen))
    print(json.dumps(dict(dropped=len(chosen))))
"""


def point(metric: str, value: int) -> dict[str, Any]:
    return {
        "name": metric,
        "timestamp": 1_700_000_000_000 + value,
        "value": value,
        "type": "long",
        "tags": {"site": "a"},
        "ttl": 0,
    }


POINTS = [point("boiler", n) for n in range(3)] + [point("pump", n) for n in range(2)]
LETTER = {
    "metric": "boiler",
    "tags": {"site": "a"},
    "type": "kairos_long",
    "time": 1_700_000_000_000,
    "value_base64": base64.b64encode(b"\x06").decode(),
    "ttl": 700_000_000,
    "taken_at": 1_700_000_000_000,
    "dead_at": 1_700_000_015_000,
    "reason": "expires too late",
}


class Here:
    """A target of one KairosDB node on this machine, and what was done to it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.text = io.StringIO()
        self.console = Console(file=self.text, width=200, highlight=False)
        self.state = "RUNNING"
        java, control = folder / "java", folder / "supervisorctl"
        java.write_text(TOOL.replace("PYTHON", sys.executable))
        control.write_text(f'#!/bin/sh\necho "$@" >> {folder}/control\n')
        for program in (java, control):
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.host = Host(
            "kairosdb-1",
            "kairosdb",
            {
                "ansible_connection": "local",
                "home": str(folder / "kairosdb-1"),
                "java": str(java),
                "kairosdb_bundle_dir": str(folder / "bundle"),
                "supervisorctl": [str(control)],
            },
        )
        self.queue = folder / "kairosdb-1" / "queue"
        self.queue.mkdir(parents=True)
        (self.queue / "points").write_text("".join(json.dumps(p) + "\n" for p in POINTS))
        self.hosts = [self.host]
        monkeypatch.setenv("KAIROSCOPE_HOME", str(folder / "home"))
        monkeypatch.chdir(folder)
        paths.target_dir("local").mkdir(parents=True)

        def load(target: str) -> Inventory:
            return Inventory(Path("/nowhere"), [], self.hosts, [])

        class Talk:
            def wait_until_healthy(self, host: Host, limit_s: float) -> None:
                """At once."""

        def of(*_: object) -> dict[str, Process]:
            return {"kairosdb-1": Process("kairosdb-1", self.state, 1, 0.0)}

        monkeypatch.setattr(inventory, "load", load)
        monkeypatch.setattr(services, "of", of)
        monkeypatch.setattr(client, "connect", lambda *_: contextlib.nullcontext(Talk()))

    def dead(self, *lines: str) -> None:
        (self.queue / dead_letters.FILE).write_text("".join(line + "\n" for line in lines))

    @property
    def controlled(self) -> list[str]:
        file = self.folder / "control"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def said(self) -> str:
        return self.text.getvalue()

    def left(self) -> list[dict[str, Any]]:
        return read(self.queue / "points")

    def drop(self, to: Path | None = None, **options: Any) -> None:
        chosen: dict[str, Any] = {"metric": None, "dead": False, "everything": False, "yes": False}
        choice = Choice.of(**(chosen | options))
        queue.drop("local", None, choice, to, self.console)


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path, monkeypatch)


def test_inspect(here: Here) -> None:
    here.dead(json.dumps(LETTER), json.dumps({**LETTER, "reason": "no such table"}))
    assert queue.inspect("local", None, here.console)
    assert "kairosdb-1: 5 points wait, the oldest for" in here.said
    assert "52.4 MB of files" in here.said
    assert "3  boiler" in here.said
    assert "2 dead letters" in here.said
    assert "1  no such table" in here.said
    assert "whole: everything" in here.said
    assert here.controlled == []


def test_what_is_torn_is_not_whole(here: Here) -> None:
    here.dead(json.dumps(LETTER), '{"metric": "boi')
    assert not queue.inspect("local", "kairosdb-1", here.console)
    assert "NOT WHOLE: 1 lines of the dead letters" in here.said
    (here.queue / "torn").touch()
    assert not queue.inspect("local", None, here.console)
    assert "NOT WHOLE: 1 records cannot be read" in here.said


def test_a_queue_that_cannot_be_looked_at_says_why(here: Here) -> None:
    (here.queue / "points").unlink()
    assert not queue.inspect("local", None, here.console)
    assert here.said.strip() == f"kairosdb-1: not known: {here.queue} has no queue"
    with pytest.raises(UserError, match="has no queue"):
        queue.export("local", None, here.folder / "out", dead=False, console=here.console)
    assert not (here.folder / "out").exists()
    with pytest.raises(UserError, match="There are: kairosdb-1"):
        queue.inspect("local", "kairosdb-7", here.console)


def test_only_the_most_frequent_are_named() -> None:
    found = Contents(waiting=60, metrics={f"m{n:02}": n for n in range(1, 31)})
    lines = list(queue.describe("kairosdb-1", found, 0.0))
    assert len(lines) == 1 + queue.TOP + 1 + 1
    assert lines[1].split() == ["30", "m30"]
    assert lines[queue.TOP + 1].split(maxsplit=1) == ["55", "of 10 other metrics"]


def test_export_of_what_waits_and_of_what_is_dead(here: Here) -> None:
    queue.export("local", None, here.folder / "waiting", dead=False, console=here.console)
    assert read(here.folder / "waiting") == POINTS
    here.dead(json.dumps(LETTER), "torn")
    queue.export("local", None, here.folder / "dead", dead=True, console=here.console)
    wanted = {**point("boiler", 0), "value": 3, "ttl": 700_000_000}
    assert read(here.folder / "dead") == [wanted]
    assert "1 lines of the dead letters cannot be read" in here.said
    with pytest.raises(UserError, match="is there already"):
        queue.export("local", None, here.folder / "dead", dead=True, console=here.console)
    assert here.left() == POINTS


@pytest.mark.parametrize(
    ("options", "left", "words"),
    [
        ({"metric": "boiler"}, POINTS[3:], "dropped 3 points of boiler"),
        ({"everything": True, "yes": True}, [], "dropped 5 points that waited"),
        ({"metric": "nobody"}, POINTS, "dropped 0 points of nobody"),
    ],
)
def test_drop(here: Here, options: dict[str, Any], left: list[Any], words: str) -> None:
    here.drop(here.folder / "kept", **options)
    assert here.left() == left
    assert read(here.folder / "kept") == [p for p in POINTS if p not in left]
    assert words in here.said
    assert here.controlled == ["stop kairosdb-1", "start kairosdb-1"]


def test_dropped_dead_letters_are_kept_here_with_their_reasons(here: Here) -> None:
    here.dead(json.dumps(LETTER), "torn")
    here.drop(dead=True)
    kept, letters = sorted(here.folder.glob("dropped-kairosdb-1-*"), key=lambda p: len(p.name))
    assert [p["value"] for p in read(kept)] == [3]
    assert letters.read_text() == json.dumps(LETTER) + "\ntorn\n"
    assert not (here.queue / dead_letters.FILE).exists()
    assert here.left() == POINTS
    assert "dropped 1 points that were refused, and 1 lines that cannot be read" in here.said


def test_a_server_that_somebody_has_stopped_stays_so(here: Here) -> None:
    here.state = "STOPPED"
    here.drop(metric="boiler")
    assert here.left() == POINTS[3:]
    assert here.controlled == []


def test_it_runs_again_whatever_happens(here: Here) -> None:
    (here.queue / "in-use").touch()
    with pytest.raises(UserError, match="kairosdb-1: a running KairosDB has the folder"):
        here.drop(metric="boiler")
    assert here.controlled == ["stop kairosdb-1", "start kairosdb-1"]
    assert here.left() == POINTS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Drop what?"),
        ({"metric": "a", "dead": True}, "Drop what?"),
        ({"metric": "a", "everything": True, "yes": True}, "Drop what?"),
        ({"yes": True}, "Drop what?"),
        ({"everything": True}, "--all --yes"),
        ({"metric": ""}, "needs a name"),
    ],
)
def test_nothing_is_dropped_without_a_clear_choice(
    here: Here, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        here.drop(**options)
    assert here.controlled == []


def test_nothing_is_stopped_for_what_cannot_be(here: Here) -> None:
    (here.folder / "kept").touch()
    with pytest.raises(UserError, match="is there already"):
        here.drop(here.folder / "kept", dead=True)
    refused = pytest.raises(UserError, match="A load runs")
    with operation.hold(operation.load_lock("local"), "never"), refused:
        here.drop(dead=True)
    here.hosts.append(Host("kairosdb-2", "kairosdb", here.host.vars))
    with pytest.raises(UserError, match="one of kairosdb-1, kairosdb-2"):
        here.drop(dead=True)
    assert here.controlled == []


def test_a_node_that_does_not_run_leaves_by_itself_only_with_an_empty_queue(here: Here) -> None:
    """Else what was acknowledged would go with its host; dropped, it is in a file here."""
    with pytest.raises(UserError, match="kairosdb-1: 5 points are in its queue"):
        drain.check_empty(here.host)
    operation.begin("local", Operation("remove-kairosdb", "kairosdb-1"))
    here.drop(everything=True, yes=True)
    drain.check_empty(here.host)
    (here.queue / "torn").touch()
    with pytest.raises(UserError, match="0 points are in its queue, and 1 that cannot be read"):
        drain.check_empty(here.host)
    # Its disk is not mounted, for example.
    (here.queue / "points").unlink()
    with pytest.raises(UserError, match=r"what is in its queue is not known: .* has no queue"):
        drain.check_empty(here.host)
    operation.begin("local", Operation("restore"))
    with pytest.raises(UserError, match="was interrupted"):
        here.drop(here.folder / "more", everything=True, yes=True)


def test_on_a_host_it_is_kairosdbs_own_user() -> None:
    variables = {
        "home": "/var/lib/kairoscope/kairosdb-1",
        "java": "/opt/java",
        "kairosdb_bundle_dir": "/opt/kairosdb",
        "run_as": "kairosdb",
        "unit": "kairosdb",
        "managed": True,
    }
    host = Host("kairosdb-1", "kairosdb", variables)
    line = queue.command(host, "drop", "--all")
    assert line[:5] == ["runuser", "-u", "kairosdb", "--", "/opt/java"]
    folder = "/var/lib/kairoscope/kairosdb-1/queue"
    assert line[-6:] == ["-cp", "/opt/kairosdb/lib/*", queue.TOOL, "drop", folder, "--all"]
    assert queue._service(host, "stop") == ["systemctl", "stop", "kairosdb.service"]


def test_java_is_let_into_what_kairosdb_is_let_into() -> None:
    template = (paths.KAIROSDB_CONF / "templates" / "java.args.j2").read_text().splitlines()
    wanted = {line for line in template if line.startswith(("--add-opens", "--add-exports"))}
    assert wanted == {option for option in queue.JAVA_OPTIONS if option.startswith("--add")}
