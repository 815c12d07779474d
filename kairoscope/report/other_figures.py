"""Published figures of systems other than KairosDB beside a run of the same system.

A figure in results/reference/ says what of a run stands beside it: `points_per_request`, a rate by
which points were taken in such requests; `taken`, the same in whatever requests; `cpu_of`, a rate
of one core of a role; `cores_of`, the CPU of a process of a role; `counter`, the most of a counter
of its own; `took`, how long a history took to be taken; `probed`, what `load --probe` measured
under that name, which goes before what the load came to.
"""

from collections.abc import Iterator

from kairoscope.report import units
from kairoscope.report.charts.points import of_counter
from kairoscope.report.data import Json, RunData, part
from kairoscope.report.published import Comparable, Line, figure
from kairoscope.report.units import NONE, number

_Beside = tuple[str, Comparable, str]


def lines(entry: Json, run: RunData) -> tuple[Line, ...]:
    """What it stood on and how it was set, then figure by figure."""
    setup, figures = part(entry, "setup"), part(entry, "figures")
    machine, target = part(run.manifest, "machine"), str(run.manifest.get("target") or "?")
    hardware = (
        f"{target}: {units.count(machine.get('cpus'))} CPUs, "
        f"{units.byte_size(machine.get('memory_bytes'))} of memory"
    )
    where = "everything shares one machine here" if run.shared else "another machine"
    version = str(part(run.manifest, "versions").get(run.stack) or NONE)
    settings = ", ".join(f"{key} {value}" for key, value in part(run.plan, "kairosdb").items())
    return (
        Line("Hardware", str(setup.get("hardware", NONE)), hardware, "no", where),
        Line("Version", str(setup.get("version", NONE)), version, "no", "another release"),
        Line("Settings", str(setup.get("settings", NONE)), settings, "no", "as each was set"),
        *(
            Line(
                str(part(figures, name).get("what", name)), figure(figures, name), *_beside(of, run)
            )
            for name in figures
            if (of := part(figures, name))
        ),
        *_unpublished(figures, run),
    )


def _unpublished(figures: Json, run: RunData) -> Iterator[Line]:
    """What was probed that nothing was published of."""
    told = {part(figures, name).get("probed") for name in figures}
    for name in run.probed:
        if name not in told:
            ours, _, how = _probed(name, run)
            what = name.replace("_", " ").capitalize()
            yield Line(what, NONE, ours, "no", f"not published; {how}")


def _beside(of: Json, run: RunData) -> _Beside:  # noqa: PLR0911 - one return per kind
    """What the run has of it, whether that may be compared, and why."""
    probed = str(of.get("probed", ""))
    if "points_per_request" in of and probed not in run.probed:
        return _taken(number(of["points_per_request"]), run)
    if of.get("taken"):
        return _rate(run), "no", "theirs is the most, ours what this run came to"
    if probed:
        return _probed(probed, run)
    if counter := of.get("counter"):
        return _most(str(counter), run)
    if of.get("took"):
        return _took(run)
    if role := of.get("cores_of"):
        return _cores(str(role), run)
    if role := of.get("cpu_of"):
        return _of_a_core(str(role), run)
    return NONE, "no", "not measured here"


def _taken(points_per_request: float | None, run: RunData) -> _Beside:
    """A rate beside one of as many points in a request."""
    sensors = number(run.load.get("sensors_per_request")) or 0
    mine = sensors * (number(run.load.get("points_per_request")) or 0)
    if mine != points_per_request:
        return NONE, "no", f"this load has {units.count(mine)} points in a request"
    ours = _rate(run)
    series = "" if sensors == 1 else f"; of {units.count(sensors)} series in a request here"
    if run.load.get("replay"):
        return ours, "partly", f"both as fast as they were taken{series}"
    return ours, "no", f"ours is what was scheduled, theirs as fast as it was taken{series}"


def _probed(name: str, run: RunData) -> _Beside:
    """What was measured at the run's end."""
    probe = part(run.probed, name)
    value = number(probe.get("value"))
    if value is None:
        return NONE, "no", "not measured: load --probe"
    unit = str(probe.get("unit", ""))
    ours = units.quantity(value if unit == "s" else round(value), unit)
    return ours, "partly", f"ours: {probe.get('how', '?')}"


def _rate(run: RunData) -> str:
    achieved = number(part(run.measurements, "points_per_s").get("achieved"))
    return NONE if achieved is None else f"{units.count(achieved)} points/s"


def _most(counter: str, run: RunData) -> _Beside:
    """A counter of its own at its most, of all processes that have it together."""
    looks = [found for look in run.counters if (found := of_counter(look, counter))]
    if not looks:
        return NONE, "no", "not captured"
    return units.count(max(map(sum, looks))), "no", f"{counter} at its most, at this run's load"


def _took(run: RunData) -> _Beside:
    """Until all of a history was acknowledged, or handed over."""
    start, end = (number(part(run.manifest, "load").get(key)) for key in ("start_ms", "end_ms"))
    if not run.load.get("replay") or start is None or end is None:
        return NONE, "no", "this load is no history"
    return units.duration((end - start) / 1000), "no", "each of as many points as it had"


def _cores(role: str, run: RunData) -> _Beside:
    """The fullest of a role's processes."""
    names = {str(record.get("name")) for record in run.processes if record.get("role") == role}
    told = part(run.measurements, "cpu_cores")
    found = [cores for name in names if (cores := number(told.get(name))) is not None]
    if not found:
        return NONE, "no", f"no {role} here, or not measured"
    return f"{units.percent(max(found))} of a core", "no", "the fullest of them, at this run's rate"


def _of_a_core(role: str, run: RunData) -> _Beside:
    """Points/s that a core of a role would do."""
    cost = number(part(run.measurements, "cpu_us_per_point").get(role))
    if run.load.get("replay"):
        return NONE, "no", "a history is taken before it is done with: not of the measured time"
    if not cost:
        return NONE, "no", "not measured"
    ours = f"{units.count(1e6 / cost)} points/s"
    return ours, "partly", f"a core's: one second divided by the CPU time of {role} for a point"
