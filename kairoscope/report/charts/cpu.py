"""The chart of CPU in use."""

from kairoscope.report import units
from kairoscope.report.charts.chart import COLOURS, MAX_LINES, Chart, Pairs, Row, Series, Value
from kairoscope.report.charts.grid import on_grid, rates
from kairoscope.report.data import RunData, part, samples
from kairoscope.report.units import number


def cpu(run: RunData) -> Chart | None:
    """Cores in use over time per process, summed by role where there are many processes."""
    roles = {str(r.get("name")): str(r.get("role")) for r in run.processes}
    processes = {**samples(run.processes, "cpu_s"), **samples(run.processes, "cpu_busy_s")}
    members: dict[str, list[str]] = {}
    for name in processes:
        if roles.get(name) == "host":  # Its server's curve says the same.
            continue
        members.setdefault(roles.get(name, "?"), []).append(name)
    # Loader processes are alike, so their sum says enough; storage nodes are shown one by one as
    # long as the lines can be told apart.
    by_role = sum(len(names) for role, names in members.items() if role != "loader") > MAX_LINES - 1
    lines: dict[str, Pairs] = {}
    labels: dict[str, str] = {}
    for role, names in members.items():
        for name in names:
            label = name
            if role == "machine":
                label = "whole machine"
            elif len(names) > 1 and (by_role or role == "loader"):
                label = f"{role} (all {len(names)})"
            labels[name], lines[name] = label, rates(processes[name])
    x, by_name = on_grid(lines, run)
    if not x:
        return None
    rows: dict[str, Row] = {}
    for name, values in by_name.items():
        label = labels[name]
        so_far = rows.get(label, [None] * len(x))
        rows[label] = [_plus(a, b) for a, b in zip(so_far, values, strict=True)]
    peak = max((v for row in rows.values() for v in row if v is not None), default=None)
    cores = number(part(run.manifest, "machine").get("cpus"))
    return Chart(
        id="cpu",
        title="CPU in use",
        summary=f"Cores in use by {', '.join(rows)}; the peak is "
        f"{units.NONE if peak is None else units.significant(peak)}"
        + (f" of {units.count(cores)} cores." if cores else "."),
        x=x,
        x_label="since the start of the load (min:s)",
        y_label="cores",
        series=tuple(
            Series(label, tuple(values), COLOURS[i % len(COLOURS)], dashed=label == "whole machine")
            for i, (label, values) in enumerate(rows.items())
        ),
    )


def _plus(a: Value, b: Value) -> Value:
    """The sum of what is known; None only if neither is."""
    return b if a is None else a if b is None else a + b
