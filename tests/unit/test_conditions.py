"""What others did on the machine: told apart from what is ours, named, and a reason."""

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import run_samples

from kairoscope import run_folder
from kairoscope.experiment.schema.limits import Limits
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.run import host_probe, speed_probe, speeds, warmth
from kairoscope.run.host_probe import Process
from kairoscope.verdict import conditions
from kairoscope.verdict.conditions import Machines


def looks(
    name: str = "machine", ours: float = 1.0, foreign: float = 0.0, steal: float = 0.0, **more: Any
) -> list[dict[str, Any]]:
    """Looks every two seconds at a machine on which so many cores went to each."""
    role = "machine" if name == "machine" else "host"
    return [
        {
            "t": t,
            "name": name,
            "role": role,
            "cpu_busy_s": 500 + (ours + foreign + 0.05) * t,
            "cpu_kernel_s": 20 + 0.05 * t,
            "cpu_ours_s": ours * t,
            "cpu_steal_s": steal * t,
            **more,
        }
        for t in range(0, 200, 2)
    ]


def test_foreign_is_what_is_neither_ours_nor_the_kernels() -> None:
    found = Machines(looks(ours=1.2, foreign=0.5), 2).within(15.5, 120.5)
    assert found.foreign_cores == pytest.approx(0.5)
    assert found.busy_share == pytest.approx(1.75 / 2)
    assert found.steal_share == 0


def test_a_kernel_thread_that_ended_takes_nothing_of_the_others_away() -> None:
    found = looks(ours=1.2, foreign=0.5)
    for look in found[30:]:
        look["cpu_kernel_s"] -= 0.3
    assert Machines(found, 2).within(15.5, 120.5).foreign_cores == pytest.approx(0.5, abs=0.01)


def test_what_was_stolen_is_not_busy() -> None:
    found = Machines(looks(ours=0.5, steal=1.0), 2).within(15, 120)
    assert found.busy_share == pytest.approx(0.55 / 2)
    assert found.steal_share == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("foreign", "steal", "named", "invalid"),
    [
        (0.05, 0.02, 0, 0),
        (0.2, 0.0, 1, 0),
        (0.2, 0.1, 2, 0),
        (0.5, 0.0, 0, 1),
        (0.5, 0.3, 0, 2),
    ],
)
def test_named_from_a_quarter_of_the_limit_on_and_past_it_a_reason(
    foreign: float, steal: float, named: int, invalid: int
) -> None:
    found = Machines(looks(foreign=foreign, steal=steal), 2).within(15, 120)
    limits = Limits()
    assert len(found.named(limits)) == named
    reasons = found.not_ours(limits)
    assert len(reasons) == invalid
    assert all(reason.startswith("the machine was not ours: ") for reason in reasons)


def test_of_hosts_that_share_a_machine_it_is_not_known_what_is_foreign() -> None:
    apart = [*looks("host a", foreign=1.5, booted=10, cpus=4), *looks("host b", booted=10)]
    assert len(Machines(apart, 2, 500).within(15, 120).not_ours(Limits())) == 1
    shared = [*looks("host a", foreign=1.5, booted=10), *looks("host b", booted=11)]
    found = Machines(shared, 2, 10.0).within(15, 120)
    assert found.foreign_cores is None
    assert found.not_ours(Limits()) == []


def test_a_machine_that_was_not_asked_what_is_ours_has_no_foreign() -> None:
    old = [{k: v for k, v in look.items() if k != "cpu_ours_s"} for look in looks(foreign=1.0)]
    assert Machines(old, 2).within(15, 120).foreign_cores is None
    assert Machines([], 2).within(15, 120).busy_share is None


def test_a_host_that_started_again_goes_on_from_where_it_was() -> None:
    again = looks(foreign=0.1)[:40]
    again += [{**look, "t": look["t"] + 80.0} for look in looks(foreign=0.1)[:40]]
    for look in again[40:]:
        look["cpu_busy_s"] -= 500
        look["cpu_kernel_s"] -= 20
    found = Machines(again, 2).within(15, 120)
    assert found.foreign_cores == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(("foreign", "word"), [(0.0, "pass"), (0.3, "pass"), (0.6, "invalid")])
def test_a_machine_used_by_others_is_in_the_sentence(tmp_path, foreign, word) -> None:
    run = run_samples.run_of(tmp_path / "run")
    run.read_back()
    path = run.folder / run_folder.PROCESSES
    path.write_text("".join(s for s in path.open() if '"machine"' not in s))
    with path.open("a") as file:
        for look in looks(ours=1.0, foreign=foreign):
            file.writelines(run_folder.lines_text([{**look, "t": run.began_s - 2 + look["t"]}]))
    verdict = run.judge()
    assert verdict.verdict == word
    assert ("cores of machine" in verdict.summary) is (foreign > 0)
    measured = run.json(run_folder.MEASUREMENTS)["conditions"]
    assert measured["foreign_cores"] == pytest.approx(foreign, abs=0.001)


def test_what_has_ended_is_counted_once() -> None:
    ours = host_probe.Ours()
    server, capture, outside = Process(1, False, 10.0), Process(5, False, 0.0), 99
    assert ours.seconds({5}, {5: server}) == 10.0
    working = {5: server, 6: capture._replace(cpu_s=3.0), 7: Process(outside, False, 4.0)}
    assert ours.seconds({5, 6, 7}, working) == 17.0
    # 5 has waited for 6 and has its time; nobody of ours has that of 7.
    assert ours.seconds({5}, {5: server._replace(cpu_s=13.5)}) == pytest.approx(17.5)


def test_the_processes_of_this_machine_are_in_a_tree() -> None:
    code = "import subprocess,sys; subprocess.run([sys.executable,'-c','input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        everything = host_probe.processes()
        found = host_probe.tree({os.getpid()}, everything)
        assert {os.getpid(), child.pid} <= found
        assert os.getppid() not in found
        assert not any(everything[pid].kernel for pid in found)
        child.communicate(b"\n")
    assert host_probe.tree({child.pid}, host_probe.processes()) == set()


def started(ago_s: float, points: int | None = 0, waiting: int | None = 0) -> dict[str, Any]:
    servers = [{"name": name, "role": "storage", "started": 1000 - s} for name, s in (("a", 5000),)]
    servers += [{"name": "b", "role": "kairosdb", "started": 1000 - ago_s}]
    queue = [{"node": "b", "waiting": waiting, "disk_bytes": None}]
    return {"servers": servers, "points_since": points, "queue": queue}


def test_cold_servers_and_a_backlog_are_said() -> None:
    assert conditions.at_start(started(3000), 1000) == []
    assert conditions.at_start({}, 1000) == []
    assert conditions.at_start(started(40), 1000) == ["The servers were cold: they ran for 40 s"]
    (said,) = conditions.at_start(started(40, 70_000), 1000)
    assert said.endswith("ran for 40 s and have taken 70,000 points of earlier loads")
    (said,) = conditions.at_start(started(3000, waiting=970_000), 1000)
    assert said.startswith("970,000 points waited in the queues already")
    unknown = started(3000, points=None, waiting=None)
    unknown["servers"][1]["started"] = None
    assert conditions.at_start(unknown, 1000) == []


def test_a_load_on_a_backlog_is_in_the_sentence(tmp_path: Path) -> None:
    run = run_samples.run_of(tmp_path / "run")
    found = started(10, waiting=970_000)
    for server in found["servers"]:
        server["started"] = run.began_s - 10
    run.change(run_folder.MANIFEST, conditions=found)
    run.read_back()
    verdict = run.judge()
    assert verdict.verdict == "pass"
    assert "970,000 points waited" in verdict.summary
    assert "The servers were cold" in verdict.summary


def test_points_since_are_those_of_runs_of_the_target_since_then(tmp_path: Path) -> None:
    for name, target, began, sent in (
        ("1-x-local", "local", "2026-11-25T08:00:00+00:00", 1),
        ("2-x-local", "local", "2026-11-25T08:10:00+00:00", 20),
        ("3-x-local", "other", "2026-11-25T08:10:00+00:00", 300),
        ("4-x-local", "local", "2026-11-25T08:20:00+00:00", 4000),
    ):
        (tmp_path / name).mkdir()
        manifest = {"target": target, "started": began}
        run_folder.write_json(tmp_path / name / run_folder.MANIFEST, manifest)
        run_folder.write_json(tmp_path / name / run_folder.LEDGER, {"sent": sent})
    (tmp_path / "5-x-local").mkdir()
    (tmp_path / "5-x-local" / run_folder.MANIFEST).write_text("{")
    since = datetime.fromisoformat("2026-11-25T08:05:00+00:00").timestamp()
    assert warmth.points_since(tmp_path, "local", since) == 4020


def test_compile_seconds_are_those_of_java() -> None:
    assert warmth.compile_seconds(os.getpid()) is None
    assert warmth.compile_seconds(2**22 + 1) is None


# --- the machine's speed -------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "how"), [(0.0021, "slower"), (0.0005, "faster"), (0.0012, "")])
def test_a_machine_that_was_not_as_fast_after_the_load_is_named(after: float, how: str) -> None:
    speed = {"before": {"machine": 0.001, "gone": 0.001}, "after": {"machine": after, "gone": None}}
    said = conditions.speed_changed({"speed": speed})
    assert [how in each for each in said] == ([True] if how else [])
    if how == "slower":
        assert said == [
            "Machine was slower after the load than before it: the same work took 2.10 ms of CPU, "
            "before 1.00 ms"
        ]


def test_a_speed_that_was_not_looked_at_again_is_no_change() -> None:
    before = {"before": {"machine": 0.001}, "after": {}}
    assert conditions.speed_changed({"speed": before}) == conditions.speed_changed({}) == []


def test_another_speed_is_in_the_sentence(tmp_path: Path) -> None:
    run = run_samples.run_of(tmp_path / "run")
    speed = {"before": {"machine": 0.001}, "after": {"machine": 0.002}}
    run.change(run_folder.MANIFEST, conditions={"speed": speed})
    run.read_back()
    verdict = run.judge()
    assert verdict.verdict == "pass"
    assert "Machine was slower after the load than before it" in verdict.summary


def test_the_work_is_done_here_and_on_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is sent as text and runs by itself; what a host answers instead is no speed."""
    monkeypatch.setattr(speed_probe, "TIMES", 2)
    assert speed_probe.seconds() > 0
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", Path(speed_probe.__file__).read_text()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) > 0

    def said(host: Host, _program: list[str]) -> str:
        if host.name == "storage-1":
            raise ssh.RemoteError("unreachable")
        return {"storage-2": "nan\n", "kairosdb-1": "0.0012\n"}[host.name]

    monkeypatch.setattr(ssh, "run", said)
    hosts = [Host(n, n.split("-")[0], {}) for n in ("storage-1", "storage-2", "kairosdb-1")]
    managed = cast("Inventory", SimpleNamespace(managed=True, all=hosts))
    assert speeds.of_machines(managed) == {
        "storage-1": None,
        "storage-2": None,
        "kairosdb-1": 0.0012,
    }
