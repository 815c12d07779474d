"""Target against achieved, how the load was sent, and how it was spread."""

from kairoscope.report import units
from kairoscope.report.data import Json, RunData, items, known, part
from kairoscope.report.load import counted, planned_duration, warmup_s
from kairoscope.report.sections import ledger
from kairoscope.report.table import Table
from kairoscope.report.units import NONE, number


def targets(run: RunData) -> Table:
    """Target against achieved: sensors, points, points per second, duration, loaders."""
    load, rate = run.load, part(run.measurements, "points_per_s")
    totals = part(run.plan, "totals")
    sent = part(run.manifest, "load")
    start, end = units.epoch_s(sent.get("start_ms")), units.epoch_s(sent.get("end_ms"))
    done = counted(run, "acknowledged" if run.acknowledges else "sent")
    scheduled = counted(run, "scheduled")
    share = None if done is None or not scheduled else done / scheduled
    what = "acknowledged" if run.acknowledges else "handed to the socket"
    steps = items(load, "steps")
    mean = " on average" if len(steps) > 1 or load.get("ramp_ticks") else ""
    fast = "as fast as acknowledged" if run.acknowledges else "as fast as taken"
    per_s = units.count(known(rate.get("target"), totals.get("points_per_s"))) + mean
    errors = [number(part(w, "send_error_us").get("p99")) for w in run.workers]
    late = max((e for e in errors if e is not None), default=None)
    died = [str(w.get("worker", "?")) for w in run.workers if "died" in w]
    workers = units.count(load.get("workers"))
    behind = part(run.plan, "experiment", "limits").get("send_error_p99_ms")
    lateness = (
        "Loader lateness, p99 of the worst worker",
        f"≤ {units.milliseconds(behind)}",
        units.milliseconds(None if late is None else late / 1000),
    )
    return Table(
        ("", "target", "achieved"),
        (
            ("Sensors", units.count(load.get("sensors")), _sensors_seen(run)),
            (
                "Points per second",
                fast if run.replay else per_s,
                units.count(rate.get("achieved")),
            ),
            (
                "Data points",
                units.count(known(scheduled, totals.get("points"))),
                NONE if done is None else f"{units.count(done)} {what} ({units.percent(share)})",
            ),
            (
                "Time that the history covers, and that it took"
                if run.replay
                else "Duration of the load",
                units.duration(planned_duration(run))
                + (f", of which warm-up {units.duration(w)}" if (w := warmup_s(run)) else ""),
                units.duration(None if start is None or end is None else end - start),
            ),
            *(() if run.replay else (lateness,)),
            (
                "Loader processes",
                workers,
                f"{len(run.workers) - len(died)} ended with their counts"
                + (f"; died: worker {', '.join(died)}" if died else ""),
            ),
        ),
        numeric=(1, 2),
    )


def _sensors_seen(run: RunData) -> str:
    """How many sensors have all their acknowledged points in the store."""
    sensors = number(run.load.get("sensors"))
    if sensors is None or run.ledger.get("stored") is None:
        return NONE
    gaps = ledger.of(run).gap_series
    series = number(run.ledger.get("series")) or sensors
    # With churn a sensor is several series, one after the other.
    what = "" if series == sensors else " series"
    if not gaps:
        return f"{units.count(series)}{what}, none with a gap"
    return f"{units.count(series - gaps)}{what} without a gap, {gaps:,} with one"


def sending(run: RunData) -> Table:
    """How the load was sent; nothing for a run that does not tell."""
    load = run.load
    if not run.protocol:
        return Table((), ())
    together = number(load.get("points_per_request")) or 1
    request = f"{units.count(load.get('sensors_per_request'))} sensors"
    if together > 1:
        request += f" × {units.count(together)} points that travel together"
    aligned = load.get("pacing") == "aligned"
    pacing = "aligned: all sensors at the same moment" if aligned else "spread over the period"
    if jitter := number(load.get("jitter_ms")):
        pacing += f", each request up to {units.milliseconds(jitter)} later at random"
    if run.replay:
        pacing = "replay: history, as fast as it is taken"
        if waiting := number(load.get("replay_queue_points")):
            pacing += f" while no node's queue holds more than {units.count(waiting)} points"
    tags = ", ".join(f"{name}={text}" for name, text in part(load, "tags").items())
    rows = [
        ("Protocol", run.protocol + ("" if run.acknowledges else " (acknowledges nothing)")),
        ("A request", f"at most {request}"),
        ("Pacing", pacing),
        ("Series", f"{units.plain(load.get('metric'))} with {tags or 'no tags'}"),
        ("Values", units.plain(load.get("value_type"))),
    ]
    steps = [part(step) for step in items(load, "steps")]
    if len(steps) > 1:
        rows.append(("Rate of a sensor", ", then ".join(map(_step, steps))))
    period_s = (number(load.get("period_ms")) or 0) / 1000
    if ramp := number(load.get("ramp_ticks")):
        ramped = units.duration(known(load.get("ramp_s"), ramp * period_s))
        rows.append(("Ramp", f"sensors join one group after the other in the first {ramped}"))
    if life := number(load.get("lifetime_ticks")):
        lived = units.duration(known(load.get("lifetime_s"), life * period_s))
        rows.append(("Churn", f"a sensor is replaced by a new one after {lived}"))
    return Table(("", ""), tuple(rows))


def _step(step: Json) -> str:
    period, ticks = number(step.get("period_ms")), number(step.get("ticks"))
    if not period or ticks is None:
        return NONE
    return (
        f"{units.significant(1000 / period)} points/s for {units.duration(period * ticks / 1000)}"
    )


def loader_hosts(run: RunData) -> Table:
    """The loader hosts: clocks, and how late each sent; nothing if they are not known."""
    rows = []
    for index, host in enumerate(run.hosts):
        mine = [part(w, "send_error_us") for w in run.workers if w.get("host") == index]
        late = [v for error in mine if (v := number(error.get("p99"))) is not None]
        points = [v for error in mine if (v := number(error.get("count"))) is not None]
        workers = items(host, "workers")
        ended = f"{len(workers)}" if len(mine) == len(workers) else f"{len(mine)} of {len(workers)}"
        rows.append(
            (
                str(host.get("host", "?")),
                str(host.get("address", "?")),
                units.count(host.get("cpus")),
                units.plain(host.get("python")),
                ended,
                _clock(host),
                units.milliseconds(max(late) / 1000 if late else None),
                units.count(sum(points) if points else None),
            )
        )
    head = (
        *("loader host", "address", "CPUs", "Python", "workers that ended", "clock ahead of ours"),
        *("lateness, p99 of its worst worker", "points measured"),
    )
    return Table(head, tuple(rows), numeric=(2, 4, 5, 6, 7))


def _clock(host: Json) -> str:
    """The offset of a host's clock; half the round trip of the look at it is not known."""
    offset, trip = number(host.get("offset_us")), number(host.get("rtt_us"))
    if offset is None or trip is None:
        return NONE
    return f"{offset / 1000:,.2f} ± {trip / 2000:,.2f} ms"


def balance(run: RunData) -> Table:
    """How the load was spread over the servers that take points; nothing if it is not known."""
    nodes = [part(node) for node in items(run.measurements, "kairosdb_nodes")]
    total = sum(number(node.get("points_sent")) or 0 for node in nodes)
    rows = []
    for node in nodes:
        sent = number(node.get("points_sent"))
        row = [
            str(node.get("node", "?")),
            units.count(node.get("sensors")),
            units.count(sent),
            units.percent(sent / total if sent is not None and total else None),
        ]
        if run.acknowledges:
            row.append(units.count(node.get("points_acknowledged")))
        rows.append(tuple(row))
    head = [run.taker, "sensors", "points sent to it", "of all"]
    if run.acknowledges:
        head.append("points acknowledged by it")
    return Table(tuple(head), tuple(rows), numeric=(1, 2, 3, 4))
