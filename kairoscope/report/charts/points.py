"""The charts of points: how many were due and came, and how many wait."""

import numpy as np

from kairoscope.report import units
from kairoscope.report.charts.chart import COLOURS, Chart, Pairs, Series, one_each
from kairoscope.report.charts.grid import on_grid
from kairoscope.report.data import Json, RunData, part, samples
from kairoscope.report.load import LONGEST_S
from kairoscope.report.units import number


def throughput(run: RunData) -> Chart | None:
    """Points per second over time: due by the schedule, and acknowledged (over telnet: sent).

    A replay is due as fast as it goes, so that it has no line of its own to be measured by.
    """
    start = run.start_s
    workers = [[r for r in lines if units.epoch_s(r.get("t"))] for lines in run.progress]
    workers = [lines for lines in workers if lines]
    if start is None or not workers:
        return None
    last = max(units.epoch_s(lines[-1]["t"]) or 0.0 for lines in workers) - start
    if not 1 <= last < LONGEST_S:
        return None
    # Workers write once a second, but not at the same moment: their cumulative counts are read off
    # at whole seconds, where they can be added.
    seconds = np.arange(0, round(last) + 1, dtype=float)
    done, what = "acknowledged", "acknowledged"
    if not run.acknowledges:
        done, what = "sent", "handed to the socket"
    rows = {key: np.zeros(len(seconds)) for key in ("due", done)}
    for lines in workers:
        # At the start nothing has been counted yet.
        later = [r for r in lines if (units.epoch_s(r["t"]) or 0.0) > start]
        at = [0.0, *((units.epoch_s(r["t"]) or 0.0) - start for r in later)]
        for key in rows:
            counts = [0.0, *(number(r.get(key)) or 0.0 for r in later)]
            rows[key] += np.interp(seconds, at, counts)
    due, arrived = (tuple(np.diff(rows[key]).tolist()) for key in ("due", done))
    planned = int(number(run.load.get("workers")) or 0)
    scheduled = Series("scheduled", due, COLOURS[0], dashed=True)
    return Chart(
        id="throughput",
        title="Points per second",
        summary=f"Points per second {'' if run.replay else 'scheduled and '}{what}, by "
        f"{max(len(run.progress), planned)} loader process(es); the slowest second {what} "
        f"{units.count(min(arrived))}.",
        x=tuple(seconds[1:].tolist()),
        x_label="since the start of the load (min:s)",
        y_label="points/s",
        series=(*(() if run.replay else (scheduled,)), Series(what, arrived, COLOURS[1])),
    )


def queue(run: RunData) -> Chart | None:
    """Points that wait to be stored, of each server that takes them.

    Not what a restart would write again (`since_checkpoint`): that is a saw-tooth of the
    checkpoints, large enough to hide a queue that grows.
    """
    waiting = samples(run.queue, "waiting") or samples(run.queue, "file_queue")
    x, rows = on_grid(waiting, run)
    depths = [v for row in rows.values() for v in row if v is not None]
    if not depths:
        return None
    failed = sum("error" in record for record in run.queue)
    holes = f" {failed} sample(s) failed and show as holes." if failed else ""
    return Chart(
        id="queue",
        title=f"{run.title} queue depth",
        summary=f"Points waiting in {run.title} to be stored; "
        f"at most {units.count(max(depths))} on one node.{holes}",
        x=x,
        x_label="since the start of the load (min:s)",
        y_label="points",
        series=one_each(rows),
    )


def flows(run: RunData) -> Chart | None:
    """Points/s by a stack's own counters: of all processes that have one together, such as what
    was received and what was written."""
    wanted = part(run.manifest, "captures", "flows")
    lines: dict[str, Pairs] = {}
    for label, counter in wanted.items():
        lines[str(label)] = [
            (float(look["t"]), sum(found) if found else None)
            for look in run.counters
            for found in [of_counter(look, str(counter))]
            if number(look.get("t")) is not None
        ]
    x, rows = on_grid(lines, run)
    most = {
        label: max((v for v in row if v is not None), default=0.0) for label, row in rows.items()
    }
    if not any(most.values()):
        return None
    peaks = ", ".join(f"{label} at most {units.count(value)}/s" for label, value in most.items())
    return Chart(
        id="flows",
        title="Points by the servers' own counters",
        summary=f"What the servers count themselves, their own figures included: {peaks}.",
        x=x,
        x_label="since the start of the load (min:s)",
        y_label="points/s",
        series=tuple(
            Series(label, tuple(values), COLOURS[i % len(COLOURS)])
            for i, (label, values) in enumerate(rows.items())
        ),
    )


def of_counter(look: Json, counter: str) -> list[float]:
    """A counter's values, of each process that has it (`process/counter`, or alone)."""
    return [
        value
        for name, given in part(look, "counters").items()
        if name.rpartition("/")[2] == counter and (value := number(given)) is not None
    ]
