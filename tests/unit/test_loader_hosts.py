"""Loader hosts: real agents and workers on this machine, a sink for KairosDB, and trouble."""

import contextlib
import dataclasses
import fcntl
import getpass
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import loader_hosts
from kairoscope.errors import UserError
from kairoscope.inventory import Host
from loaders import emulator, files, host, reader, shard
from loaders.emulator import Progress
from loaders.sink import SinkProcess
from loaders.spec import LoadSpec, Queries, Step

pytestmark = [pytest.mark.unit, pytest.mark.timeout(120)]

LIMIT_MS = 500  # on one machine there is one clock, but a ping may have to wait
SENSORS = 40


@pytest.fixture
def sink() -> Iterator[SinkProcess]:
    with SinkProcess(count=True) as sink:
        yield sink


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """No agent and no worker outlives a test; both have their folder on the command line."""
    yield
    left = processes(tmp_path)
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


def local(folder: Path, number: int = 2, **of_the_last: Any) -> list[Host]:
    """Loader hosts on this machine, with some variables of the last one replaced."""
    return [
        Host(
            f"loader-{i}",
            "loader",
            {
                "ansible_connection": "local",
                "address": f"127.0.0.{i}",
                "home": str(folder / f"loader-{i}"),
                "loader_venv": sys.prefix,
            }
            | (of_the_last if i == number else {}),
        )
        for i in range(1, number + 1)
    ]


def python_that(folder: Path, prelude: str) -> str:
    """An environment whose Python runs some lines before the agent; its folder."""
    path = folder / "other" / "bin" / "python"
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
    return str(folder / "other")


def load(sink: SinkProcess, *, start_in_ms: int = 700, ticks: int = 20, **more: Any) -> LoadSpec:
    return LoadSpec(
        **{
            "sensors": SENSORS,
            "steps": [Step(100, ticks)],
            "warmup_ticks": 2,
            "start_ms": int(time.time() * 1000) + start_in_ms,
            "nodes": [sink.url],
            "metric": "SENSOR_{n}",
            "tags": {"status": "good"},
            "sensors_per_request": 5,
            "request_timeout_s": 10,
            "retry_for_s": 10,
            "latency_limit_ms": 5000,
            "connections_per_node": 4,
            "hosts": 2,
            "workers_per_host": 2,
            **more,
        }
    )


def result_files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("worker-*.json")}


def check_lost(results: list[dict[str, Any]], why: str) -> None:
    """The first host did all of its share; each worker of the second says what became of it."""
    assert [r["worker"] for r in results] == [0, 1, 2, 3]
    for result in results[:2]:
        assert "died" not in result
        assert result["acknowledged"] == result["scheduled"] > 0
    for result in results[2:]:
        assert result["died"].startswith("loader host loader-2: ")
        assert why in result["died"]


# A load that goes well


def test_all_hosts_send_their_share_and_their_files_come_here(
    sink: SinkProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "run" / "load"
    folder.mkdir(parents=True)
    (folder / "worker-9.json").write_text("of an earlier load")
    seen: list[Progress] = []
    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        spec = load(sink)
        results = fleet.run(spec, folder, seen.append)

    assert [r["worker"] for r in results] == [0, 1, 2, 3]
    assert sum(r["acknowledged"] for r in results) == SENSORS * spec.ticks
    assert sink.stats()["points"] == SENSORS * spec.ticks
    assert seen[-1].acknowledged == seen[-1].due == SENSORS * spec.ticks

    assert LoadSpec.from_json((folder / "spec.json").read_text()) == spec
    for worker in range(4):
        assert json.loads(files.result_path(folder, worker).read_text()) == results[worker]
        there = tmp_path / f"loader-{worker // 2 + 1}" / "load"
        for name in (files.progress_path, files.histogram_path, files.outcomes_path):
            assert name(folder, worker).read_bytes() == name(there, worker).read_bytes()
    assert len(list(folder.glob("worker-*"))) == 4 * 5

    first, second = json.loads((folder / "hosts.json").read_text())
    assert (first["host"], first["workers"]) == ("loader-1", [0, 1])
    assert (second["host"], second["address"]) == ("loader-2", "127.0.0.2")
    assert second["workers"] == [2, 3]
    assert second["cpus"] >= 1
    assert abs(second["offset_us"]) - second["rtt_us"] / 2 <= LIMIT_MS * 1000


def test_a_host_forgets_an_earlier_load(sink: SinkProcess, tmp_path: Path) -> None:
    """Its files would be taken for those of workers of this one."""
    old = tmp_path / "loader-1" / "load"
    old.mkdir(parents=True)
    (old / "worker-1.json").write_text("{}")
    (old / "worker-77.jsonl").write_text("{}")
    (old / "queries-0.json").write_text("{}")
    with loader_hosts.connect(local(tmp_path, 1), LIMIT_MS) as fleet:
        fleet.run(load(sink, hosts=1, workers_per_host=1, ticks=4), tmp_path / "run")
    assert {path.name for path in old.glob("*.json*")} == {
        "spec.json",
        *(f"worker-0.{end}" for end in ("json", "jsonl", "outcomes.jsonl", "events.jsonl")),
    }


@given(st.integers(1, 20), st.integers(1, 20))
def test_hosts_share_the_workers(hosts: int, each: int) -> None:
    shares = [shard.host_workers(hosts, each, index) for index in range(hosts)]
    assert [worker for share in shares for worker in share] == list(range(hosts * each))
    assert all(worker // each == i for i, share in enumerate(shares) for worker in share)


def test_a_spec_for_another_number_of_hosts(sink: SinkProcess, tmp_path: Path) -> None:
    with (
        loader_hosts.connect(local(tmp_path, 1), LIMIT_MS) as fleet,
        pytest.raises(ValueError, match=r"hosts: 1 are connected, the spec has 2"),
    ):
        fleet.run(load(sink), tmp_path / "run")


def queries() -> Queries:
    return Queries(rate=10, last_s=1, lag_s=1, sensors=2, bucket_s=1)


def test_each_host_asks_its_share_of_the_queries(sink: SinkProcess, tmp_path: Path) -> None:
    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        fleet.run(load(sink, ticks=30, queries=queries()), tmp_path / "run")
    assert fleet.readers_died == []
    for number in (0, 1):
        final = json.loads(reader.result_path(tmp_path / "run", number).read_text())
        # The sink knows nothing of queries.
        assert final["host"] == number
        assert final["scheduled"] == final["failed"] > 0
        assert reader.histogram_path(tmp_path / "run", number).exists()


def test_a_reader_is_killed(sink: SinkProcess, tmp_path: Path) -> None:
    def kill() -> None:
        (process,) = processes(tmp_path / "loader-2", "loaders.reader")
        process.kill()

    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        spec = load(sink, ticks=80, queries=queries())
        results = fleet.run(spec, tmp_path / "run", in_mid_run(kill))
    assert fleet.readers_died == ["the reader of loader-2 died: signal 9 (SIGKILL)"]
    assert all(result["acknowledged"] == result["scheduled"] for result in results)
    assert reader.result_path(tmp_path / "run", 0).exists()
    assert not reader.result_path(tmp_path / "run", 1).exists()
    assert reader.progress_path(tmp_path / "run", 1).read_text()


# Refused before anything is sent


def test_a_host_whose_clock_is_wrong(sink: SinkProcess, tmp_path: Path) -> None:
    late = "true = time.time_ns\ntime.time_ns = lambda: true() - 7_000_000_000"
    hosts = local(tmp_path, loader_venv=python_that(tmp_path, late))
    with (
        pytest.raises(UserError) as caught,
        loader_hosts.connect(hosts, LIMIT_MS) as fleet,
    ):
        fleet.run(load(sink), tmp_path / "run")
    assert "loader host loader-2 (127.0.0.2): its clock is " in caught.value.message
    assert "loader-1" not in caught.value.message
    assert " ms behind of this machine's" in caught.value.message
    assert "limits.clock_offset_ms (500 ms)" in caught.value.message
    assert sink.stats()["requests"] == 0
    assert not (tmp_path / "run").exists()


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
    found = loader_hosts.best_offset(pings)
    assert abs(found.offset_us - offset) <= found.rtt_us / 2 + 1
    assert found.rtt_us == min(there + back for there, back in delays)
    assert not found.exceeds((abs(offset) + 1) / 1000)


def test_a_limit_is_exceeded_only_for_certain() -> None:
    assert not loader_hosts.ClockOffset(-25_000, 10_001).exceeds(20)
    assert loader_hosts.ClockOffset(-25_000, 9_999).exceeds(20)
    assert loader_hosts.ClockOffset(25_000, 9_999).exceeds(20)


@pytest.mark.parametrize(
    ("prelude", "said"),
    [
        ("host.fingerprint = lambda: 'other'", "its loader (other) is not this checkout's ("),
        ("print('Welcome!', flush=True)", "its login prints text of its own ('Welcome!')"),
        ("sys.exit('no memory')", "its agent ended with exit status 1: no memory"),
        ("host._Agent.run = lambda self: print('{\"bye\": 1}')", "its agent ended with"),
    ],
    ids=["other code", "noise", "ends", "says something else"],
)
def test_a_host_that_is_not_fit(tmp_path: Path, prelude: str, said: str) -> None:
    hosts = local(tmp_path, loader_venv=python_that(tmp_path, prelude))
    with pytest.raises(UserError) as caught, loader_hosts.connect(hosts, LIMIT_MS):
        pytest.fail("connected")
    assert f"loader host loader-2 (127.0.0.2): {said}" in caught.value.message
    assert "make deploy" in caught.value.message
    assert "loader-1" not in caught.value.message


def test_a_host_without_the_loader(tmp_path: Path) -> None:
    hosts = local(tmp_path, loader_venv="/nowhere")
    with (
        pytest.raises(UserError, match=r"(?s)loader-2 .*/nowhere/bin/python.*make deploy"),
        loader_hosts.connect(hosts, LIMIT_MS),
    ):
        pytest.fail("connected")
    assert loader_hosts.version(hosts[0]) == loader_hosts.current_version()
    assert loader_hosts.version(hosts[1]) is None


def test_a_host_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_hosts, "_READY_S", 0.5)
    monkeypatch.setattr(loader_hosts, "_STOP_S", 0.5)
    hosts = local(tmp_path, 1, loader_venv=python_that(tmp_path, "time.sleep(1000)"))
    with (
        pytest.raises(UserError, match=r"loader-1 .*: it did not answer within"),
        loader_hosts.connect(hosts, LIMIT_MS),
    ):
        pytest.fail("connected")


def test_no_hosts() -> None:
    with (
        pytest.raises(UserError, match="no loader host"),
        loader_hosts.connect([], LIMIT_MS),
    ):
        pytest.fail("connected")


# Trouble in mid-run


def in_mid_run(trouble: Callable[[], None]) -> Callable[[Progress], None]:
    """A callback that makes trouble once points have been acknowledged."""
    done = False

    def on_progress(progress: Progress) -> None:
        nonlocal done
        if progress.acknowledged and not done:
            done = True
            trouble()

    return on_progress


def kill_the_agent(folder: Path) -> None:
    (agent,) = processes(folder, "loaders.host")
    agent.kill()


def test_an_agent_is_killed(sink: SinkProcess, tmp_path: Path) -> None:
    kill = in_mid_run(lambda: kill_the_agent(tmp_path / "loader-2"))
    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        results = fleet.run(load(sink, ticks=80), tmp_path / "run", kill)
    check_lost(results, "its agent was killed by signal 9")
    for result in results[2:]:
        assert result["last"]["worker"] == result["worker"]


def test_workers_of_a_killed_agent_settle_before_they_are_collected(
    sink: SinkProcess, tmp_path: Path
) -> None:
    kill = in_mid_run(lambda: kill_the_agent(tmp_path / "loader-1"))
    with loader_hosts.connect(local(tmp_path, 1), LIMIT_MS) as fleet:
        results = fleet.run(load(sink, hosts=1, ticks=10_000), tmp_path / "run", kill)
        assert not processes(tmp_path)
    assert all("its agent was killed by signal 9" in result["died"] for result in results)
    for worker in (0, 1):
        left = json.loads(files.result_path(tmp_path / "run", worker).read_text())
        assert left["stopped_early"]
        assert left["scheduled"] == left["acknowledged"] + left["not_sent"] + left["unknown"]


def test_a_silent_host_is_given_up(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def freeze() -> None:
        monkeypatch.setattr(loader_hosts, "_SILENT_BEATS", 5)
        for process in processes(tmp_path / "loader-2"):
            process.suspend()

    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        results = fleet.run(load(sink, ticks=80), tmp_path / "run", in_mid_run(freeze))
    check_lost(results, "silent for 5 s")
    assert result_files(tmp_path / "run") == {"worker-0.json", "worker-1.json"}
    assert files.progress_path(tmp_path / "run", 2).read_text()


def test_workers_that_do_not_end_after_their_agent(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_hosts, "_STOP_S", 3)

    def freeze() -> None:
        for process in processes(tmp_path / "loader-2", "loaders.worker"):
            process.suspend()
        for process in processes(tmp_path / "loader-2", "loaders.host"):
            process.kill()

    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        results = fleet.run(load(sink, ticks=80), tmp_path / "run", in_mid_run(freeze))
        wait_for("the frozen workers' end", lambda: not processes(tmp_path))
    check_lost(results, "its agent was killed by signal 9")


def test_a_worker_is_killed(sink: SinkProcess, tmp_path: Path) -> None:
    def kill() -> None:
        for process in processes(tmp_path / "loader-2", "loaders.worker"):
            command = process.cmdline()
            if command[command.index("loaders.worker") + 2] == "3":
                process.kill()

    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        results = fleet.run(load(sink, ticks=80), tmp_path / "run", in_mid_run(kill))
    assert results[3]["died"] == "signal 9 (SIGKILL) on loader-2"
    assert results[3]["last"]["worker"] == 3
    assert all(r["acknowledged"] == r["scheduled"] for r in results[:3])


def test_stop(sink: SinkProcess, tmp_path: Path) -> None:
    stop = threading.Event()
    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        spec = load(sink, ticks=10_000)
        results = fleet.run(spec, tmp_path / "run", in_mid_run(stop.set), stop)
    for result in results:
        assert result["stopped_early"]
        assert result["acknowledged"] > 0
        assert result["not_sent"] > 0
    assert len(result_files(tmp_path / "run")) == 4


def test_ctrl_c_stops_and_collects(sink: SinkProcess, tmp_path: Path) -> None:
    def interrupt() -> None:
        # A second one, while the hosts are being stopped, does not cut that short.
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet,
    ):
        fleet.run(load(sink, ticks=10_000), tmp_path / "run", in_mid_run(interrupt))
    assert not processes(tmp_path)
    assert len(result_files(tmp_path / "run")) == 4


def test_garbage_in_the_output_of_an_agent(sink: SinkProcess, tmp_path: Path) -> None:
    garbage = (
        "run = emulator.run_hosts\n"
        "def noisy(*arguments, **more):\n"
        "    sys.stdout.buffer.write(b'\\xff\\x00\\n[1]\\n\"x\"\\n{}\\n\\n{\\n')\n"
        "    return run(*arguments, **more)\n"
        "emulator.run_hosts = noisy"
    )
    hosts = local(tmp_path, loader_venv=python_that(tmp_path, garbage))
    with loader_hosts.connect(hosts, LIMIT_MS) as fleet:
        results = fleet.run(load(sink), tmp_path / "run")
    assert sum(r["acknowledged"] for r in results) == SENSORS * 20


def test_a_host_that_cannot_run_its_workers(sink: SinkProcess, tmp_path: Path) -> None:
    full = (
        "def fail(*arguments, **more):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "emulator.run_hosts = fail"
    )
    hosts = local(tmp_path, loader_venv=python_that(tmp_path, full))
    with loader_hosts.connect(hosts, LIMIT_MS) as fleet:
        results = fleet.run(load(sink), tmp_path / "run")
    check_lost(results, "exit status 3: [Errno 28] No space left on device")
    assert results[2]["last"] is None


def test_files_that_do_not_come(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a host's files are worse than none: its last words are what counts."""
    real = shutil.which("tar")
    broken = tmp_path / "bin" / "tar"
    broken.parent.mkdir()
    broken.write_text(
        f'#!/bin/sh\ncase $2 in *loader-2*) {real} "$@"; echo broken >&2; exit 2;; '
        f'esac\nexec {real} "$@"\n'
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    with loader_hosts.connect(local(tmp_path), LIMIT_MS) as fleet:
        results = fleet.run(load(sink), tmp_path / "run")
    check_lost(results, "its files could not be collected: broken")
    assert result_files(tmp_path / "run") == {"worker-0.json", "worker-1.json"}


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
        python = python_that(tmp_path, "host._SILENCE_S = 2")
    with agent(tmp_path, python) as process:
        start_load(process, load(sink, hosts=1, ticks=10_000))
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
    reason = {"SIGTERM": "SIGTERM", "silence": "nothing was heard of the controller for 2 s"}
    assert errors == (f"the load was stopped: {reason[how]}\n" if how in reason else "")


def test_a_killed_controller_leaves_nothing(sink: SinkProcess, tmp_path: Path) -> None:
    spec = load(sink, start_in_ms=4000, ticks=10_000)
    (tmp_path / "spec.json").write_text(spec.to_json())
    hosts = [(one.name, one.vars) for one in local(tmp_path)]
    code = (
        "from pathlib import Path; from kairoscope import loader_hosts as l\n"
        "from kairoscope.inventory import Host; from loaders.spec import LoadSpec\n"
        f"hosts = [Host(name, 'loader', values) for name, values in {hosts!r}]\n"
        f"spec = LoadSpec.from_json(Path({str(tmp_path / 'spec.json')!r}).read_text())\n"
        f"with l.connect(hosts, {LIMIT_MS}) as fleet:\n"
        f"    fleet.run(spec, Path({str(tmp_path / 'run')!r}))\n"
    )
    controller = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_for("all workers", lambda: len(processes(tmp_path, "loaders.worker")) == 4)
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
def test_an_agent_that_cannot_start(arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loaders.host", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (host.EXIT_USAGE, host.EXIT_FILES)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_spec_ends_the_agent_with_its_reason(sink: SinkProcess, tmp_path: Path) -> None:
    spec = dataclasses.asdict(load(sink)) | {"sensors": 0}
    with agent(tmp_path) as process:
        _, errors = process.communicate(json.dumps({"spec": spec}) + "\n")
    assert process.returncode == host.EXIT_USAGE
    assert errors.startswith("sensors: ")


def test_a_worker_that_reports_nothing_is_killed(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = False

    def freeze(progress: Progress) -> None:
        nonlocal frozen
        if progress.acknowledged and not frozen:
            frozen = True
            monkeypatch.setattr(emulator, "_HANG_REPORTS", 5)
            processes(tmp_path, "loaders.worker")[0].suspend()

    results = emulator.run(load(sink, hosts=1, ticks=80), tmp_path, freeze)
    (dead,) = [result for result in results if "died" in result]
    (alive,) = [result for result in results if "died" not in result]
    assert dead["died"] == "killed, as it had not reported for 5 s"
    assert alive["acknowledged"] == alive["scheduled"]


# Over ssh


def remote(folder: Path, **more: Any) -> Host:
    return Host(
        "loader-1",
        "loader",
        {"address": "10.0.0.8", "home": str(folder / "a home"), "loader_venv": sys.prefix} | more,
    )


def test_the_ssh_command_says_what_the_inventory_says(tmp_path: Path) -> None:
    host = remote(
        tmp_path,
        ansible_host="example.org",
        ansible_user="sensor",
        ansible_port=2222,
        ansible_ssh_private_key_file="/keys/one",
        ansible_ssh_common_args="-o 'ProxyCommand=nc -x %h' -o StrictHostKeyChecking=no",
    )
    line = loader_hosts.command(host, ["echo", "a b"])
    assert line[0] == "ssh"
    assert "BatchMode=yes" in line
    assert line[-2:] == ["example.org", "echo 'a b'"]
    pairs = set(itertools.pairwise(line))
    assert {("-p", "2222"), ("-l", "sensor"), ("-i", "/keys/one")} <= pairs
    assert {("-o", "ProxyCommand=nc -x %h"), ("-o", "StrictHostKeyChecking=no")} <= pairs
    # Whether an unknown host is trusted is not ours to say.
    assert "StrictHostKeyChecking" not in str(loader_hosts.command(remote(tmp_path), ["true"]))
    assert loader_hosts.command(remote(tmp_path), ["true"])[-2:] == ["loader-1", "true"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ansible_connection": "winrm"}, "ansible_connection is winrm"),
        ({"ansible_user": "{{ name }}"}, "ansible_user is a template"),
    ],
)
def test_a_connection_that_is_not_known(tmp_path: Path, more: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match="loader-1") as caught:
        loader_hosts.command(remote(tmp_path, **more), ["true"])
    assert said in caught.value.message


def run_over(host: Host, sink: SinkProcess, folder: Path) -> None:
    """A whole load over a remote host."""
    with loader_hosts.connect([host], LIMIT_MS) as fleet:
        results = fleet.run(load(sink, hosts=1), folder / "run")
    assert sum(result["acknowledged"] for result in results) == SENSORS * 20
    assert result_files(folder / "run") == {"worker-0.json", "worker-1.json"}


def test_what_a_remote_shell_is_given(
    sink: SinkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for ssh that gives its last argument to a shell, as sshd does."""
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nfor last; do :; done\ncd /\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    run_over(remote(tmp_path), sink, tmp_path)


SSHD = "/usr/sbin/sshd"


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Host]:
    """A host behind an sshd of our own, with keys that live as long as the test."""
    for tool in (SSHD, "ssh", "ssh-keygen"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    for key in ("host_key", "user_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key], check=True
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {tmp_path}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {tmp_path}/user_key.pub\nStrictModes no\nUsePAM no\n"
    )
    known = (tmp_path / "host_key.pub").read_text().split()
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {known[0]} {known[1]}\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it, for root only
    log = tmp_path / "sshd.log"
    server = subprocess.Popen([SSHD, "-D", "-f", tmp_path / "sshd_config", "-E", log])
    try:

        def listens() -> bool:
            if server.poll() is not None:
                pytest.fail(f"sshd ended: {log.read_text()}")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for("sshd", listens)
        yield remote(
            tmp_path,
            ansible_host="127.0.0.1",
            ansible_port=port,
            ansible_user=getpass.getuser(),
            ansible_ssh_private_key_file=str(tmp_path / "user_key"),
            ansible_ssh_common_args=f"-F none -o UserKnownHostsFile={tmp_path}/known_hosts",
        )
    finally:
        server.terminate()
        server.wait()


def test_a_load_over_ssh(sshd: Host, sink: SinkProcess, tmp_path: Path) -> None:
    run_over(sshd, sink, tmp_path)


def test_a_login_that_is_refused(sshd: Host, tmp_path: Path) -> None:
    (tmp_path / "user_key.pub").write_text("")
    with (
        pytest.raises(UserError, match=r"loader-1 .*exit status 255: .*Permission denied"),
        loader_hosts.connect([sshd], LIMIT_MS),
    ):
        pytest.fail("connected")
