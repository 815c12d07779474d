"""What makes a run incomplete whatever its figures are, of what the folder has and lacks."""

from collections.abc import Iterable
from typing import Any

from kairoscope import run_folder
from kairoscope.verdict import completeness, measurements, outcomes
from kairoscope.verdict.inputs import Inputs
from kairoscope.verdict.times import load_start
from loaders.schedule.due import Schedule


def not_captured(
    run: Inputs, schedule: Schedule, window: tuple[float, float], measured: dict[str, Any]
) -> list[str]:
    """What of the store and its processes is not known though it should be; see `completeness`."""
    spec = schedule.spec
    load_s = window[1] - window[0] if spec.replay else spec.duration_s
    disk = dict(run.facts.disk_bytes)
    capture, expected = run.plan.experiment.capture, run.expected
    removed = set(run.facts.removed)
    # What was down or stood still on purpose could not be asked, or has forgotten.
    carried = run.carried
    disturbed = removed.union(*(fault.hosts for fault in carried))
    if removed & set(run.storage) or not expected.disk:
        # Of a node taken away its data went to the others, and its folder with it.
        disk = dict.fromkeys(disk, 0)

    def there(names: list[str], without: set[str] = disturbed) -> list[str]:
        return [name for name in names if name not in without]

    long_enough = window[1] - window[0] > 2 * capture.shards_every_s + completeness.GRACE_S
    wanted = completeness.Wanted(
        there(expected.proxyhistograms),
        there(expected.processes, removed),
        completeness.phases(load_s, capture.proxyhistograms_every_s),
        # A window too short for two looks has none due.
        there(expected.shards) if long_enough else (),
        there(expected.counters) if long_enough else (),
        # A replay has no time that was known before, to look at its begin.
        there(expected.window, disturbed | _killed_unasked(run)) if not spec.replay else (),
    )
    captures = run.folder / run_folder.CAPTURES
    counted = run.folder / run_folder.STORE_WINDOW
    return completeness.missing(
        wanted,
        run_folder.read_json(captures) if captures.exists() else [],
        run_folder.records(run.folder / run_folder.EVENTS),
        measured["cpu_cores"],
        measurements.shards_seen(run_folder.records(run.folder / run_folder.SHARDS), *window),
        disk,
        measurements.looked_twice(run_folder.records(run.folder / run_folder.COUNTERS), *window),
        run_folder.read_object(counted).get("nodes", {}) if counted.exists() else (),
    )


def _killed_unasked(run: Inputs) -> set[str]:
    """Storage nodes that a kill behind the load (`run.killing`) took before they had told what they
    counted: that is asked as the measured time ends, takes a while, and delays no kill."""
    killed = run.folder / run_folder.KILLED
    if not killed.exists():
        return set()
    first: dict[str, float] = {}
    for event in run_folder.records(run.folder / run_folder.EVENTS):
        if event["what"] == run_folder.NOT_COUNTED:
            first.setdefault(event["node"], event["t"])
    killed_t = run_folder.read_object(killed)["t"]
    return {node for node, t in first.items() if t >= killed_t}


def machines_unseen(
    run: Inputs, window: tuple[float, float], sampled: Iterable[dict[str, Any]]
) -> list[str]:
    """Machines that nobody looked at any more at the end of the measured time.

    What is known of the time before stands for the rest in every figure, so none of them shows it.
    Not those that were taken away, or that a fault was for.

    Args:
        run: of the folder.
        window: the measured time, epoch s.
        sampled: records of processes.jsonl.
    """
    last: dict[str, float] = {}
    for look in sampled:
        if look["role"] in ("machine", "host"):
            name = look["name"].removeprefix("host ")
            last[name] = max(last.get(name, 0.0), look["t"])
    excused = set(run.facts.removed).union(*(fault.hosts for fault in run.carried))
    grace_s = max(completeness.GRACE_S, 2 * run.plan.experiment.capture.processes_every_s)
    return [
        f"{'the machine' if name == 'machine' else name} was not looked at in the last "
        f"{window[1] - t:,.0f} s of the measured time: what servers and others used there is not "
        "known"
        for name, t in last.items()
        if window[1] - t > grace_s and name not in excused
    ]


def only_server_ended(run: Inputs, schedule: Schedule, window: tuple[float, float]) -> list[str]:
    """Of a system that is one server: that it ended in mid-load by itself, or by another hand.

    Its figures are of its start as well as of the load then. What was planned, and a kill behind
    the load, are what such a run is about (docs/systems.md).
    """
    if run.storage:
        return []
    planned = {host for fault in run.carried for host in fault.hosts}
    if planned & set(run.kairosdb):
        return []
    killed = run.folder / run_folder.KILLED
    end = min(window[1], run_folder.read_object(killed)["t"] if killed.exists() else window[1])
    ended = {
        e["detail"].split(":")[0]
        for e in run_folder.records(run.folder / run_folder.EVENTS)
        if e["what"] in ("process ended", "process started again")
        and load_start(schedule, window) <= e["t"] < end
    }
    if not ended:
        return []
    return [
        f"{', '.join(sorted(ended))} ended while it took the load, and nobody had planned it: the "
        "figures are of its start as well"
    ]


def stopped_workers(run: Inputs, schedule: Schedule) -> list[str]:
    """Workers that somebody ended before their schedule did: what they lack is not the store's."""
    early = [s for s in outcomes.finals(run.load, schedule.spec.workers) if s["stopped_early"]]
    if not early:
        return []
    which = ", ".join(str(said["worker"]) for said in early)
    left = sum(said["not_sent"] for said in early)
    return [
        f"loader worker{'s' * (len(early) > 1)} {which} stopped before the end of the schedule: "
        f"{left:,} points not sent"
    ]


def stopped_readers(run: Inputs, schedule: Schedule) -> list[str]:
    """The same of the readers: what was not asked may have been wrong."""
    if schedule.spec.queries is None:
        return []
    early = outcomes.answers(run.load, schedule.spec.hosts)["hosts_stopped_early"]
    names = [run.loader_names[host] for host in early]
    return [f"the reader of {name} stopped before the end of the schedule" for name in names]
