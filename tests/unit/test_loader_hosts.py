"""Loader hosts: real agents and workers on this machine, a sink for KairosDB, and trouble."""

import contextlib
import dataclasses
import fcntl
import itertools
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads import load_spec
from ssh_server import SshServer, new_key

from kairoscope.errors import UserError
from kairoscope.hosts import loader
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.ssh import command
from kairoscope.run import agent as agents
from kairoscope.run import collecting
from kairoscope.run import fleet as loader_hosts
from kairoscope.run_folder import ClockOffset
from loaders import emulator, host
from loaders.emulator import Progress
from loaders.query import query_files
from loaders.query.queries import QueryLoad
from loaders.record import files
from loaders.schedule import shard
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Queries, Step
from loaders.sink.process import SinkProcess

pytestmark = pytest.mark.timeout(120)

LIMIT_MS = 500  # on one machine there is one clock, but a ping may have to wait
SENSORS = 40
FOR_EVER = [Step(50, 100_000)]


@pytest.fixture(scope="module")
def sink() -> Iterator[SinkProcess]:
    with SinkProcess(count=True) as sink:
        yield sink


@pytest.fixture(autouse=True, scope="module")
def often() -> Iterator[None]:
    """Reports that do not come once a second, but as soon as there is something to report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader_hosts, "_BEAT_S", 0.2)
        patch.setattr(emulator, "_REPORT_S", 0.2)
        patch.setattr(collecting, "_BACK_S", 2.0)
        patch.setattr(collecting, "_AGAIN_S", 0.2)
        yield


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """No agent and no worker outlives a test; both have their folder on the command line."""
    with nothing_left_below(tmp_path):
        yield


@contextlib.contextmanager
def nothing_left_below(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        left = processes(folder)
        for process in left:
            process.kill()
    assert not left


def processes(folder: Path, what: str = "loaders.") -> list[psutil.Process]:
    """Live processes of a module whose command line names a path below a folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        ours = any(part.startswith(what) for part in command) and any(
            part.startswith(str(folder)) for part in command
        )
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def wait_for(what: str, probe: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := probe()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain for {what}")
        time.sleep(0.05)
    return found


def local(folder: Path, name: str = "loader-1", **more: Any) -> Host:
    """A loader host on this machine."""
    return Host(
        name,
        "loader",
        {
            "ansible_connection": "local",
            "address": "127.0.0.1",
            "home": str(folder / name),
            "loader_venv": sys.prefix,
        }
        | more,
    )


def two(folder: Path, **of_the_second: Any) -> list[Host]:
    """Two loader hosts on this machine."""
    second = {"address": "127.0.0.2"} | of_the_second
    return [local(folder), local(folder, "loader-2", **second)]


def remote(folder: Path, name: str = "loader-1", **more: Any) -> Host:
    """A loader host that is reached by ssh, with a home that a shell might take for two."""
    return Host(
        name,
        "loader",
        {"address": "10.0.0.8", "home": str(folder / "a home" / name), "loader_venv": sys.prefix}
        | more,
    )


def python_that(folder: Path, prelude: str) -> str:
    """An environment in a new folder whose Python runs some lines before the agent."""
    path = folder / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"#!{sys.prefix}/bin/python -P\n"
        "import runpy, sys, time\n"
        "from loaders import emulator, host\n"
        f"{prelude}\n"
        "sys.argv = sys.argv[3:]\n"  # python -P -m loaders.host …
        "sys.exit(host.main(sys.argv[1:]))\n"
    )
    path.chmod(0o755)
    return str(folder)


def load(sink: SinkProcess, *, start_in_ms: int = 0, **more: Any) -> LoadSpec:
    return LoadSpec(
        **{
            "sensors": SENSORS,
            "steps": [Step(50, 10)],
            "warmup_ticks": 2,
            "start_ms": int(time.time() * 1000) + start_in_ms,
            "nodes": [sink.url],
            "metric": "SENSOR_{n}",
            "tags": {"status": "good"},
            "sensors_per_request": 5,
            "request_timeout_s": 60,
            "retry_for_s": 10,
            "latency_limit_ms": 5000,
            "connections_per_node": 4,
            "hosts": 2,
            "workers_per_host": 1,
            **more,
        }
    )


def in_steps(play: Iterator[None]) -> Callable[[Any], None]:
    """A callback for progress that takes a generator a step further each time."""
    return lambda _: next(play, None)


def in_mid_run(sink: SinkProcess, trouble: Callable[[], None]) -> Callable[[Any], None]:
    """A callback that makes trouble once points have come."""
    before = sink.stats()["points"]

    def play() -> Iterator[None]:
        while sink.stats()["points"] == before:
            yield
        trouble()

    return in_steps(play())


@contextlib.contextmanager
def stalled(sink: SinkProcess) -> Iterator[None]:
    """No load comes to its end while the sink does not answer, however slow this machine is."""
    sink.stall(3600)
    try:
        yield
    finally:
        sink.stall(0)


def written(path: Path) -> bool:
    """Whether there is something in a file."""
    return path.exists() and path.stat().st_size > 0


def waits(worker_file: Path) -> bool:
    """Whether a worker has said that it waits for answers."""
    lines = worker_file.read_text().splitlines() if worker_file.exists() else []
    return bool(lines) and json.loads(lines[-1])["in_flight"] > 0


# A load that goes well


def test_all_hosts_send_their_share_and_their_files_come_here(
    sink: SinkProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "run" / "load"
    folder.mkdir(parents=True)
    (folder / "worker-9.json").write_text("of an earlier load")
    there = [tmp_path / "loader-1" / "load", tmp_path / "loader-2" / "load"]
    there[0].mkdir(parents=True)
    for name in ("worker-1.json", "worker-77.jsonl", "queries-0.json"):
        (there[0] / name).write_text("of an earlier load")
    before = sink.stats()["points"]
    seen: list[Progress] = []
    # The second host's clock is set back under the load.
    late = "true = time.time_ns\nif sys.argv[4].endswith('/clock'):\n"
    late += "    time.time_ns = lambda: true() - 7_000_000_000"
    hosts = two(tmp_path, loader_venv=python_that(tmp_path / "late", late))
    with loader_hosts.connect(hosts, LIMIT_MS) as fleet:
        spec = load(sink, workers_per_host=2)
        results = fleet.run(spec, folder, seen.append)
        fleet.look_at_clocks_again(folder)

    assert [r["worker"] for r in results] == [0, 1, 2, 3]
    assert sum(r["acknowledged"] for r in results) == SENSORS * spec.ticks
    assert sink.stats()["points"] - before == SENSORS * spec.ticks
    assert seen[-1].acknowledged == seen[-1].due == SENSORS * spec.ticks

    assert LoadSpec.from_json((folder / "spec.json").read_text()) == spec
    every = (
        files.progress_path,
        files.histogram_path,
        files.wait_path,
        files.service_path,
        files.outcomes_path,
        files.events_path,
        files.result_path,
    )
    for worker in range(4):
        assert json.loads(files.result_path(folder, worker).read_text()) == results[worker]
        for path in every:
            assert (
                path(folder, worker).read_bytes() == path(there[worker // 2], worker).read_bytes()
            )
    names = {path(folder, worker).name for path in every for worker in range(4)}
    assert {path.name for path in folder.iterdir()} == names | {"spec.json", "hosts.json"}
    # A host forgets an earlier load: its files would be taken for those of this one.
    assert {path.name for path in there[0].iterdir()} == {
        host.LOCK,
        "spec.json",
        *(path(folder, worker).name for path in every for worker in (0, 1)),
    }

    first, second = json.loads((folder / "hosts.json").read_text())
    assert not ClockOffset(**first["after"]).exceeds(LIMIT_MS)
    assert second["after"]["offset_us"] == pytest.approx(-7_000_000, abs=LIMIT_MS * 1000)
    assert (first["host"], first["workers"]) == ("loader-1", [0, 1])
    assert (second["host"], second["address"]) == ("loader-2", "127.0.0.2")
    assert second["workers"] == [2, 3]
    assert second["cpus"] >= 1
    assert abs(second["offset_us"]) - second["rtt_us"] / 2 <= LIMIT_MS * 1000


def test_hosts_that_are_watched_tell_their_figures_while_they_load(
    sink: SinkProcess, tmp_path: Path
) -> None:
    """And one whose port is taken loads all the same."""
    with socket.create_server(("127.0.0.2", 0)) as free:
        port = free.getsockname()[1]
    texts: list[str] = []

    def play() -> Iterator[None]:
        while not texts or "worker=" not in texts[-1]:
            url = f"http://127.0.0.2:{port}/metrics"
            with contextlib.suppress(OSError), urllib.request.urlopen(url) as answer:
                texts.append(answer.read().decode())
            yield

    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = local(tmp_path, metrics_port=taken.getsockname()[1])
        second = local(tmp_path, "loader-2", address="127.0.0.2", metrics_port=port)
        with loader_hosts.connect([first, second], LIMIT_MS) as fleet:
            spec = load(sink, steps=[Step(50, 60)])
            results = fleet.run(spec, tmp_path / "load", in_steps(play()))
    assert [r["acknowledged"] for r in results] == [SENSORS * spec.ticks // 2] * 2
    assert 'kairoscope_loader_due_points_total{worker="1"}' in texts[-1]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.2:{port}/metrics")


@given(st.integers(1, 20), st.integers(1, 20))
def test_hosts_share_the_workers(hosts: int, each: int) -> None:
    shares = [shard.host_workers(hosts, each, index) for index in range(hosts)]
    assert [worker for share in shares for worker in share] == list(range(hosts * each))
    assert all(worker // each == i for i, share in enumerate(shares) for worker in share)


def test_a_spec_for_another_number_of_hosts(sink: SinkProcess, tmp_path: Path) -> None:
    fleet = loader_hosts.Fleet([])
    with pytest.raises(ValueError, match=r"hosts: 0 are connected, the spec has 2"):
        fleet.run(load(sink), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Refused before anything is sent


def refused(hosts: list[Host]) -> str:
    """What is said of hosts that no load can be started on."""
    with pytest.raises(UserError) as caught, loader_hosts.connect(hosts, LIMIT_MS):
        pytest.fail("connected")
    return caught.value.message


def test_a_host_whose_clock_is_wrong(tmp_path: Path) -> None:
    late = "true = time.time_ns\ntime.time_ns = lambda: true() - 7_000_000_000"
    said = refused(two(tmp_path, loader_venv=python_that(tmp_path / "late", late)))
    assert "loader host loader-2 (127.0.0.2): its clock is " in said
    assert "loader-1" not in said
    assert " ms behind of this machine's" in said
    assert "limits.clock_offset_ms (500 ms)" in said


@given(
    st.integers(-(10**9), 10**9),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=9),
)
def test_the_true_offset_is_within_half_the_round_trip(
    offset: int, delays: list[tuple[int, int]]
) -> None:
    """However unevenly the way there and the way back share it."""
    pings, now = [], 10**15
    for there, back in delays:
        pings.append((now, now + there + offset, now + there + back))
        now += there + back + 1
    found = loader.best_offset(pings)
    assert abs(found.offset_us - offset) <= found.rtt_us / 2 + 1
    assert found.rtt_us == min(there + back for there, back in delays)
    assert not found.exceeds((abs(offset) + 1) / 1000)


def test_a_limit_is_exceeded_only_for_certain() -> None:
    assert not ClockOffset(-25_000, 10_001).exceeds(20)
    assert ClockOffset(-25_000, 9_999).exceeds(20)
    assert ClockOffset(25_000, 9_999).exceeds(20)


def test_hosts_that_are_not_fit(tmp_path: Path) -> None:
    preludes = {
        "other code": "host.fingerprint = lambda: 'other'",
        "noise": "print('Welcome!', flush=True)",
        "ends": "sys.exit('no memory')",
        "says something else": "host._Agent.run = lambda self: print('{\"bye\": 1}')",
    }
    hosts = [local(tmp_path, "fit"), local(tmp_path, "bare", loader_venv="/nowhere")]
    for name, prelude in preludes.items():
        python = python_that(tmp_path / f"python that {name}", prelude)
        hosts.append(local(tmp_path, name, loader_venv=python))
    first, *lines, advice = refused(hosts).splitlines()
    assert first == "The load cannot be started:"
    begins = {
        "bare": "[Errno 2] No such file or directory: '/nowhere/bin/python'",
        "other code": "its loader (other) is not this checkout's (",
        "noise": "its login prints text of its own ('Welcome!')",
        "ends": "its agent ended with exit status 1: no memory",
        "says something else": "its agent ended with exit status 0",
    }
    assert len(lines) == len(begins)
    for line, (name, begin) in zip(lines, begins.items(), strict=True):
        assert line.startswith(f"  loader host {name} (127.0.0.1): {begin}")
    assert "make deploy" in advice

    assert loader.version(hosts[0]) == loader.current_version()
    assert loader.version(hosts[1]) is None


def test_hosts_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is named, not what one host has left of it for the next."""
    monkeypatch.setattr(loader, "READY_S", 0.5)
    monkeypatch.setattr(agents, "STOP_S", 0.1)
    asleep = python_that(tmp_path / "asleep", "time.sleep(1000)")
    said = refused([local(tmp_path, name, loader_venv=asleep) for name in ("one", "other")])
    for name in ("one", "other"):
        assert f"loader host {name} (127.0.0.1): it did not answer within 0.5 s" in said


def test_a_host_that_ssh_does_not_reach_is_named_without_how_it_is_reached(tmp_path: Path) -> None:
    """An inventory may have a password there, and what a load says is kept in logs."""
    with SshServer(tmp_path / "server") as server:
        way = server.variables()
    way["ansible_ssh_common_args"] = f"{way['ansible_ssh_common_args']} -o SetEnv=JUMP=hunter2"
    said = refused([local(tmp_path, "fit"), remote(tmp_path, "away", **way)])
    assert "loader host away (10.0.0.8): ssh failed: " in said
    assert "Where ssh failed (away): is the host up" in said
    assert "hunter2" not in said


def test_no_hosts() -> None:
    with (
        pytest.raises(UserError, match="no loader host"),
        loader_hosts.connect([], LIMIT_MS),
    ):
        pytest.fail("connected")


# Trouble in mid-run


@dataclasses.dataclass(frozen=True)
class Troubled:
    """What is left of a load in which one host after the other was lost."""

    numbers: dict[str, int]
    results: list[dict[str, Any]]
    folder: Path

    def result(self, name: str) -> dict[str, Any]:
        """Of the one worker of a host."""
        return self.results[self.numbers[name]]

    def result_file(self, name: str) -> Path:
        """Where it is if it was collected."""
        return files.result_path(self.folder, self.numbers[name])

    def progress_file(self, name: str) -> Path:
        """Likewise."""
        return files.progress_path(self.folder, self.numbers[name])


@pytest.fixture(scope="module")
def troubled(sink: SinkProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    """Two hosts that nothing befalls, and one for each thing that may befall a host."""
    home = tmp_path_factory.mktemp("troubled")
    noisy = (
        "run = emulator.run_hosts\n"
        "def noisy(*arguments, **more):\n"
        "    sys.stdout.buffer.write(b'\\xff\\x00\\n[1]\\n\"x\"\\n{}\\n\\n{\\n')\n"
        "    return run(*arguments, **more)\n"
        "emulator.run_hosts = noisy"
    )
    full = (
        "def fail(*arguments, **more):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "emulator.run_hosts = fail"
    )
    tar = home / "bin" / "tar"
    tar.parent.mkdir()
    tar.write_text(
        "#!/bin/sh\n"
        'case $2 in *noisy*) echo {} | tee "$2/worker-0.json" > "$2/queries-0.json";; esac\n'
        f'{shutil.which("tar")} "$@" || exit\n'
        "case $2 in *broken-tar*) echo broken >&2; exit 2;; esac\n"
    )
    tar.chmod(0o755)
    with (
        pytest.MonkeyPatch.context() as patch,
        nothing_left_below(home),
        SshServer(home / "server-1") as dropping,
        SshServer(home / "server-2") as stopping,
    ):
        patch.setenv("PATH", f"{tar.parent}:{os.environ['PATH']}")
        hosts = [
            local(home, "well"),
            local(home, "noisy", loader_venv=python_that(home / "python that is noisy", noisy)),
            local(home, "full-disk", loader_venv=python_that(home / "python that fails", full)),
            local(home, "broken-tar"),
            local(home, "killed"),
            local(home, "silent"),
            remote(home, "ssh-killed", **dropping.variables()),
            remote(home, "ssh-dropped", **dropping.variables()),
            remote(home, "ssh-stopped", **stopping.variables()),
        ]

        working = [
            files.progress_path(host.home / "load", number)
            for number, host in enumerate(hosts)
            if host.name != "full-disk"
        ]

        def play() -> Iterator[None]:
            while not all(map(waits, working)):
                yield
            patch.setattr(agents, "_SILENT_BEATS", 10)
            (killed,) = processes(home / "killed", "loaders.host")
            killed.kill()
            for process in processes(home / "silent"):
                process.suspend()
            (ssh,) = (
                child
                for child in psutil.Process().children()
                if child.name() == "ssh" and "ssh-killed" in child.cmdline()[-1]
            )
            ssh.kill()
            dropping.drop()
            stopping.stop()
            while len(processes(home, "loaders.send.worker")) > len(
                ["well", "noisy", "broken-tar"]
            ):
                yield
            sink.stall(0)

        with stalled(sink), loader_hosts.connect(hosts, LIMIT_MS) as fleet:
            spec = load(sink, hosts=len(hosts))
            results = fleet.run(spec, home / "run", in_steps(play()))
        # Nobody could wait for those behind the server that is gone.
        wait_for("the end of all", lambda: not processes(home))
        numbers = {host.name: number for number, host in enumerate(hosts)}
        yield Troubled(numbers, results, home / "run")


@pytest.mark.parametrize("name", ["well", "noisy"])
def test_other_hosts_do_their_share(troubled: Troubled, name: str) -> None:
    result = troubled.result(name)
    assert "died" not in result
    assert result["acknowledged"] == result["scheduled"] > 0
    assert json.loads(troubled.result_file(name).read_text()) == result
    # A host gives its own files and no others.
    assert not query_files.result_path(troubled.folder, 0).exists()


LOST = {
    "full-disk": "its agent ended with exit status 3: [Errno 28] No space left on device",
    "broken-tar": "its files could not be collected: broken",
    "killed": "its agent was killed by signal 9",
    "silent": "silent for 2 s",
    "ssh-killed": "ssh to it was killed by signal 9",
    "ssh-dropped": "ssh failed: ",
    "ssh-stopped": "ssh failed: ",
}


@pytest.mark.parametrize("name", LOST)
def test_a_lost_host_is_named(troubled: Troubled, name: str) -> None:
    result = troubled.result(name)
    assert result["worker"] == troubled.numbers[name]
    assert result["died"].startswith(f"loader host {name}: {LOST[name]}")


@pytest.mark.parametrize("name", ["killed", "ssh-killed", "ssh-dropped"])
def test_workers_of_a_lost_host_stop_and_are_collected(troubled: Troubled, name: str) -> None:
    left = json.loads(troubled.result_file(name).read_text())
    assert left["stopped_early"]
    assert left["unknown"] > 0
    assert left["scheduled"] == left["not_sent"] + left["unknown"]


@pytest.mark.parametrize("name", ["full-disk", "broken-tar", "silent", "ssh-stopped"])
def test_half_of_the_files_of_a_host_are_worse_than_none(troubled: Troubled, name: str) -> None:
    """Its last words are what counts; what it did until then may be looked at."""
    assert not troubled.result_file(name).exists()
    # Of what ssh does not reach any more, if it has told any.
    told = name == "ssh-stopped" and troubled.result(name)["last"] is not None
    assert written(troubled.progress_file(name)) == (told or name in ("broken-tar", "silent"))


@pytest.mark.parametrize("back", [True, False])
def test_a_host_that_ssh_does_not_reach_is_asked_again(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    if back:
        monkeypatch.setattr(collecting, "_BACK_S", 60.0)
    told: list[str] = []
    gone = threading.Event()
    with SshServer(tmp_path / "before") as before, SshServer(tmp_path / "after") as after:
        host = remote(tmp_path, **before.variables())

        def come_back(text: str) -> None:
            told.append(text)
            if back:
                host.vars.update(after.variables())

        def stop(progress: Progress) -> None:
            if progress.acknowledged and not gone.is_set():
                gone.set()
                before.stop()

        with loader_hosts.connect([host], LIMIT_MS) as fleet:
            spec = load(sink, hosts=1, steps=FOR_EVER)
            (result,) = fleet.run(spec, tmp_path / "run", stop, say=come_back)
        wait_for("the end of all", lambda: not processes(tmp_path))
    assert result["died"].startswith("loader host loader-1: ssh failed")
    assert [text.partition(";")[0] for text in told] == ["loader-1 does not answer"]
    # Of one that stays away there is what its workers told last, and no more.
    assert files.result_path(tmp_path / "run", 0).exists() == back
    if not back:
        last = json.loads(files.progress_path(tmp_path / "run", 0).read_text())
        assert last == result["last"]
        assert last["acknowledged"] > 0


def test_workers_of_a_killed_agent_settle_before_they_are_collected(
    sink: SinkProcess, tmp_path: Path
) -> None:
    def kill() -> None:
        (agent,) = processes(tmp_path, "loaders.host")
        agent.kill()

    with loader_hosts.connect([local(tmp_path)], LIMIT_MS) as fleet:
        spec = load(sink, hosts=1, steps=FOR_EVER)
        fleet.run(spec, tmp_path / "run", in_mid_run(sink, kill))
        assert not processes(tmp_path)
    assert json.loads(files.result_path(tmp_path / "run", 0).read_text())["stopped_early"]


def test_workers_that_do_not_end_after_their_agent(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "STOP_S", 1)
    frozen = False

    def freeze(progress: Progress) -> None:
        nonlocal frozen
        if progress.acknowledged and not frozen:
            frozen = True
            for process in processes(tmp_path, "loaders.send.worker"):
                process.suspend()
            for process in processes(tmp_path, "loaders.host"):
                process.kill()

    with loader_hosts.connect([local(tmp_path)], LIMIT_MS) as fleet:
        (result,) = fleet.run(load(sink, hosts=1, steps=FOR_EVER), tmp_path / "run", freeze)
        wait_for("the frozen worker's end", lambda: not processes(tmp_path))
    assert result["died"] == "loader host loader-1: its agent was killed by signal 9"
    assert result["last"]["acknowledged"] > 0


def test_a_worker_and_a_reader_are_killed(sink: SinkProcess, tmp_path: Path) -> None:
    there = tmp_path / "loader-2" / "load"

    def play() -> Iterator[None]:
        while not (
            waits(files.progress_path(there, 3)) and written(query_files.progress_path(there, 1))
        ):
            yield
        (worker,) = (
            process
            for process in processes(tmp_path / "loader-2", "loaders.send.worker")
            if process.cmdline()[-2] == "3"
        )
        worker.kill()
        (asking,) = processes(tmp_path / "loader-2", "loaders.query.reader")
        asking.kill()
        sink.stall(0)

    with stalled(sink), loader_hosts.connect(two(tmp_path), LIMIT_MS) as fleet:
        # All is due at once. Queries are, from the first whole second on.
        spec = load(
            sink,
            steps=[Step(100, 25)],
            workers_per_host=2,
            start_in_ms=-2500,
            queries=Queries(rate=10, last_s=1, lag_s=0, sensors=2, bucket_s=1),
        )
        results = fleet.run(spec, tmp_path / "run", in_steps(play()))
    assert results[3]["died"] == "signal 9 (SIGKILL) on loader-2"
    assert results[3]["last"]["worker"] == 3
    assert all(r["acknowledged"] == r["scheduled"] > 0 for r in results[:3])

    assert fleet.readers_died == ["the reader of loader-2 died: signal 9 (SIGKILL)"]
    assert not query_files.result_path(tmp_path / "run", 1).exists()
    assert written(query_files.progress_path(tmp_path / "run", 1))
    final = json.loads(query_files.result_path(tmp_path / "run", 0).read_text())
    # The sink knows nothing of queries.
    share = QueryLoad(Schedule(spec)).of_host(0)
    assert final["scheduled"] == final["failed"] == len(share) > 0
    assert query_files.histogram_path(tmp_path / "run", 0).exists()


def test_stop(sink: SinkProcess, tmp_path: Path) -> None:
    stop = threading.Event()
    with loader_hosts.connect(two(tmp_path), LIMIT_MS) as fleet:
        spec = load(sink, steps=FOR_EVER)
        results = fleet.run(spec, tmp_path / "run", in_mid_run(sink, stop.set), stop)
    assert sum(result["acknowledged"] for result in results) > 0
    for worker, result in enumerate(results):
        assert result["stopped_early"]
        assert result["not_sent"] > 0
        assert files.result_path(tmp_path / "run", worker).exists()


def test_a_load_that_is_to_end_now(sink: SinkProcess, tmp_path: Path) -> None:
    """Its schedule is cut, on all hosts at the same tick, and is sent whole."""
    enough = threading.Event()
    cut: list[LoadSpec] = []
    with loader_hosts.connect(two(tmp_path), LIMIT_MS) as fleet:
        spec = load(sink, steps=FOR_EVER)
        results = fleet.run(
            spec,
            tmp_path / "run",
            in_mid_run(sink, enough.set),
            until=enough.is_set,
            on_cut=cut.append,
        )
    (shorter,) = cut
    assert shorter.ticks < spec.ticks
    assert LoadSpec.from_json((tmp_path / "run" / "spec.json").read_text()) == shorter
    assert not any(result["stopped_early"] for result in results)
    assert sum(result["acknowledged"] for result in results) == Schedule(shorter).points
    assert sum(result["scheduled"] for result in results) == Schedule(shorter).points


def test_a_load_that_cannot_be_cut_is_what_it_was(tmp_path: Path) -> None:
    """On a disk that is full its specification was emptied, and nothing could be judged."""
    spec = load_spec(steps=[Step(1000, 10_000)], start_ms=time.time_ns() // 1_000_000)
    path = tmp_path / "spec.json"
    path.write_text(spec.to_json())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            loader_hosts.Fleet([])._cut(spec, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert LoadSpec.from_json(path.read_text()) == spec


def test_ctrl_c_stops_and_collects(sink: SinkProcess, tmp_path: Path) -> None:
    def interrupt() -> None:
        # A second one, while the hosts are being stopped, does not cut that short.
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        loader_hosts.connect(two(tmp_path), LIMIT_MS) as fleet,
    ):
        fleet.run(load(sink, steps=FOR_EVER), tmp_path / "run", in_mid_run(sink, interrupt))
    assert not processes(tmp_path)
    for worker in (0, 1):
        assert files.result_path(tmp_path / "run", worker).exists()


# The agent, when its controller is gone


@contextlib.contextmanager
def agent(folder: Path, python: str = sys.prefix) -> Iterator["subprocess.Popen[str]"]:
    """An agent of its own, ready."""
    process = subprocess.Popen(
        [f"{python}/bin/python", "-P", "-m", "loaders.host", folder / "loader-1", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"] == 0
            yield process
        finally:
            process.kill()


def start_load(process: "subprocess.Popen[str]", spec: LoadSpec) -> None:
    """Start it and wait until the workers report."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps({"spec": dataclasses.asdict(spec)}), file=process.stdin, flush=True)
    assert "progress" in json.loads(process.stdout.readline())


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "silence"])
def test_without_its_controller_an_agent_ends_its_workers(
    sink: SinkProcess, tmp_path: Path, how: str
) -> None:
    python = sys.prefix
    if how == "silence":
        python = python_that(tmp_path / "impatient", "host._SILENCE_S = 1")
    with agent(tmp_path, python) as process:
        start_load(process, load(sink, hosts=1, steps=FOR_EVER))
        if how == "end of input":
            process.stdin.close()
            process.stdin = None
        elif how == "SIGTERM":
            process.terminate()
        # Nobody has to read what it says for it to end.
        status = process.wait(60)
        output, errors = process.communicate()
    assert status == (0 if how == "end of input" else host.EXIT_STOPPED)
    results = json.loads(output.splitlines()[-1])["results"]
    assert all(result["stopped_early"] for result in results)
    reason = {"SIGTERM": "SIGTERM", "silence": "nothing was heard of the controller for 1 s"}
    assert errors == (f"the load was stopped: {reason[how]}\n" if how in reason else "")


def test_a_killed_controller_leaves_nothing(sink: SinkProcess, tmp_path: Path) -> None:
    spec = load(sink, steps=FOR_EVER)
    (tmp_path / "spec.json").write_text(spec.to_json())
    hosts = [(one.name, one.vars) for one in two(tmp_path)]
    code = (
        "from pathlib import Path; from kairoscope.run import fleet as l\n"
        "from kairoscope.hosts.inventory import Host; from loaders.schedule.spec import LoadSpec\n"
        f"hosts = [Host(name, 'loader', values) for name, values in {hosts!r}]\n"
        f"spec = LoadSpec.from_json(Path({str(tmp_path / 'spec.json')!r}).read_text())\n"
        f"with l.connect(hosts, {LIMIT_MS}) as fleet:\n"
        f"    fleet.run(spec, Path({str(tmp_path / 'run')!r}))\n"
    )
    controller = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_for("all workers", lambda: len(processes(tmp_path, "loaders.send.worker")) == 2)
    finally:
        controller.kill()
        controller.wait()
    wait_for("the end of all", lambda: not processes(tmp_path))


def test_one_load_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_LOCK_S", 0)
    with (tmp_path / host.LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(host.UsageError, match=r"another load runs here .*/lock is locked"):
            host._lock(tmp_path)
    os.close(host._lock(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "usage: "), (["x", "one"], "usage: "), (["/proc/no/such", "0"], "/proc/no")],
)
def test_an_agent_that_cannot_start(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert host.main(arguments) in (host.EXIT_USAGE, host.EXIT_FILES)
    assert said in capsys.readouterr().err


def test_a_bad_spec_ends_the_agent_with_its_reason(sink: SinkProcess, tmp_path: Path) -> None:
    spec = dataclasses.asdict(load(sink)) | {"sensors": 0}
    with agent(tmp_path) as process:
        _, errors = process.communicate(json.dumps({"spec": spec}) + "\n")
    assert process.returncode == host.EXIT_USAGE
    assert errors.startswith("sensors: ")


def test_processes_that_report_nothing_are_killed(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load(
        sink,
        hosts=1,
        steps=FOR_EVER,
        queries=Queries(rate=10, last_s=1, lag_s=1, sensors=2, bucket_s=1),
    )

    def freeze() -> Iterator[None]:
        while not (
            written(files.progress_path(tmp_path, 0))
            and written(query_files.progress_path(tmp_path, 0))
        ):
            yield
        monkeypatch.setattr(emulator, "_HANG_REPORTS", 5)
        for process in processes(tmp_path):
            process.suspend()

    results = emulator.run_hosts(spec, range(1), tmp_path, in_steps(freeze()))
    died = "killed, as it had not reported for 1 s"
    assert results.readers_died == [died]
    (worker,) = results.workers
    assert worker["died"] == died
    assert worker["last"]["worker"] == 0


# Over ssh


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with SshServer(tmp_path / "server") as server:
        yield server


def test_the_ssh_command_says_what_the_inventory_says(tmp_path: Path) -> None:
    host = remote(
        tmp_path,
        ansible_host="example.org",
        ansible_user="sensor",
        ansible_port=2222,
        ansible_ssh_private_key_file="/keys/one",
        ansible_ssh_common_args="-o 'ProxyCommand=nc -x %h' -o StrictHostKeyChecking=no",
    )
    line = command(host, ["echo", "a b"])
    assert line[0] == "ssh"
    assert "BatchMode=yes" in line
    assert line[-2:] == ["example.org", "echo 'a b'"]
    pairs = set(itertools.pairwise(line))
    assert {("-p", "2222"), ("-l", "sensor"), ("-i", "/keys/one")} <= pairs
    assert {("-o", "ProxyCommand=nc -x %h"), ("-o", "StrictHostKeyChecking=no")} <= pairs
    # Whether an unknown host is trusted is not ours to say.
    assert "StrictHostKeyChecking" not in str(command(remote(tmp_path), ["true"]))
    assert command(remote(tmp_path), ["true"])[-2:] == ["loader-1", "true"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ansible_connection": "winrm"}, "ansible_connection is winrm"),
        ({"ansible_user": "{{ name }}"}, "ansible_user is a template"),
    ],
)
def test_a_connection_that_is_not_known(tmp_path: Path, more: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match="loader-1") as caught:
        command(remote(tmp_path, **more), ["true"])
    assert said in caught.value.message


def test_ssh_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "loader-1" in (said := refused([remote(tmp_path)]))
    assert "scripts/need ssh" in said


def test_a_load_over_ssh(sink: SinkProcess, server: SshServer, tmp_path: Path) -> None:
    # Where the login happens to be.
    decoy = server.home / "loaders" / "__init__.py"
    decoy.parent.mkdir()
    decoy.write_text("raise SystemExit('not this one')")
    host = remote(tmp_path, **server.variables())
    assert loader.version(host) == loader.current_version()
    before = sink.stats()["points"]
    with loader_hosts.connect([host], LIMIT_MS) as fleet:
        spec = load(sink, hosts=1, workers_per_host=2)
        results = fleet.run(spec, tmp_path / "run")
    assert sum(result["acknowledged"] for result in results) == SENSORS * spec.ticks
    assert sink.stats()["points"] - before == SENSORS * spec.ticks
    for worker, result in enumerate(results):
        assert json.loads(files.result_path(tmp_path / "run", worker).read_text()) == result
        for path in (files.progress_path, files.histogram_path, files.outcomes_path):
            assert (
                path(tmp_path / "run", worker).read_bytes()
                == path(host.home / "load", worker).read_bytes()
            )
    server.stop()
    assert loader.version(host) is None


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("another host key", "Host key verification failed."),
        ("unknown host key", "Host key verification failed."),
        ("key may not log in", "Permission denied ("),
        ("key has a passphrase", "Permission denied ("),
        ("nobody listens", "Connection refused"),
        ("nobody speaks", "timed out"),
    ],
)
def test_ssh_that_fails(
    server: SshServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    said: str,
) -> None:
    """The host and ssh's reason are named, and nobody is asked for anything, ever."""
    askpass = tmp_path / "askpass"
    askpass.write_text(f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/asked'\necho yes\n")
    askpass.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(askpass))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("DISPLAY", ":0")

    variables = server.variables()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        match trouble:
            case "another host key":
                other = new_key(tmp_path / "other").export_public_key().decode()
                server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {other}")
            case "unknown host key":
                server.known_hosts.write_text("")
            case "key may not log in":
                new_key(server.user_key)
            case "key has a passphrase":
                encrypt = ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", server.user_key]
                subprocess.run(encrypt, check=True)
            case "nobody listens":
                server.stop()
            case "nobody speaks":
                variables = server.variables(ConnectTimeout="1")
                variables["ansible_port"] = silent.getsockname()[1]
        message = refused([remote(tmp_path, **variables)])
    _, line, _, advice = message.splitlines()
    assert line.startswith("  loader host loader-1 (10.0.0.8): ssh failed: ")
    assert said in line
    assert advice.startswith("Where ssh failed (loader-1): is the host up")
    assert not (tmp_path / "asked").exists()
    assert not server.passwords
    assert not server.commands
