"""Faults of an experiment: what is refused, what is done and undone, and what they came to."""

import dataclasses
import json
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from run_samples import NOW_S, STORAGE, run_of

from kairoscope import run_folder
from kairoscope.cli import known
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment
from kairoscope.experiment import load as load_file
from kairoscope.experiment.faults import Fault, hosts_of, seconds
from kairoscope.hosts.inventory import Host
from kairoscope.plan import Plan
from kairoscope.report import data
from kairoscope.report.charts import of_run
from kairoscope.report.charts.chart import Span
from kairoscope.run import faults as carrying
from kairoscope.run_folder import JsonLines
from kairoscope.targets.lab import target as lab
from kairoscope.targets.lab.lab import HostState
from kairoscope.targets.lab.network import Faults as NetworkFaults
from kairoscope.targets.target import Options
from kairoscope.verdict import faults
from kairoscope.verdict.faults import Happened, Seen

EXPERIMENT: dict[str, Any] = {
    "name": "mine",
    "description": "A small one.",
    "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1},
    "load": {"sensors": 100, "duration_s": 60, "warmup_s": 10},
}


def text_of(*lines: str) -> str:
    head = (
        "name: mine\ndescription: A small one.\n"
        "cluster: {storage_nodes: 3, replication_factor: 3, kairosdb_nodes: 1}\n"
        "load: {sensors: 100, duration_s: 60, warmup_s: 10}\nfaults:\n"
    )
    return head + "".join(f"  - {{{line}}}\n" for line in lines)


def refused(tmp_path: Path, *lines: str) -> list[str]:
    (tmp_path / "mine.yml").write_text(text_of(*lines))
    with pytest.raises(UserError) as caught:
        load_file(str(tmp_path / "mine.yml"))
    return [line.partition("mine.yml:")[2] for line in caught.value.message.splitlines()]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["at: 30, kill: storage-1"], "faults[1].at: must be a time with its unit such as 30s"),
        (["at: 30s, kil: storage-1"], "faults[1].kil: unknown field; did you mean 'kill'?"),
        (["at: 30s, kill: Storage-1"], "faults[1].kill: must be a host such as storage-2"),
        (["at: 30s"], "faults[1]: needs exactly one action of kill, freeze"),
        (["at: 30s, kill: storage-1, freeze: storage-2, for: 1s"], "has kill and freeze"),
        (["at: 30s, freeze: storage-1"], "faults[1].for: freeze needs it"),
        (["at: 30s, freeze: storage-1, for: 0s"], "faults[1].for: freeze needs it"),
        (["at: 30s, restart: storage-1, for: 3s"], "faults[1].for: restart takes none, got '3s'"),
        (["at: 30s, restart: loader-1"], "has no server that would be started again"),
        (["at: 30s, fill-disk: loader-1, for: 3s"], "faults[1].fill-disk: a loader host has no"),
        (["at: 30s, fill-disk: storage-1"], "faults[1].for: fill-disk needs it"),
        (["at: 30s, delay: storage-1, for: 3s"], "faults[1].by: delay needs it"),
        (["at: 30s, delay: storage-1, for: 3s, by: -1s"], "faults[1].by: must be above 0s and at"),
        (["at: 30s, slow-disk: loader-1, for: 3s"], "faults[1].slow-disk: a loader host has no"),
        (["at: 30s, fill_disk: storage-1"], "did you mean 'fill-disk'?"),
        (["at: 30s, loss: storage-1, for: 3s"], "faults[1].percent: loss needs it"),
        (
            ["at: 30s, kill: storage-1, percent: 3"],
            "faults[1].percent: is of loss, and this is kill",
        ),
        (["at: 30s, clock: storage-1, for: 3s"], "faults[1].by: clock needs it"),
        (["at: 30s, clock: storage-1, for: 3s, by: -0s"], "faults[1].by: must not be 0"),
        (["at: 30s, clock: storage-1, for: 3s, by: 5"], "faults[1].by: must be a time with its"),
        (["at: 30s, clock: loader-1, for: 3s, by: 5s"], "faults[1].clock: a loader host has no"),
        (["at: 30s, expire-certificate: loader-1, for: 3s"], "has no certificate"),
        (["at: 30s, kill: storage-1, by: 5s"], "faults[1].by: is of clock and delay, and this"),
        (["at: 14s, kill: storage-1"], "faults[1].at: must be ≥ 15s, got 14s: the warm-up"),
        (["at: 1m, kill: storage-1"], "faults[1].at: is 1m, after the load's end (60 s)"),
        (["at: 50s, kill: storage-1, for: 11s"], "it would be undone 61 s after the load's start"),
        (
            ["at: 20s, kill: storage-1, for: 9s", "at: 29s, freeze: storage, for: 5s"],
            "faults[2].at: freeze storage begins while faults[1] (kill storage-1) lasts",
        ),
        (
            [
                "at: 20s, partition: storage-1, for: 9s",
                "at: 25s, partition: kairosdb-1, for: 9s",
            ],
            "two partitions must not overlap",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(tmp_path: Path, lines: list[str], says: str) -> None:
    (found,) = refused(tmp_path, *lines)
    assert says in found


def test_faults_are_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(
        text_of(
            "at: 20s, kill: storage-2, for: 0.5m",
            "at: 20s, freeze: kairosdb-1, for: 5s",
            "at: 20s, clock: storage-1, for: 5s, by: -5s",
        )
    )
    first, second, third = load_file(str(tmp_path / "mine.yml")).faults
    assert (third.text, third.by_s) == ("clock storage-1 by -5s", -5)
    assert (first.action, first.on, first.at_s, first.for_s) == ("kill", "storage-2", 20, 30)
    assert (second.text, seconds("1.5m")) == ("freeze kairosdb-1", 90)
    names = ["storage-1", "storage-2", "kairosdb-1", "loader-1"]
    assert hosts_of("storage", names) == names[:2]
    assert hosts_of("storage-2", names) == ["storage-2"]
    assert hosts_of("storage-9", names) == []


def planned(target: str, *given: dict[str, Any], **more: Any) -> Plan:
    return known.plan(
        Experiment.model_validate({**EXPERIMENT, "faults": list(given), **more}), target
    )


def test_a_plan_refuses_hosts_and_levers_that_are_not_there() -> None:
    with pytest.raises(UserError, match=r"faults\[1\]\.kill: there is no host storage-4\. There"):
        planned("local", {"at": "20s", "kill": "storage-4"})
    cut = {"at": "20s", "partition": "storage-1", "for": "5s"}
    with pytest.raises(
        UserError, match=r"local has no lever for partition.*have.*: lab, aws, hosts"
    ):
        planned("local", cut)
    for target in ("aws", "hosts"):
        assert planned(target, cut).setting("faults.1").value == "partition storage-1"
        with pytest.raises(UserError, match="no lever for slow-disk; it has kill"):
            planned(target, {"at": "20s", "slow-disk": "storage-1", "for": "5s"})
    # A lever that a target has, and not of every host.
    filled = {"at": "20s", "fill-disk": "storage", "for": "5s"}
    late = {"at": "20s", "clock": "storage", "for": "5s", "by": "-5s"}
    assert planned("lab", filled).setting("faults.1").value == "fill-disk storage"
    assert planned("lab", late).setting("faults.1").value == "clock storage by -5s"
    for fault, why in ((filled, "ScyllaDB keeps its data in"), (late, "ScyllaDB brings a C")):
        with pytest.raises(UserError, match=rf"faults\[1\]\.[a-z-]+: {why}"):
            planned("lab", fault, storage={"engine": "scylla"})
    over = {"at": "20s", "expire-certificate": "storage-1", "for": "5s"}
    assert planned("lab", over).setting("faults.1").value == "expire-certificate storage-1"
    with pytest.raises(UserError, match=r"without TLS \(security\.enabled: false\)"):
        planned("lab", over, security={"enabled": False})
    # Servers of another system have names of their own.
    single = {**EXPERIMENT["cluster"], "storage_nodes": 1, "replication_factor": 1}
    kill = {"at": "20s", "kill": "influxdb-1"}
    load = {**EXPERIMENT["load"], "protocol": "line"}
    made = planned("local", kill, stack="influxdb", cluster=single, load=load)
    assert made.setting("faults.1")


def test_servers_of_the_lab_have_a_disk_that_can_be_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here:
        """A lab with one host, made before its kind had data disks."""

        wanted: Sequence[lab.LabHost] = ()

        def hosts(self) -> list[HostState]:
            return [HostState(lab.LabHost("storage-1", "10.77.0.11"), "running", [])]

        def up(self, hosts: Sequence[lab.LabHost], say: Any) -> None:
            self.wanted = hosts
            raise KeyboardInterrupt

    here = Here()
    monkeypatch.setattr(lab, "lab", lambda: here)
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        lab.LabTarget().provision(planned("lab"), Options(tmp_path), print, lambda: None)
    disks = {host.name: bool(host.data_disk_mib) for host in here.wanted}
    assert disks == {
        "storage-1": False,
        **dict.fromkeys(("storage-2", "storage-3", "kairosdb-1"), True),
        "loader-1": False,
    }


@pytest.mark.parametrize("action", known.target("lab").levers)
def test_the_lab_does_and_undoes_what_it_has_a_lever_for(
    action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Mock()
    here.hosts.return_value = [HostState(lab.LabHost("a", "10.77.0.11"), "stopped", [])]
    here.state.return_value = "frozen"
    monkeypatch.setattr(lab, "lab", lambda: here)
    monkeypatch.setattr(lab, "servers", here)
    fault = Fault.model_validate({"at": "20s", action: "a", "for": "1s", "by": "1s", "percent": 1})
    done = []
    for act in (
        lambda: lab.LabTarget().begin(fault, [Host("a", "storage", {})]),
        lambda: lab.LabTarget().undo(action, [Host("a", "storage", {})]),
    ):
        here.reset_mock()
        act()
        done.append([name for name, _, _ in here.method_calls if name not in ("hosts", "state")])
    assert [len(calls) for calls in done] == [1, {"restart": 0, "fill-disk": 2}.get(action, 1)]


def test_a_plan_shows_its_faults_and_keeps_them() -> None:
    made = planned("lab", {"at": "20s", "loss": "storage", "for": "5s", "percent": 2.5})
    line = made.setting("faults.1")
    assert line.value == "loss storage 2.5 %"
    assert line.arithmetic == (
        "20 s after the load's start, undone 5 s later (storage-1, storage-2, storage-3)"
    )
    assert Plan.from_json(made.to_json()).experiment.faults == made.experiment.faults


class Levers:
    """Notes what it is asked to do; raises what it is told to."""

    def __init__(self, **errors: Exception) -> None:
        self.did: list[tuple[str, str, list[str]]] = []
        self.errors = errors

    def begin(self, fault: Fault, hosts: Sequence[Host]) -> None:
        self._do("begin", fault.action, hosts)

    def undo(self, action: str, hosts: Sequence[Host]) -> None:
        self._do("undo", action, hosts)

    def _do(self, what: str, action: str, hosts: Sequence[Host]) -> None:
        self.did.append((what, action, [host.name for host in hosts]))
        if what in self.errors:
            raise self.errors[what]


def run_with(tmp_path: Path, levers: Levers, *given: dict[str, str]) -> Any:
    state = run_of(tmp_path).state
    experiment = state.plan.experiment.model_copy(
        update={"faults": [Fault.model_validate(each) for each in given]}
    )
    plan = state.plan.model_copy(update={"experiment": experiment})
    return dataclasses.replace(state, plan=plan, levers=levers)


def noted(tmp_path: Path) -> list[tuple[int, str]]:
    records = list(run_folder.records(tmp_path / run_folder.FAULTS))
    return [(each["fault"], each["event"]) for each in records]


def test_what_was_begun_is_undone_however_the_load_ends(tmp_path: Path) -> None:
    levers = Levers()
    state = run_with(
        tmp_path,
        levers,
        {"at": "10s", "freeze": "storage", "for": "300s"},
        {"at": "300s", "kill": "kairosdb-1"},
    )
    with pytest.raises(KeyboardInterrupt), carrying.under(state, time.time() - 20):
        while not levers.did:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert levers.did == [(what, "freeze", list(STORAGE)) for what in ("begin", "undo")]
    assert set(noted(tmp_path)) >= {(1, "begun"), (1, "undone"), (2, "failed")}
    assert state.facts.incomplete == [
        "fault 2 (kill kairosdb-1) was not carried out: the load ended before"
    ]


def test_what_is_being_undone_is_waited_for_though_ctrl_c_is_pressed_again(tmp_path: Path) -> None:
    class Slow(Levers):
        def undo(self, action: str, hosts: Sequence[Host]) -> None:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.2)
            super().undo(action, hosts)

    levers = Slow()
    state = run_with(tmp_path, levers, {"at": "10s", "freeze": "storage", "for": "300s"})
    with pytest.raises(KeyboardInterrupt), carrying.under(state, time.time() - 20):
        while not levers.did:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert (1, "undone") in noted(tmp_path)


def test_a_fault_that_cannot_be_done_makes_the_run_incomplete(tmp_path: Path) -> None:
    levers = Levers(begin=UserError("storage-2 does not run"))
    state = run_with(tmp_path, levers, {"at": "10s", "kill": "storage-2"})
    with carrying.under(state, time.time() - 20):
        while len(levers.did) < 2:
            time.sleep(0.01)
    assert noted(tmp_path) == [(1, each) for each in ("planned", "begun", "failed", "undone")]
    why = "fault 1 (kill storage-2) was not carried out: storage-2 does not run"
    assert state.facts.incomplete == [why]


def test_what_was_begun_is_undone_where_that_it_failed_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(JsonLines):
        def write(self, **record: Any) -> None:
            if record["event"] == "failed":
                raise OSError("No space left on device")
            super().write(**record)

    monkeypatch.setattr(carrying, "JsonLines", Full)
    # What could not be done whole may be done in part.
    levers = Levers(begin=UserError("storage-2 does not answer"))
    state = run_with(tmp_path, levers, {"at": "10s", "kill": "storage-2"})
    with carrying.under(state, time.time() - 20):
        while not levers.did:
            time.sleep(0.01)
    assert [what for what, _, _ in levers.did] == ["begin", "undo"]
    why = "fault 1 (kill storage-2) was not carried out: storage-2 does not answer"
    assert state.facts.incomplete == [why]


def test_undoing_is_tried_again_and_what_stays_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "_BETWEEN_TRIES_S", 0.0)
    levers = Levers(undo=RuntimeError("no"))
    state = run_with(tmp_path, levers, {"at": "10s", "kill": "storage-2"})
    with carrying.under(state, time.time() - 20):
        pass
    assert [what for what, _, _ in levers.did] == ["begin", *["undo"] * carrying.UNDO_TRIES]
    why = "fault 1 (kill storage-2) could not be undone: RuntimeError: no"
    assert state.facts.incomplete == [why]


def test_without_faults_there_is_no_file(tmp_path: Path) -> None:
    with carrying.under(run_with(tmp_path, Levers()), 0):
        pass
    assert not (tmp_path / run_folder.FAULTS).exists()


# What they came to, of a load of 100 points/s that begins at 1000 and is warm at 1010.

QUIET = dict.fromkeys(range(60), 20.0)


def seen(**changes: Any) -> Seen:
    depths = {"kairosdb-1": [(1000.0 + second, 50.0) for second in range(61)]}
    given = Seen(1000.0, 1010.0, 1060.0, QUIET, depths, [], 100.0)
    return dataclasses.replace(given, **changes)


def killed(begun: float = 1020.0, undone: float | None = 1025.0, **changes: Any) -> Happened:
    given = Happened(1, "kill storage-2", "kill", ["storage-2"], begun, begun, undone)
    return dataclasses.replace(given, **changes)


def slow(first: int, last: int, ms: float) -> dict[int, float]:
    return {**QUIET, **dict.fromkeys(range(first, last), ms)}


@pytest.mark.parametrize(
    ("changes", "recovery_s"),
    [
        ({}, 0),
        # By chance a second is a little above the highest of a few.
        ({"p99_ms": slow(20, 40, 29.0)}, 0),
        ({"p99_ms": slow(20, 40, 31.0)}, 15),
        # One second that is slow again begins the count anew.
        ({"p99_ms": {**slow(20, 40, 31.0), 43: 31.0}}, 19),
        # A second without any acknowledgement is none that is as before.
        ({"p99_ms": {s: v for s, v in QUIET.items() if not 20 <= s < 33}}, 8),
        ({"p99_ms": slow(20, 56, 31.0)}, None),
        # A second of the load and a quarter more than before may wait.
        ({"depths": {"a": [(1000.0 + s, 50.0 if s < 20 else 162.0) for s in range(61)]}}, 0),
        ({"depths": {"a": [(1000.0 + s, 50.0 if s < 20 else 163.0) for s in range(61)]}}, None),
        # A node that does not tell.
        ({"depths": {"a": [(1000.0 + s, 50.0) for s in range(61) if not 20 < s < 37]}}, 12),
        ({"depths": {}}, 0),
    ],
)
def test_when_all_is_as_before(changes: dict[str, Any], recovery_s: float | None) -> None:
    (judged,) = faults.aftermaths([killed()], seen(**changes))
    assert judged.recovery_s == recovery_s
    assert judged.outcome == ("not as before" if recovery_s is None else "as before")


def test_the_next_fault_ends_what_can_be_said_of_one() -> None:
    second = killed(1030.0, 1031.0, number=2)
    judged = faults.aftermaths([killed(), second], seen(p99_ms=slow(20, 28, 90.0)))
    assert [each.recovery_s for each in judged] == [None, 0]
    assert judged[0].said.endswith("not as before until the next fault")
    # What is usual is what was before the first of them.
    judged = faults.aftermaths([killed(), second], seen(p99_ms=slow(20, 60, 90.0)))
    assert [each.recovery_s for each in judged] == [None, None]


@pytest.mark.parametrize(
    ("silences", "longest"),
    [
        ([], 0.0),
        (None, None),
        ([(1012.0, 1015.0), (1020.5, 1024.0), (1030.0, 1031.0)], 3.5),
        # Only what of it is after the begin.
        ([(1015.0, 1022.0)], 2.0),
    ],
)
def test_the_longest_silence(silences: Any, longest: float | None) -> None:
    (judged,) = faults.aftermaths([killed()], seen(silences=silences))
    assert judged.silence_s == longest


def test_what_was_not_carried_out_or_is_not_known() -> None:
    never = killed(begun_t=None, undone_t=None, problem="was not carried out: no")
    stays = killed(undone_t=None, problem="could not be undone: no")
    assert [each.outcome for each in faults.aftermaths([never], seen())] == ["not carried out"]
    assert [each.outcome for each in faults.aftermaths([stays], seen())] == ["not as before"]
    (early,) = faults.aftermaths([killed(1012.0)], seen())
    assert (early.outcome, early.recovery_s) == ("unknown", None)


def test_of_many_faults_the_verdict_has_one_sentence_and_what_went_wrong() -> None:
    few = [killed(1020.0 + i, 1020.5 + i, number=i + 1) for i in range(5)]
    assert len(faults.remarks(faults.aftermaths(few, seen()))) == 5
    many = [*few, killed(1030.0, None, number=6, problem="could not be undone: no")]
    silences = [(1032.0, 1035.0)]
    (of_all, wrong) = faults.remarks(faults.aftermaths(many, seen(silences=silences)))
    assert of_all.startswith("6 faults, each of them in the report: after 1 latency and queue were")
    assert of_all.endswith("longest silence 3.0 s (fault 6, kill storage-2)")
    assert wrong.startswith("Fault 6, kill storage-2: ")
    assert "could not be undone: no" in wrong
    (of_all, _) = faults.remarks(faults.aftermaths(many, seen(silences=None)))
    assert of_all.endswith("; silence not known")
    (of_all, _) = faults.remarks(faults.aftermaths(many, seen(silences=[])))
    assert of_all.endswith("; longest silence 0.0 s")


def fault_lines(folder: Path, fault: Happened, *events: tuple[str, float]) -> None:
    file = JsonLines(folder / run_folder.FAULTS)
    told = {"fault": 1, "action": fault.action, "hosts": fault.hosts, "text": fault.text}
    for event, t in (("planned", fault.planned_t), *events):
        file.write(t=t, event=event, detail="", **told)


def test_a_verdict_says_what_a_fault_came_to(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.read_back()
    at = run.began_s + 12
    fault_lines(tmp_path, killed(at), ("begun", at), ("undone", at + 0.5))
    # The node was down on purpose and could not be asked.
    run.captured(*((node, p) for node in STORAGE for p in ("before", "after") if node[-1] != "2"))
    judged = run.judge()
    assert judged.verdict == "pass"
    (told,) = run.json("verdict.json")["faults"]
    assert told["undone_t"] - told["begun_t"] == 0.5
    assert "Fault 1, kill storage-2: undone after 0.5 s" in judged.summary
    span = Span(12, 12.5, "kill storage-2")
    assert of_run.faults(data.read(tmp_path), 0, 20) == (span,)
    drawn = [chart for chart in of_run.build(data.read(tmp_path)).values() if chart.time]
    assert drawn
    for chart in drawn:
        assert [(found.begin, found.label) for found in chart.faults] == [(span.begin, span.label)]


def test_a_loader_that_stood_still_makes_no_verdict(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.read_back()
    at = run.began_s + 12
    stood = killed(at, text="freeze loader-2", action="freeze", hosts=["loader-2"])
    fault_lines(tmp_path, stood, ("begun", at), ("undone", at + 1))
    judged = run.judge()
    assert judged.verdict == "invalid"
    assert "loader-2 stood still, by fault 1" in judged.reasons[0]


@pytest.mark.parametrize(("frozen", "outcome"), [("kairosdb-1", "pass"), ("storage-1", "unknown")])
def test_a_node_that_stood_still_on_purpose_could_not_tell_its_queue(
    tmp_path: Path, frozen: str, outcome: str
) -> None:
    run = run_of(tmp_path)
    run.read_back()
    at = run.began_s + 9.5
    path = tmp_path / run_folder.QUEUE
    looks = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    file = JsonLines(path)
    for look in looks:
        if look["node"] != "kairosdb-1" or not at < look["t"] < at + 7:
            file.write(**look)
    stood = killed(at, text=f"freeze {frozen}", action="freeze", hosts=[frozen])
    fault_lines(tmp_path, stood, ("begun", at), ("undone", at + 6.5))
    assert run.judge().parts["queue"].outcome == outcome


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([], ()),
        ([("begun", 12.0)], ((12.0, 20.0),)),
        ([("begun", 12.0), ("undone", 13.0)], ((12.0, 13.0),)),
        # What took no time is a line.
        ([("begun", 12.0), ("undone", 12.0)], ((12.0, 12.1),)),
        ([("begun", 25.0)], ()),
    ],
)
def test_a_chart_has_a_band_for_each(events: list[tuple[str, float]], found: Any) -> None:
    records = tuple(
        {"t": NOW_S + t, "fault": 1, "event": event, "text": "kill a"} for event, t in events
    )
    run = data.RunData("x", spec={"start_ms": NOW_S * 1000}, faults=records)
    assert tuple((s.begin, s.end) for s in of_run.faults(run, 0, 20)) == found


def test_a_partition_is_between_a_group_and_all_others() -> None:
    network = NetworkFaults()
    network.isolate(["a", "b"], ["a", "b", "c", "d"])
    assert network.partitions == [["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"]]
    network.forget("a")
    network.forget("b")
    assert network == NetworkFaults()
