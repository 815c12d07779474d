"""One run: capture, load, drain, read back, judge, report. `make load` is this.

Everything goes to the run folder as it happens; whatever ends the run, the folder then says so.
"""

import asyncio
import contextlib
import json
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from cassandra import ConsistencyLevel
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from kairoscope import __version__, paths, report
from kairoscope.deploy import bundles
from kairoscope.deploy.deploy import check_finished, deployed_plan
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, machine, operation, ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.secrets import Access
from kairoscope.plan import Plan
from kairoscope.run import fleet as loader_hosts
from kairoscope.run import load_spec
from kairoscope.run.samplers import (
    Followed,
    HostProbes,
    JsonLines,
    Periodic,
    Processes,
    ProxyHistograms,
    QueueDepth,
    StoreWindow,
    stamp,
)
from kairoscope.stacks.kairosdb import (
    client,
    cql,
    engine,
    failed_logs,
    nodetool,
    readback,
    removed_nodes,
    replicas,
)
from kairoscope.stacks.kairosdb.client import Client
from kairoscope.stacks.kairosdb.shards import ShardLoads
from kairoscope.verdict import conclude, ledger, outcomes, sustained
from kairoscope.verdict.conclude import State, write_json
from loaders.emulator import Progress as LoadProgress
from loaders.emulator import WorkerResult
from loaders.schedule.due import Schedule, Series
from loaders.schedule.spec import LoadSpec

# Workers import numpy and aiohttp before they can send: on two busy cores that takes seconds.
START_DELAY_S = 5

# A storage node that was killed near the end of a load is given so long, in s, to be back before
# what it would have said of itself is missing for good.
CAPTURE_PATIENCE_S = 60

_DU_TRIES = 5


def load(
    plan: Plan, console: Console, *, always_read_back: bool = True, until: Path | None = None
) -> int:
    """Run the plan's load on its deployed target; returns the exit status of the verdict.

    Without `always_read_back`, a load that cannot pass any more is incomplete: nothing is read
    back, which takes longer than the load. Once there is a file `until` the schedule ends at its
    next tick; all else is as ever.
    """
    if until:
        _check_until(plan, until)
    hosts = inventory.load(plan.target)
    _check_deployed(plan, hosts)
    refusal = f"Another load runs on target {plan.target}: each would measure the other."
    with operation.hold(operation.load_lock(plan.target), refusal):
        limit_ms = plan.experiment.limits.clock_offset_ms
        # Before there is a run folder: a host that is not fit leaves no run.
        with (
            client.connect(hosts) as talk,
            loader_hosts.connect(hosts.loader, limit_ms) as fleet,
        ):
            _check_healthy(hosts, talk)
            servers = _servers(hosts, talk)
            state = _open(plan, hosts, servers)
            return _run(state, talk, fleet, console, always_read_back, until)


def _run(
    state: State,
    talk: Client,
    fleet: loader_hosts.Fleet,
    console: Console,
    always_read_back: bool,
    until: Path | None,
) -> int:
    try:
        console.print(f"run folder: {state.folder}", soft_wrap=True)
        _measured_load(state, talk, fleet, console, until)
        if not always_read_back and (why := conclude.failing(state)):
            state.incomplete.append(f"not read back, as the load cannot pass: {why}")
        else:
            _settle(state, talk, console)
    except KeyboardInterrupt:
        state.incomplete.insert(0, "interrupted by the user (Ctrl-C)")
        state.events.write(t=time.time(), what="interrupted", detail="Ctrl-C")
    except (UserError, OSError) as error:
        message = error.message if isinstance(error, UserError) else str(error)
        state.incomplete.insert(0, message)
        state.events.write(t=time.time(), what="error", detail=message)
    except Exception as error:  # a bug of ours; what was captured must not be lost
        state.incomplete.insert(0, f"unexpected error in Kairoscope: {error!r}")
        state.events.write(t=time.time(), what="unexpected error", detail=traceback.format_exc())
    return _finish(state, console)


def _check_until(plan: Plan, until: Path) -> None:
    if plan.load["replay"]:
        raise UserError("--until: a replay is history, which has its end already.")
    if until.exists():
        raise UserError(f"--until: {until} is there already, so that the load would end at once.")
    if not until.parent.is_dir():
        raise UserError(f"--until: there is no folder {until.parent} in which it could appear.")


def _check_deployed(plan: Plan, hosts: Inventory) -> None:
    deployed = deployed_plan(plan.target)
    check_finished(plan.target)
    for part in ("kairosdb", "storage"):
        was, wanted = getattr(deployed, part), getattr(plan, part)
        other = [k for k in wanted if was.get(k) != wanted[k]]
        if other:
            details = ", ".join(f"{k} is {was.get(k)}, wanted {wanted[k]}" for k in other[:4])
            raise UserError(
                f"Target {plan.target} is deployed with other {part} settings ({details}). "
                f"First: make deploy with the same EXPERIMENT=, SENSORS=, RATE=, DURATION=, ENGINE="
            )
    if len(hosts.loader) != plan.load["hosts"]:
        raise UserError(
            f"Target {plan.target} has {len(hosts.loader)} loader hosts, the plan wants "
            f"{plan.load['hosts']}. First: make deploy with the same EXPERIMENT="
        )


def _check_healthy(hosts: Inventory, talk: Client) -> None:
    for host in hosts.kairosdb:
        found = talk.kairosdb(host)
        if not found.healthy:
            why = "".join(f" {trouble}" for trouble in found.troubles)
            raise UserError(f"{host.name} at {host.url} is not healthy.{why} See: make status")
        if found.read_only:
            raise UserError(f"{host.name} at {host.url} is in read-only mode. See its log.")


def _servers(hosts: Inventory, talk: Client) -> dict[str, engine.Server]:
    """What each storage node says it is. UserError if one is not what was deployed."""
    answers = ssh.on_all(hosts.storage, talk.server)
    found = {host.name: server for host, server in zip(hosts.storage, answers, strict=True)}
    deployed = hosts.storage[0].vars
    name = str(deployed["storage_engine"])
    if wrong := engine.problems(found, name, str(deployed[f"{name}_version"])):
        raise UserError(
            "The storage nodes are not what was deployed, so no figure of a run would be what it "
            f"says: {'; '.join(wrong)}. First: make deploy with the same EXPERIMENT="
        )
    return found


def _open(plan: Plan, hosts: Inventory, servers: dict[str, engine.Server]) -> State:
    """Create the run folder with what is known before anything is sent."""
    now = time.time()
    folder = paths.runs_dir() / f"{stamp(now)}-{plan.experiment.name}-{plan.target}"
    # What takes time comes before the folder, so that Ctrl-C leaves none, or one with a verdict.
    manifest = _manifest(plan, folder.name, now, hosts, servers)
    for sub in ("load", "latency", "proxyhistograms"):
        (folder / sub).mkdir(parents=True)
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "experiment.yml").write_text(
        yaml.safe_dump(plan.experiment.model_dump(mode="json"), sort_keys=False)
    )
    write_json(folder / "manifest.json", manifest)
    latest = paths.runs_dir() / "latest"
    partial = paths.runs_dir() / ".latest"
    partial.unlink(missing_ok=True)
    partial.symlink_to(folder.name)
    partial.replace(latest)
    state = State(folder, plan, hosts, now, JsonLines(folder / "events.jsonl"))
    state.incomplete += engine.untold(servers)
    return state


def _manifest(
    plan: Plan, run: str, now: float, hosts: Inventory, servers: dict[str, engine.Server]
) -> dict[str, Any]:
    kairosdb = bundles.bundle("kairosdb")
    # Named by what the bundle holds, such as scylla-driver-core-3.10.2-scylla-1.
    driver = f"driver-{plan.kairosdb['driver']}/"
    jars = bundles.read_manifest(kairosdb.manifest)
    return {
        "run": run,
        "experiment": plan.experiment.name,
        "target": plan.target,
        "started": datetime.fromtimestamp(now, UTC).isoformat(),
        "ended": None,
        "command": " ".join(sys.argv),
        "git": machine.git(),
        "machine": machine.machine(),
        "hosts": machine.hosts(hosts) if hosts.managed else [],
        "versions": {
            "kairoscope": __version__,
            "kairosdb": kairosdb.version,
            **engine.summary(servers),
            "driver": next(Path(name).stem for name in jars if name.startswith(driver)),
            "java": _java(hosts.kairosdb[0]),
            "python": platform.python_version(),
        },
        "load": None,
    }


def _java(host: Host) -> str:
    try:
        # It says so on stderr.
        said = ssh.run(host, ["sh", "-c", f"exec {host.vars['java']} -version 2>&1"])
    except ssh.RemoteError:
        return "unknown"
    return said.splitlines()[0]


def _keyspace_bytes(state: State) -> int | None:
    """Bytes of the keyspace's flushed tables on all storage nodes; None if a node cannot flush."""

    def flushed(host: Host) -> int:
        keyspace = str(host.vars["kairosdb_keyspace"])
        nodetool.run(host, "flush", keyspace)
        folder = f"{host.vars['keyspaces_dir']}/{keyspace}"
        # A compaction may end while du looks, and take files away that it has seen.
        for _ in range(_DU_TRIES - 1):
            with contextlib.suppress(ssh.RemoteError):
                return _du(host, folder)
        return _du(host, folder)

    try:
        return sum(ssh.on_all(state.inventory.storage, flushed))
    except (nodetool.NodetoolError, ssh.RemoteError) as error:
        state.events.write(t=time.time(), what="disk not measured", detail=str(error))
        return None


def _du(host: Host, folder: str) -> int:
    return int(ssh.run(host, ["du", "-s", "-B1", folder], sudo=True).split()[0])


def _schedule(state: State) -> Schedule:
    """The load, which starts START_DELAY_S from now, or for a replay ends now."""
    nodes = state.inventory.kairosdb
    delay_s = 0 if state.plan.load["replay"] else START_DELAY_S
    telnet = [f"{h.address}:{h.vars['telnet_port']}" for h in nodes]
    now_s = time.time() + delay_s
    return Schedule(load_spec.build(state.plan, [h.url for h in nodes], telnet, now_s))


def _measured_load(
    state: State, talk: Client, fleet: loader_hosts.Fleet, console: Console, until: Path | None
) -> None:
    """Capture before, load with all samplers running, watch the queue drain, capture after."""

    def touch(host: Host) -> None:
        with contextlib.suppress(*cql.SAID, OSError, UserError):  # The capture will say so.
            talk.touch(host)

    histogram = ProxyHistograms(
        state.inventory.storage, state.folder / "proxyhistograms", state.events, touch
    )
    console.print("before the load: nodetool proxyhistograms, flush …")
    for host in state.inventory.storage:
        touch(host)
    if failed := histogram.capture("before", CAPTURE_PATIENCE_S):
        # Now, and not only when the load has gone on for long.
        console.print(
            f"not captured: {', '.join(failed)}; the run will be incomplete (Ctrl-C ends it)"
        )
    state.disk_before = _keyspace_bytes(state)

    def low_disk(message: str) -> None:
        if not state.stop.is_set():
            state.incomplete.append(message)
            state.events.write(t=time.time(), what="low disk", detail=message)
            state.stop.set()

    queue = QueueDepth(
        state.inventory.kairosdb,
        talk,
        JsonLines(state.folder / "queue.jsonl"),
        lambda host: _removed(state, host),
    )
    capture = state.plan.experiment.capture
    samplers: list[Periodic | Followed] = [
        Periodic("queue depth", 1, queue.sample),
        _processes(state, low_disk),
        *_shards(state),
    ]
    during = Periodic(
        "proxyhistograms",
        capture.proxyhistograms_every_s,
        lambda: histogram.capture("during"),
        after_s=START_DELAY_S + capture.proxyhistograms_every_s,
    )
    window = _store_window(state)
    for sampler in samplers:
        sampler.start()
    try:
        schedule = _schedule(state)
        if schedule.spec.replay:
            _refuse_old_history(schedule, _urls(state, talk), talk.access)
        state.schedule = schedule
        during.start()
        if window and not schedule.spec.replay:
            begin, end = conclude.measured_window(schedule, state.folder / "load")
            window.start(begin - time.time(), end - time.time())
        _emulate(
            state, talk, fleet, console, queue, until, lambda spec: _end_at(spec, state, window)
        )
        during.stop()
        _watch_drain(state, talk, console, queue)
    finally:
        for sampler in [*samplers, during]:
            sampler.stop()
            if sampler.error:
                state.incomplete.append(f"a capture ended early: {sampler.error}")
        if window:
            window.stop()
    console.print("after the load: nodetool proxyhistograms, flush …")
    histogram.without({host.name for host in state.inventory.storage if _removed(state, host)})
    histogram.capture("after", CAPTURE_PATIENCE_S)
    state.disk_after = _keyspace_bytes(state)
    everyone = (*state.inventory.storage, *state.inventory.kairosdb)
    state.removed = {host.name for host in everyone if _removed(state, host)}
    state.captured = True


def _end_at(shorter: LoadSpec, state: State, window: StoreWindow | None) -> None:
    """The load ends earlier than planned: all that is judged later goes by its shorter schedule."""
    assert state.schedule is not None  # noqa: S101 (set by _measured_load)
    detail = f"after {shorter.ticks} of {state.schedule.spec.ticks} ticks, as was asked for"
    state.events.write(t=time.time(), what="load ends early", detail=detail)
    state.schedule = Schedule(shorter)
    if window:
        window.end_at(shorter.end_ms / 1000 - time.time())


def _store_window(state: State) -> StoreWindow | None:
    """What has the store's own counts of the measured time; Cassandra has none by such a way."""
    storage = state.inventory.storage
    if storage[0].vars["storage_engine"] != "scylla":
        return None
    return StoreWindow(storage, state.folder / "proxyhistograms" / "window.json", state.events)


def _shards(state: State) -> list[ShardLoads]:
    """What looks at the store's shards, where it has any."""
    storage = state.inventory.storage
    if storage[0].vars["storage_engine"] != "scylla":
        return []
    file = JsonLines(state.folder / "scylla.jsonl")
    every_s = state.plan.experiment.capture.shards_every_s
    return [ShardLoads(storage, every_s, file, state.events, lambda host: _removed(state, host))]


def _processes(state: State, low_disk: Callable[[str], None]) -> Periodic | HostProbes:
    """What samples the processes: those of this machine, or those of the hosts."""
    every_s = state.plan.experiment.capture.processes_every_s
    file, events = JsonLines(state.folder / "processes.jsonl"), state.events
    if state.inventory.managed:
        return HostProbes(
            state.inventory.all, every_s, file, events, low_disk, lambda host: _removed(state, host)
        )
    hosts = state.inventory.hosts
    supervisor_dir = Path(hosts[0].vars["supervisor_dir"])
    processes = Processes(hosts, supervisor_dir, file, events, low_disk)
    return Periodic("processes", every_s, processes.sample)


def _removed(state: State, host: Host) -> bool:
    """Whether a host was taken away from the target since the run began."""
    return removed_nodes.since(state.plan.target, host, state.started)


def _urls(state: State, talk: Client) -> list[str]:
    """The KairosDB nodes that are there, as this machine reaches them; loaders have own ways."""
    return [talk.url(host) for host in state.inventory.kairosdb if not _removed(state, host)]


def _failed_logs(state: State) -> list[Path]:
    """Copies of what all KairosDB nodes say of the points that they gave up."""
    copies = []
    for host in state.inventory.kairosdb:
        if _removed(state, host):
            copies += removed_nodes.given_up(state.plan.target, host)
        else:
            copies += failed_logs.fetch(host, state.folder / "failed")
    return copies


def _refuse_old_history(schedule: Schedule, nodes: list[str], access: Access | None) -> None:
    """UserError if the store has points of these series in the time to be replayed already."""
    there = asyncio.run(readback.already_there(schedule, nodes=nodes, access=access))
    if there:
        spec = schedule.spec
        since, until = (
            datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            for ms in (spec.start_ms, spec.end_ms)
        )
        raise UserError(
            f"The store has {there:,} points of the first of these series between {since} and "
            f"{until}, from an earlier run: what a replay finds again there would prove nothing. "
            "Set another load.metric, or: make destroy deploy"
        )


def _emulate(
    state: State,
    talk: Client,
    fleet: loader_hosts.Fleet,
    console: Console,
    queue: QueueDepth,
    until: Path | None,
    on_cut: Callable[[LoadSpec], None],
) -> None:
    """Run the sensors to the end of their schedule, with a live line.

    `on_cut` is told where it ends if `until` is there before.
    """
    assert state.schedule is not None  # noqa: S101 (set by _measured_load)
    spec = state.schedule.spec
    rates = ", then ".join(f"{1000 / step.period_ms:g}" for step in spec.steps)
    pace = ", as fast as it is acknowledged" if spec.replay else ""
    console.print(
        f"load: {spec.sensors:,} sensors × {rates} point/s for {spec.duration_s:,.0f} s{pace}, "
        f"from {spec.workers} workers on {spec.hosts} loader host{'s' * (spec.hosts > 1)}"
    )
    points = state.schedule.points
    with live_progress(console) as bar:
        task = bar.add_task("load", total=points, figures="starting")
        last_line = -10.0

        def show(now: LoadProgress) -> None:
            nonlocal last_line
            waiting = "?" if queue.total is None else f"{queue.total:,}"
            done = f"sent {now.sent:,}  "
            done += f"acknowledged {now.acknowledged:,}  " if spec.acknowledges else ""
            lateness = "" if spec.replay else f"behind {now.behind_ms:,.0f} ms  "
            figures = f"{done}{lateness}p99 {now.p99_ms:,.0f} ms  queue {waiting}"
            # A replay has no clock to be measured by, only how much of it is done.
            arrived = now.acknowledged if spec.acknowledges else now.sent
            bar.update(task, completed=arrived if spec.replay else now.due, figures=figures)
            # Without a terminal the bar shows nothing: a line every ten seconds instead.
            if not console.is_terminal and now.elapsed_s - last_line >= 10:  # noqa: PLR2004
                last_line = now.elapsed_s
                of = f" of {points:,} points" if spec.replay else f"/{now.duration_s:.0f} s"
                console.print(f"  {arrived if spec.replay else now.elapsed_s:4,.0f}{of}  {figures}")

        def shorten(shorter: LoadSpec) -> None:
            on_cut(shorter)
            bar.update(task, total=Schedule(shorter).points)
            console.print(f"  {until} is there: the load ends after {shorter.duration_s:,.0f} s")

        results = fleet.run(
            spec,
            state.folder / "load",
            show,
            state.stop,
            credentials=talk.access.loader_credentials if talk.access else None,
            until=until.exists if until else None,
            on_cut=shorten,
        )
    state.incomplete += [*_died(results), *fleet.readers_died]


def _died(results: list[WorkerResult]) -> list[str]:
    """What loader hosts and workers died of: a host takes all its workers with it."""
    of_host: dict[str, list[int]] = {}
    reasons = []
    for result in results:
        how = str(result.get("died", ""))
        if how.startswith("loader host "):
            of_host.setdefault(how, []).append(result["worker"])
        elif how:
            reasons.append(f"loader worker {result['worker']} died: {how}")
    hosts = []
    for how, workers in of_host.items():
        which = ", ".join(map(str, workers))
        hosts.append(f"{how}; with it went worker{'s' * (len(workers) > 1)} {which}")
    return [*hosts, *reasons]


def live_progress(console: Console) -> Progress:
    """A progress bar with a free text of figures; nothing where there is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
        console=console,
        disable=not console.is_terminal,
    )


def _watch_drain(state: State, talk: Client, console: Console, queue: QueueDepth) -> None:
    """Wait until no point waits in KairosDB's queues, up to the limit.

    With the stock queue a node that was started again meanwhile does not look at what waits on its
    disk by itself.
    """
    limit = state.plan.experiment.limits.drain_s
    console.print("drain: waiting for KairosDB's queue …")
    start = nudged = time.monotonic()
    state.drain_watched = True
    while True:
        queue.sample()
        waited = time.monotonic() - start
        state.left_in_queue = queue.total
        if state.left_in_queue == 0:
            state.drained_s = waited
            return
        if waited >= limit:
            return
        if time.monotonic() - nudged >= client.NUDGE_EVERY_S:
            nudged = time.monotonic()
            for host in state.inventory.kairosdb:
                if queue.waiting[host.name] and talk.kairosdb(host).stock_queue:
                    talk.nudge(host)
        time.sleep(0.5)


def _settle(state: State, talk: Client, console: Console) -> None:
    """Read every point back and balance the ledger."""
    assert state.schedule is not None  # noqa: S101 (set by _measured_load)
    schedule = state.schedule
    found = state.outcomes = outcomes.read(schedule, state.folder / "load")
    settlement = ledger.Settlement(schedule, found)
    total = sum(
        len(group.slots) * sum(1 for _ in schedule.lives(group))
        for worker in range(schedule.spec.workers)
        for group in schedule.groups(worker)
    )
    with live_progress(console) as bar:
        task = bar.add_task("read back", total=total, figures="")
        done = 0
        next_line = time.monotonic() + 10

        def add(result: readback.SeriesResult) -> None:
            nonlocal done, next_line
            settlement.add(result)
            done += 1
            figures = f"{done:,} of {total:,} series"
            if done % 100 == 0:
                bar.update(task, completed=done, figures=figures)
            # Without a terminal the bar shows nothing: a line every ten seconds instead.
            if not console.is_terminal and time.monotonic() >= next_line:
                next_line = time.monotonic() + 10
                console.print(f"  {figures}")

        console.print(f"read back: {schedule.points:,} points of {total:,} series …")
        passes = asyncio.run(
            readback.read_all(
                schedule, settlement.incomplete, add, nodes=_urls(state, talk), access=talk.access
            )
        )
    failed = ledger.failed_points(schedule.spec, _failed_logs(state), int(state.started * 1000))
    state.ledger = settlement.close(state.left_in_queue, failed, passes)
    console.print("row counts by CQL …")
    try:
        state.ledger.rows_by_cql = _rows(state, talk, schedule)
    except Exception as error:
        state.ledger.notes.append(f"rows could not be counted by CQL: {error}")
        state.events.write(t=time.time(), what="row count failed", detail=str(error))
    # After the count: a read at ALL brings rows to replicas that lack them.
    if gaps := state.ledger.lacking:
        console.print(f"look for missing points of {len(gaps):,} series at ALL …")
        state.ledger.at_all = _at_all(state, talk, gaps)


def _at_all(state: State, talk: Client, gaps: list[ledger.Gap]) -> ledger.AtAll:
    schedule = gaps[0].schedule
    keyspace = str(state.inventory.storage[0].vars["kairosdb_keyspace"])
    data_type = f"kairos_{schedule.spec.value_type}"

    def on_replicas(wanted: Iterator[replicas.Wanted]) -> Iterator[set[int]]:
        with talk.cql(state.inventory.storage, ConsistencyLevel.ALL) as db:
            yield from cql.timestamps_of_series(db, keyspace, wanted, data_type)

    def again(series: list[Series], add: Callable[[readback.SeriesResult], None]) -> None:
        urls = _urls(state, talk)
        asyncio.run(readback.read_once(schedule, series, add, nodes=urls, access=talk.access))

    found = replicas.look(gaps, state.plan.kairosdb["read_consistency"], on_replicas, again)
    if found.problem:
        state.events.write(t=time.time(), what="read at ALL failed", detail=found.problem)
    return found


def _rows(state: State, talk: Client, schedule: Schedule) -> int:
    hosts = state.inventory.storage
    keyspace = str(hosts[0].vars["kairosdb_keyspace"])
    spec = schedule.spec
    series = ((spec.metric_name(s.number), spec.tags_of(s.number)) for s in schedule.series())
    with talk.cql(hosts) as db:
        spans = readback.spans(schedule)
        return cql.rows_of_series(db, keyspace, series, spans, f"kairos_{spec.value_type}")


def _finish(state: State, console: Console) -> int:
    """Judge what there is, write it, and tell where it is."""
    # A second Ctrl-C now would lose what the first one left; this takes seconds.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        judged = conclude.judge(state)
        write_json(state.folder / "verdict.json", judged.to_json())
        manifest = json.loads((state.folder / "manifest.json").read_text())
        manifest["ended"] = datetime.now(UTC).isoformat()
        manifest["load"] = conclude.times(state)
        write_json(state.folder / "manifest.json", manifest)
        html, _ = report.write(state.folder, paths.REFERENCE)
    except OSError as error:
        raise UserError(
            f"The run's results could not be written to {state.folder}: {error}. What was captured "
            "before stays there; the run is incomplete."
        ) from error
    show_verdict(judged, console)
    console.print(f"report: {html}", soft_wrap=True)
    return sustained.EXIT_STATUS[judged.verdict]


def show_verdict(judged: sustained.Verdict, console: Console) -> None:
    """Print the word, the sentence and the five parts."""
    colour = {"pass": "green", "fail": "red"}.get(judged.verdict, "yellow")
    console.print(f"\n[bold {colour}]verdict: {judged.verdict}[/]  {judged.summary}")
    for name, part in judged.parts.items():
        console.print(f"  {name:9} {part.outcome:8} {part.text}", markup=False)
    for reason in judged.reasons[1:]:
        console.print(f"  also: {reason}", markup=False)
