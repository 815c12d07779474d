"""What the storage nodes told: `proxyhistograms`, and their own counts in the measured time."""

from dataclasses import dataclass

from kairoscope.report import units
from kairoscope.report.data import Capture, RunData, part
from kairoscope.report.table import Table
from kairoscope.report.units import NONE, number


@dataclass(frozen=True)
class NodeCaptures:
    """`proxyhistograms` of one storage node: the one to read first, and the others to open."""

    node: str
    shown: str
    label: str
    others: tuple[tuple[str, str], ...]
    total: int


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


def window(run: RunData) -> Table:
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
