"""What is sampled of the servers of this machine."""

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.sampling import Followed
from kairoscope.run import host_probe, samplers
from kairoscope.run_folder import JsonLines


def test_a_servers_children_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = "n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done; echo done; read line"
    with subprocess.Popen(
        ["sh", "-c", f"sh -c '{spent}'; true"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "done\n"
        told = supervisor.Process("pool", "RUNNING", server.pid, 0.0)
        monkeypatch.setattr(supervisor, "processes", lambda _: [told])
        home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
        home.mkdir()
        elsewhere.write_bytes(b"x" * 1_000_000)
        (home / "link").symlink_to(elsewhere)
        host = Host("x-1", "kairosdb", {"home": str(home), "processes": {"pool": "pool"}})
        files = [JsonLines(tmp_path / name) for name in ("processes.jsonl", "events.jsonl")]
        samplers.Processes([host], tmp_path, *files, lambda _: None).sample()
        (child,) = psutil.Process(server.pid).children()
        alone = [host_probe.usage(pid) for pid in (server.pid, child.pid)]
        server.communicate("\n", timeout=60)
    seen = [json.loads(line) for line in (tmp_path / "processes.jsonl").read_text().splitlines()]
    (of_pool,) = [record for record in seen if record["name"] == "pool"]
    assert all(alone)
    assert of_pool["cpu_s"] >= sum(usage["cpu_s"] for usage in alone if usage) > 0
    # Counted as on hosts: a link is not what it leads to.
    assert of_pool["disk_bytes"] < 1_000_000
    assert of_pool["rss_bytes"] == sum(usage["rss_bytes"] for usage in alone if usage)


def test_a_host_whose_lines_cannot_be_kept_is_not_followed_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread died of it, and the run went on as if all had been seen."""
    monkeypatch.setattr(ssh, "command", lambda _, program, **__: program)
    kept: list[str] = []

    def keep(host: Host, line: str) -> None:
        if host.name == "storage-2":
            raise OSError("No space left on device")
        kept.append(line)

    followed = Followed(
        [Host(f"storage-{n}", "storage", {}) for n in (1, 2)],
        "probe",
        lambda host: ["sh", "-c", f"echo {host.name}; exec sleep 600"],
        keep,
        JsonLines(tmp_path / "events.jsonl"),
        lambda _: False,
    )
    assert followed.error is None
    followed.start()
    deadline = time.monotonic() + 10
    while not (followed.error and kept) and time.monotonic() < deadline:
        time.sleep(0.01)
    followed.stop()
    assert kept == ["storage-1\n"]
    assert followed.error == "probe of storage-2: OSError: No space left on device"


def test_a_look_at_a_host_is_told_by_our_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own, of a quarter of a minute behind, the figures would be of another time than the
    load's."""
    monkeypatch.setattr(ssh, "command", lambda _, program, **__: program)
    used = {"pid": 4, "cpu_s": 1.0}
    servers = {"storage-1": {"state": "active", "used": used}}
    found = {"servers": servers, "workers": {"0": used}, "host": {"cpu_busy_s": 7.0}}
    told = json.dumps(found | {"t": 1000.0})
    program = ["sh", "-c", f"echo '{told}'; exec sleep 600"]
    monkeypatch.setattr(samplers.HostProbes, "_probe", lambda *_: program)
    files = [JsonLines(tmp_path / name) for name in ("processes.jsonl", "events.jsonl")]
    hosts = [Host("storage-1", "storage", {})]
    probes = samplers.HostProbes(hosts, 1, *files, lambda _: None, lambda _: False, ())
    before = time.time()
    probes.start()
    deadline = time.monotonic() + 10
    while len(looks := list(run_folder.records(tmp_path / "processes.jsonl"))) < 3:
        assert time.monotonic() < deadline, probes.error
        time.sleep(0.01)
    probes.stop()
    names = {look["name"] for look in looks}
    assert names == {"storage-1", "loader-worker-0", "host storage-1"}
    assert all(before <= look["t"] <= time.time() for look in looks)


def test_a_server_lives_on_while_supervisord_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All had ended and started again, by which a run of one server was incomplete."""
    events = tmp_path / "events.jsonl"
    host = Host("x-1", "kairosdb", {"home": str(tmp_path), "processes": {"pool": "pool"}})
    files = [JsonLines(tmp_path / "processes.jsonl"), JsonLines(events)]
    looks = samplers.Processes([host], tmp_path, *files, lambda _: None)

    def fail() -> None:
        raise UserError("supervisord has not answered")

    with subprocess.Popen(["sleep", "600"]) as server, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(server.kill)
        told = supervisor.Process("pool", "RUNNING", server.pid, 0.0)
        for answer in (fail, lambda: None, lambda: [told], lambda: None, fail, lambda: [told]):
            monkeypatch.setattr(supervisor, "processes", lambda _, answer=answer: answer())
            looks.sample()
        records = list(run_folder.records(tmp_path / "processes.jsonl"))
        assert [r["pid"] for r in records if r["name"] == "pool"] == [server.pid] * 4
        assert events.read_text() == ""
        server.kill()
        server.wait()
        monkeypatch.setattr(supervisor, "processes", lambda _: None)
        looks.sample()
    (event,) = map(json.loads, events.read_text().splitlines())
    assert event["what"] == "process ended"


def test_a_supervisord_that_stands_still_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it taken for one that does not run, of which all that it kept is ended."""
    monkeypatch.setattr(supervisor, "_ANSWERS_WITHIN_S", 0.1)
    assert supervisor.processes(tmp_path) is None
    with socket.socket(socket.AF_UNIX) as still:
        still.bind(str(tmp_path / "sock"))
        still.listen()
        with pytest.raises(UserError, match=r"has not answered for 0\.1 s"):
            supervisor.processes(tmp_path)
    assert supervisor.processes(tmp_path) is None
