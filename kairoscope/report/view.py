"""What the sections of the report say, as tables of text: the same for the HTML page and the
Markdown summary. The first screen is in `first`."""

from dataclasses import dataclass
from typing import Any

from kairoscope.report import units
from kairoscope.report.charts import PERCENTILES, warmup_s
from kairoscope.report.data import Capture, Json, RunData, items, part, samples
from kairoscope.report.units import NONE, number

Text = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Cells of text under `head`; columns listed in `numeric` are aligned to the right."""

    head: Text
    rows: tuple[Text, ...]
    numeric: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True)
class Equation:
    """A line of the ledger's balance; `holds` is None if it could not be checked."""

    text: str
    left: str
    right: str
    holds: bool | None


@dataclass(frozen=True)
class Ledger:
    """The ledger: balance, counts, and what is unaccounted for by name."""

    known: bool
    balanced: bool | None
    equations: tuple[Equation, ...]
    counts: Table
    gaps: Table
    gap_series: int
    at_all: Table
    notes: Text


@dataclass(frozen=True)
class NodeCaptures:
    """`proxyhistograms` of one storage node: the one to read first, and the others to open."""

    node: str
    shown: str
    label: str
    others: tuple[tuple[str, str], ...]
    total: int


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
    per_s = units.count(_first(rate.get("target"), totals.get("points_per_s"))) + mean
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
                units.count(_first(scheduled, totals.get("points"))),
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


def counted(run: RunData, key: str) -> float | None:
    """A count from the ledger; without one, the sum of what the loader processes last said."""
    settled = number(run.ledger.get(key))
    if settled is not None:
        return settled
    finals = [v for w in run.workers if (v := number(w.get(key))) is not None]
    if finals and len(finals) == len(run.progress or run.workers):
        return sum(finals)
    running = "due" if key == "scheduled" else key
    last = [
        v for lines in run.progress if lines if (v := number(lines[-1].get(running))) is not None
    ]
    return sum(last) if last else None


def _sensors_seen(run: RunData) -> str:
    """How many sensors have all their acknowledged points in the store."""
    sensors = number(run.load.get("sensors"))
    if sensors is None or run.ledger.get("stored") is None:
        return NONE
    gaps = ledger(run).gap_series
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
        ("Series", f"{_plain(load.get('metric'))} with {tags or 'no tags'}"),
        ("Values", _plain(load.get("value_type"))),
    ]
    steps = [part(step) for step in items(load, "steps")]
    if len(steps) > 1:
        rows.append(("Rate of a sensor", ", then ".join(map(_step, steps))))
    period_s = (number(load.get("period_ms")) or 0) / 1000
    if ramp := number(load.get("ramp_ticks")):
        ramped = units.duration(_first(load.get("ramp_s"), ramp * period_s))
        rows.append(("Ramp", f"sensors join one group after the other in the first {ramped}"))
    if life := number(load.get("lifetime_ticks")):
        lived = units.duration(_first(load.get("lifetime_s"), life * period_s))
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
                _plain(host.get("python")),
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


def query_answers(run: RunData) -> Table:
    """What became of the queries beside the load, by kind; nothing if there were none."""
    answers = part(run.queries, "answers")
    if not answers:
        return Table((), ())
    by_kind = [(_KINDS.get(kind, kind), part(c)) for kind, c in part(answers, "kinds").items()]
    rows = [
        (name, *(units.count(counts.get(key)) for key in _ANSWERS))
        for name, counts in [*by_kind, ("all", answers)]
    ]
    head = ("queries", *(key.replace("_", " ") for key in _ANSWERS))
    return Table(head, tuple(rows), numeric=tuple(range(1, len(head))))


_ANSWERS = ("sent", "right", "late", "wrong", "failed", "not_sent")
_KINDS = {"raw": "points of some sensors", "aggregated": "count and sum in buckets", "tags": "tags"}


def query_notes(run: RunData) -> Text:
    """Sentences on the points that queries looked at, and on what went wrong."""
    answers = part(run.queries, "answers")
    notes = []
    if checked := number(answers.get("points_checked")):
        late = number(answers.get("points_late"))
        lag = number(part(run.load, "queries").get("lag_s"))
        aged = "" if lag is None else f" {units.duration(lag)} after their time"
        notes.append(
            f"{units.count(checked)} points were due in the answers{aged}; "
            f"{units.count(late)} were not yet"
            f"{'' if late is None else f' ({100 * late / checked:.2g} %)'}."
        )
    errors = part(answers, "errors")
    if errors:
        kinds = ", ".join(f"{kind} {units.count(n)}" for kind, n in sorted(errors.items()))
        notes.append(f"Failures by kind: {kinds}.")
    if without := items(answers, "hosts_without_final_counts"):
        notes.append(
            f"{len(without)} loader host(s) left no final counts: theirs are those last heard of."
        )
    return tuple(notes)


def queue_note(run: RunData) -> str:
    """What order points leave KairosDB's queue in; "" for a run that does not tell."""
    settings = part(run.plan, "kairosdb")
    window_ms = number(settings.get("queue_window_ms"))
    if settings.get("queue") == "stock":
        return "Queue: KairosDB's own; points leave it in the order they came."
    if window_ms is None:
        return ""
    return (
        "Queue: coalescing; points of a series leave it together, after a window of "
        f"{units.duration(window_ms / 1000)} at most (kairosdb.queue_window_ms), in which queries "
        "do not find them. So half a window of points waits while all is well."
    )


def duration(run: RunData) -> float | None:
    """Of the load, in seconds: as it was, if it was ended before its time, else as planned."""
    was = part(run.manifest, "load")
    start, end = number(was.get("start_ms")), number(was.get("end_ms"))
    if start is not None and end is not None and not run.replay:
        return (end - start) / 1000
    return planned_duration(run)


def planned_duration(run: RunData) -> float | None:
    """Of the load, in seconds; of a replay the time that the history covers."""
    load = run.load
    direct = number(load.get("duration_s"))
    if direct is not None:
        return direct
    points, rate = number(_first(load.get("points"), load.get("ticks"))), number(load.get("rate"))
    return points / rate if points is not None and rate else None


def _first(*values: Any) -> Any:
    return next((v for v in values if v is not None), None)


_COUNTS = (
    ("scheduled", "points that the schedule asked for"),
    ("not_sent", "never left the loader"),
    ("sent", "left the loader"),
    ("acknowledged", "the server answered that it took them"),
    ("rejected", "the server refused them"),
    ("unknown", "no answer: may or may not be stored"),
    ("stored", "acknowledged and read back with the right value"),
    ("queued", "still waiting on the servers"),
    ("failed_logged", "the servers logged that they could not store them"),
    ("missing", "acknowledged, not found"),
    ("wrong_value", "found with another value"),
    ("unknown_stored", "of those without an answer: found"),
    ("unknown_missing", "of those without an answer: not found"),
    ("rejected_stored", "refused and yet found"),
    ("not_sent_stored", "never sent and yet found"),
    ("unexpected", "found at times that were never scheduled"),
    ("rows_by_cql", "rows counted in the store"),
    ("rows_expected", "rows that there should be"),
)


def ledger(run: RunData) -> Ledger:
    """The ledger, or what the loaders alone counted where nothing was read back."""
    book = run.ledger
    rows = []
    for key, meaning in _COUNTS:
        value = number(book.get(key)) if book else counted(run, key)
        if value is not None:
            rows.append((key.replace("_", " "), units.count(value), meaning))
    equations = tuple(
        Equation(
            str(e.get("text", "?")),
            units.count(e.get("left")),
            units.count(e.get("right")),
            _holds(e),
        )
        for e in items(book, "equations")
        if isinstance(e, dict)
    )
    gaps = [gap for gap in items(book, "gaps") if isinstance(gap, dict)]
    balanced = book.get("balanced")
    if balanced is False and all(e.holds is not False for e in equations):
        # Nothing contradicts: what was not read back cannot be balanced.
        balanced = None if any(e.holds is None for e in equations) else False
    return Ledger(
        known=bool(book),
        balanced=balanced if isinstance(balanced, bool) else None,
        equations=equations,
        counts=Table(("points", "count", "meaning"), tuple(rows), numeric=(1,)),
        gaps=Table(
            ("series", "what", "points", "timestamps (UTC)"),
            tuple(
                (
                    str(gap.get("series", "?")),
                    str(gap.get("kind", "?")),
                    units.count(gap.get("count")),
                    _timestamps(gap),
                )
                for gap in gaps
            ),
            numeric=(2,),
        ),
        gap_series=round(number(book.get("gap_series")) or len(gaps)),
        at_all=_at_all(book),
        notes=tuple(str(note) for note in items(book, "notes")),
    )


_AT_ALL = (
    ("repaired", "on some replica, and read back after a read at ALL, which repairs"),
    ("not_found", "on some replica, and still not found by a query: their index may be missing"),
    ("lost", "on no replica"),
)


def _at_all(book: Json) -> Table:
    """What every replica has of the missing points; empty if none are, or in an older run."""
    head = ("missing points, by a read at ALL", "count")
    found = book.get("at_all")
    if not isinstance(found, dict):
        return Table(head, (), numeric=(1,))
    if found.get("problem"):
        rows = [(f"not looked for: {found['problem']}", units.count(found.get("looked_for")))]
    else:
        rows = [(meaning, units.count(found.get(key))) for key, meaning in _AT_ALL]
    return Table(head, tuple(rows), numeric=(1,))


def _holds(equation: Json) -> bool | None:
    """Whether an equation holds; None if a side is not known, which is not the same as unequal."""
    holds = equation.get("holds")
    known = number(equation.get("left")) is not None and number(equation.get("right")) is not None
    return holds if known and isinstance(holds, bool) else None


def _timestamps(gap: Json, shown: int = 4) -> str:
    times = items(gap, "timestamps_ms")
    total = int(number(gap.get("count")) or len(times))
    text = ", ".join(units.clock(t, millis=True).removesuffix(" UTC") for t in times[:shown])
    more = total - min(len(times), shown)
    return f"{text} and {more:,} more" if more > 0 and text else text or NONE


def latency(run: RunData) -> Table:
    """Client latency by percentile, with the number of points behind each."""
    return _percentiles(run.latency, "points")


def query_latency(run: RunData) -> Table:
    """Latency of the queries beside the load, with the number of queries behind each percentile."""
    return _percentiles(part(run.queries, "latency"), "queries")


def _percentiles(latency: Json, what: str) -> Table:
    total = number(latency.get("count"))
    if not total:
        return Table((), ())
    rows = []
    for name, key in PERCENTILES:
        value = number(latency.get(key))
        if value is not None:
            slower = round(total * (1 - float(name) / 100))
            rows.append((f"p{name}", units.milliseconds(value), units.count(total), f"{slower:,}"))
    for name, key in (("max", "max_ms"), ("mean", "mean_ms")):
        value = number(latency.get(key))
        if value is not None:
            slower_text = "0" if name == "max" else NONE
            rows.append((name, units.milliseconds(value), units.count(total), slower_text))
    head = ("percentile", "latency", f"{what} measured", "of these slower, about")
    return Table(head, tuple(rows), numeric=(1, 2, 3))


def latency_parts(run: RunData) -> Table:
    """Where the latency is: of each server and loader host, in the loader and behind it.

    What there is one of is the whole, and has no line.
    """
    whole = run.latency
    named = [
        (str(part(each).get(key)), part(each))
        for several, key in (("nodes", "node"), ("hosts", "host"))
        if len(found := items(whole, several)) > 1
        for each in found
    ]
    parts = [
        ("waiting for a connection", part(whole, "wait")),
        ("from then until answered", part(whole, "service")),
    ]
    columns = ("p50_ms", "p99_ms", "p99_9_ms", "max_ms")
    rows = []
    for name, each in (*named, *parts):
        if count := number(each.get("count")):
            values = (number(each.get(key)) for key in columns)
            told = (NONE if value is None else units.milliseconds(value) for value in values)
            rows.append((name, *told, units.count(count)))
    head = ("of, or in", "p50", "p99", "p99.9", "max", "points measured")
    return Table(head, tuple(rows), numeric=(1, 2, 3, 4, 5))


def warmup_points(run: RunData) -> str:
    """How many points of the warm-up are not among the percentiles; empty if that is not known."""
    points = number(run.latency.get("warmup_count"))
    return "" if points is None else units.count(points)


def captures(run: RunData) -> tuple[NodeCaptures, ...]:
    """Per storage node the last capture under load, and one before, during and after to open."""
    nodes: dict[str, list[Capture]] = {}
    for capture in run.captures:
        nodes.setdefault(capture.node, []).append(capture)
    found = []
    for node, of_node in nodes.items():
        phases = {c.phase: c for c in of_node}  # in order of time, so the last of each phase
        first = {c.phase: c for c in reversed(of_node)}
        shown = phases.get("during") or of_node[-1]
        middle = [c for c in of_node if c.phase == "during"]
        others = [first.get("before"), middle[len(middle) // 2] if middle else None]
        others.append(phases.get("after"))
        found.append(
            NodeCaptures(
                node=node,
                shown=nodetool_text(shown),
                label=_capture_label(shown, run, last=shown.phase == "during"),
                others=tuple(
                    (_capture_label(c, run, last=False), nodetool_text(c))
                    for c in others
                    if c is not None and c is not shown
                ),
                total=len(of_node),
            )
        )
    return tuple(found)


def store_window(run: RunData) -> Table:
    """What the storage nodes counted in exactly the measured time; a node of 0 requests included.

    A percentile that lies beyond the last bucket's beginning is not known.
    """
    percentiles = ("50", "75", "95", "98", "99", "99.9")
    rows = []
    for node in sorted(part(run.window, "nodes")):
        for name in ("write", "read"):
            counted = part(run.window, "nodes", node, name)
            values = (number(counted.get(f"p{p.replace('.', '_')}_us")) for p in percentiles)
            cells = [NONE if us is None else units.milliseconds(us / 1000) for us in values]
            rows.append((node, name, units.count(counted.get("count")), *cells))
    head = ("node", "operation", "requests", *(f"p{p} ≤" for p in percentiles))
    return Table(head, tuple(rows), numeric=tuple(range(2, len(head))))


def not_counted(run: RunData) -> str:
    """A sentence if the store's own counts of some storage nodes are not known; else nothing."""
    known = part(run.window, "nodes")
    silent = sorted({capture.node for capture in run.captures} - set(known))
    if not run.window or not silent:
        return ""
    return (
        f"Not known of {', '.join(silent)}: a node's counts begin anew with its server, and it "
        "must answer at both ends of the measured time; see the events."
    )


def few_captured(run: RunData) -> str:
    """A sentence if storage nodes of the plan have no capture at all; else nothing."""
    planned = number(part(run.plan, "experiment", "cluster").get("storage_nodes"))
    seen = len({capture.node for capture in run.captures})
    if not planned or not seen or seen >= planned:
        return ""
    return f"Captures exist of {seen} of {units.count(planned)} storage nodes only; see the events."


def _capture_label(capture: Capture, run: RunData, *, last: bool) -> str:
    start = run.start_s
    since = "" if start is None else f", {units.offset(capture.t - start)} after the load began"
    if start is not None and capture.t < start:
        since = f", {units.offset(start - capture.t)} before the load began"
    return f"{'last ' if last else ''}{capture.phase} the load, {units.clock(capture.t)}{since}"


def nodetool_text(capture: Capture) -> str:
    """The capture as nodetool printed it; rebuilt in its layout if the raw text was not kept."""
    if capture.raw.strip():
        return capture.raw.strip("\n")
    names = list(capture.rows)
    lines = [
        "proxy histograms",
        f"{'Percentile':<10}" + "".join(f"{n + ' Latency':>19}" for n in names),
    ]
    lines.append(" " * 10 + "".join(f"{'(micros)':>19}" for _ in names))
    for percentile in ("50%", "75%", "95%", "98%", "99%", "Min", "Max"):
        values = [number(capture.rows[n].get(percentile)) for n in names]
        cells = (f"{NONE if v is None else f'{v:.2f}':>19}" for v in values)
        lines.append(f"{percentile:<10}" + "".join(cells))
    return "\n".join(lines)


def processes(run: RunData) -> Table:
    """CPU, memory and disk of every process over the measured window."""
    roles = {str(r.get("name")): str(r.get("role", "?")) for r in run.processes}
    cores, memory = part(run.measurements, "cpu_cores"), part(run.measurements, "rss_max_bytes")
    disk = samples(run.processes, "disk_bytes")
    seen = samples(run.processes, "rss_bytes")
    shown = {n for n in (*roles, *cores, *memory) if roles.get(n) not in ("machine", "host")}
    names = sorted(shown, key=lambda n: (roles.get(n, "~"), n))
    rows = []
    for name in names:
        peak = number(memory.get(name))
        if peak is None:
            peak = max((v for _, v in seen.get(name, []) if v is not None), default=None)
        mean = number(cores.get(name))
        used = [v for _, v in disk.get(name, []) if v is not None]
        rows.append(
            (
                name,
                roles.get(name, "?"),
                NONE if mean is None else units.significant(mean),
                units.byte_size(peak),
                units.byte_size(used[-1] if used else None),
            )
        )
    head = ("process", "role", "mean cores", "highest memory (RSS)", "disk at the end")
    return Table(head, tuple(rows), numeric=(2, 3, 4))


def beside(run: RunData) -> Table:
    """This run's figures beside those of the last runs like it; empty if there were none."""
    rows = []
    for entry in map(part, part(run.beside, "figures").values()):
        unit = str(entry.get("unit") or "")
        figure, median, least, most = (
            units.quantity(entry.get(key), unit) for key in ("figure", "median", "least", "most")
        )
        values = [number(entry.get(key)) for key in ("figure", "least", "most")]
        outside = ""
        if None not in values:
            mine, low, high = (v or 0.0 for v in values)
            outside = "lower than all" if mine < low else "higher than all" if mine > high else ""
        rows.append((str(entry.get("label")), figure, median, f"{least} to {most}", outside))
    head = ("", "this run", "median", "least to most", "")
    return Table(head, tuple(rows), numeric=(1, 2, 3)) if rows else Table((), ())


def beside_note(run: RunData) -> str:
    """Which runs those are."""
    count, passed = number(run.beside.get("runs")), number(run.beside.get("passed"))
    return (
        f"The last {units.count(count)} judged runs of this experiment, asked for in the same way "
        f"on the same machine, {units.count(passed)} of which passed. With so many, one run in "
        f"{units.count((count or 0) / 2 + 0.5)} is outside all of them by chance, for each figure."
    )


def costs(run: RunData) -> Table:
    """What one data point costs: CPU by role, bytes on disk; and how busy the machine was."""
    if not run.measurements:
        return Table((), ())
    per_point = part(run.measurements, "cpu_us_per_point")
    size = part(run.measurements, "bytes_per_point")
    labels = {**run.server_roles, "storage": "all storage nodes together", "loader": "loaders"}
    rows = [
        (f"CPU per point, {labels[role]}", _micros(per_point.get(role)))
        for role in (*run.server_roles, "loader")
    ]
    rows += [
        (
            "Bytes per point on disk, all replicas",
            units.byte_size(size.get("on_disk_all_replicas")),
        ),
        ("Bytes per point on disk, one replica", units.byte_size(size.get("per_replica"))),
        (
            "Machine (or hosts on average) busy, share of all cores",
            units.percent(run.measurements.get("machine_cpu_busy_fraction")),
        ),
    ]
    return Table(("", "measured"), tuple(rows), numeric=(1,))


def _micros(value: Any) -> str:
    n = number(value)
    return NONE if n is None else f"{units.significant(n)} µs"


def settings(run: RunData) -> Table:
    """The resolved settings with where each comes from and its arithmetic."""
    rows = []
    for setting in items(run.plan, "settings"):
        if not isinstance(setting, dict):
            continue
        origin = str(setting.get("origin", "?"))
        if setting.get("derived_value") is not None and origin != "derived":
            origin += f" (derived would be {_plain(setting['derived_value'])})"
        unit = str(setting.get("unit") or "")
        rows.append(
            (
                str(setting.get("name", "?")),
                f"{_plain(setting.get('value'))} {unit}".strip(),
                origin,
                str(setting.get("arithmetic") or ""),
                str(setting.get("reason") or ""),
            )
        )
    return Table(("setting", "value", "from", "arithmetic", "reason"), tuple(rows))


def _plain(value: Any) -> str:
    n = number(value)
    if n is not None:
        return f"{value:,}"
    return NONE if value is None else str(value)


def _machine(machine: Json) -> str:
    if "error" in machine:
        return f"{NONE} ({machine['error']})"
    return (
        f"{units.count(machine.get('cpus'))} CPUs ({_plain(machine.get('cpu_model'))}), "
        f"{units.byte_size(machine.get('memory_bytes'))} memory, {_plain(machine.get('os'))}, "
        f"kernel {_plain(machine.get('kernel'))}"
    )


def identity(run: RunData) -> Table:
    """Which run this is: times, commit, machine, versions."""
    manifest = run.manifest
    git, machine = part(manifest, "git"), part(manifest, "machine")
    dirty = git.get("dirty")
    state = " (with uncommitted changes)" if dirty else " (clean)" if dirty is False else ""
    rows = [
        ("Run", str(manifest.get("run") or run.folder)),
        ("Experiment", _plain(_first(manifest.get("experiment"), run.plan.get("experiment_file")))),
        ("Target", _plain(_first(manifest.get("target"), run.plan.get("target")))),
        ("Command", _plain(manifest.get("command"))),
        ("Started", units.clock(manifest.get("started"))),
        ("Ended", units.clock(manifest.get("ended"))),
        ("Git commit", f"{git.get('commit') or NONE}{state}"),
        ("Machine", _machine(machine)),
    ]
    for host in items(manifest, "hosts"):
        rows.append((f"Host {host.get('name')}", _machine(host)))
    rows += [
        (f"Version: {name.replace('_', ' ')}", _plain(value))
        for name, value in part(manifest, "versions").items()
    ]
    return Table(("", ""), tuple(rows))


def events(run: RunData) -> Table:
    """What happened, with the time since the start of the load."""
    start = run.start_s
    rows = []
    # Some are written when the load has ended: what workers saw.
    for event in sorted(run.events, key=lambda event: units.epoch_s(event.get("t")) or 0.0):
        t = units.epoch_s(event.get("t"))
        since = NONE if t is None or start is None else units.offset(t - start)
        rows.append(
            (since, units.clock(t), _plain(event.get("what")), str(event.get("detail") or ""))
        )
    return Table(("min:s into the load", "time", "what", "detail"), tuple(rows), numeric=(0,))


def faults(run: RunData) -> Table:
    """What was wrong on purpose, when, and what each fault came to."""
    start = run.start_s or 0.0
    rows = []
    for fault in items(run.verdict, "faults"):
        begun, undone = (units.epoch_s(fault.get(key)) for key in ("begun_t", "undone_t"))
        since = NONE if begun is None else units.offset(begun - start)
        lasted = NONE if begun is None or undone is None else units.duration(undone - begun)
        rows.append(
            (
                str(fault.get("text")),
                since,
                lasted,
                units.duration(fault.get("silence_s")),
                units.duration(fault.get("recovery_s")),
                str(fault.get("said")),
            )
        )
    head = ("fault", "min:s into the load", "lasted", "longest silence", "as before after", "said")
    return Table(head, tuple(rows), numeric=(1, 2, 3, 4))


def loader_errors(run: RunData) -> tuple[Table, Text]:
    """Errors that the loaders counted, by kind, and the first few in the server's words."""
    kinds: dict[str, float] = {}
    for worker in run.workers:
        for kind, n in part(worker, "errors").items():
            kinds[kind] = kinds.get(kind, 0) + (number(n) or 0)
    words = dict.fromkeys(str(text) for w in run.workers for text in items(w, "first_errors"))
    rows = tuple((kind, units.count(n)) for kind, n in sorted(kinds.items()))
    return Table(("error", "count"), rows, numeric=(1,)), tuple(words)[:5]
