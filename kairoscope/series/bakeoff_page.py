"""A bake-off as people read it: report.html and report.md, of the same rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kairoscope import __version__, run_folder
from kairoscope.report import pages, units
from kairoscope.report.charts.chart import COLOURS, Chart, Series
from kairoscope.report.table import Table
from kairoscope.series import bakeoff_figures as figures
from kairoscope.series.bakeoff import (
    DURABLE,
    KILLS_S,
    LOAD,
    PER_REQUEST,
    SEARCH,
    BakeOff,
    Entrant,
    kill_name,
)
from kairoscope.series.bakeoff_figures import Row
from kairoscope.series.bakeoff_runs import System, read

FAIR = (
    "All systems got the same sensors, values and seconds, from the same loaders on the same "
    "machine, one system at a time, each on servers that were deployed for it. The loaders share "
    "its cores.",
    f"A request has {PER_REQUEST} points, one each of as many sensors. Who takes thousands at once "
    "pays more for a point than it would.",
    "Points a second are by the time to the last acknowledgement: what a system does not take in "
    "the load's own time is sent again for a while.",
    "Series are there already when servers are killed, from the loads before: of a system that, by "
    "what its acknowledgement means, keeps points of new series in memory for longer, a kill takes "
    "more than is shown here.",
    "Copies differ, as their row says: KairosDB's store keeps several, on as many nodes of this "
    "machine. CPU, memory and disk a point are of all copies.",
    "A kill is counted from the last acknowledgement (where nothing is acknowledged, from when the "
    "last point was sent), and comes when the loaders have ended: behind each share is how long "
    "after. Until it serves again counts from the kill, and is looked at four times a second.",
    "A kill takes what was in the memory of the processes. A loss of power takes more, which no "
    "kill shows, and a lost machine takes everything of a system of one copy.",
    "Queries are asked in a load of their own, so that their cost is in no other row: each kind "
    "twice a second by a client that waits for its answer, once the warm-up is over. A latency is "
    "from when a query was due to its answer's last byte; what is due before the last answer came "
    "is left out. In an hour of a sensor are the points of that load and of the one before it.",
    "One run a figure: it shows an order of magnitude. How far runs differ, another bake-off "
    "tells (ARGS=--anew).",
)

_UNMEASURED = "not measured: for its series, as it was deployed afresh"


def write(bakeoff: BakeOff, entrants: Sequence[Entrant], ours: str) -> Path:
    """Write both pages into the bake-off's folder, as far as it is; the path of report.html.

    `ours` is the system that the page is about where others are better. OSError if they cannot be.
    """
    systems = [read(bakeoff.folder, bakeoff.system(entrant)) for entrant in entrants]
    context = _context(bakeoff, systems, ours)
    charts = (throughput(systems, context["titles"]), survival(systems, context["titles"]))
    html, text = (bakeoff.folder / name for name in ("report.html", "report.md"))
    made = {chart.id: chart for chart in charts if chart}
    run_folder.replace(
        {
            html: [pages.page("bakeoff.html.j2", made, **context)],
            text: [pages.text("bakeoff.md.j2", **context)],
        }
    )
    return html


def _context(bakeoff: BakeOff, systems: Sequence[System], ours: str) -> dict[str, Any]:
    wanted, titles = bakeoff.document["wanted"], _titles(systems)
    sensors, seconds = (wanted["load"][key] for key in ("sensors", "duration_s"))
    rows = figures.rows(systems, sensors)
    command = (
        f"make bakeoff SENSORS={sensors} DURATION={seconds} ONLY={','.join(wanted['systems'])}"
    )
    return {
        "title": f"{len(systems)} system{'s' * (len(systems) > 1)} under {sensors:,} sensors",
        "what": f"A point a second each for {seconds} s, on target {wanted['target']}; "
        f"{_where(systems)}.",
        "under_way": bakeoff.document["ended"] is None,
        "titles": titles,
        "ours": titles.get(ours, ""),
        "behind": figures.behind(rows, ours, titles),
        "table_of": _table(rows, titles),
        "why": _why(rows, titles),
        "acknowledgements": Table(
            ("System", "An acknowledgement", "Version", "Its durable setting"),
            tuple(_acknowledges(s, titles) for s in systems),
        ),
        "fair": (*_mixed(systems, titles), *FAIR, *_own(systems)),
        "runs": Table(
            ("System", "Step", "Verdict", "Killed", "Run"),
            tuple(line for s in systems for line in _runs(s, titles)),
        ),
        "errors": [
            f"{titles[s.name]}: {s.document['error']}" for s in systems if s.document["error"]
        ],
        "command": command + (" QUICK=1" if wanted["quick"] else ""),
        "version": __version__,
    }


def _own(systems: Sequence[System]) -> list[str]:
    """What each stack says of itself, once."""
    return list(dict.fromkeys(said for s in systems if (said := str(s.document["fair"]))))


def _titles(systems: Sequence[System]) -> dict[str, str]:
    """What columns are headed by: the system, and its experiment where that is entered twice."""
    times = Counter(str(s.document["title"]) for s in systems)
    return {
        s.name: f"{s.document['title']} ({s.name})"
        if times[s.document["title"]] > 1
        else str(s.document["title"])
        for s in systems
    }


_OF = {"day": "day", "code": "version and commit", "machine": "machine"}


def _all_of(systems: Sequence[System]) -> dict[str, set[str]]:
    """Days, commits and machines that any of the figures is of."""
    each = [figures.origins(system) for system in systems]
    return {what: {value for of in each for value in of[what]} for what in _OF}


def _where(systems: Sequence[System]) -> str:
    found = _all_of(systems)
    if not found["machine"]:
        return "nothing was run yet"
    shown = {what: values.pop() if len(values) == 1 else "" for what, values in found.items()}
    return ", ".join(
        (
            shown["machine"] or "on several machines",
            shown["day"] or "on several days",
            f"Kairoscope {shown['code']}" if shown["code"] else "of several commits",
        )
    )


def _mixed(systems: Sequence[System], titles: Mapping[str, str]) -> list[str]:
    """What the columns' runs differ in beside the system, a sentence each."""
    of = {titles[system.name]: figures.origins(system) for system in systems}
    return [
        f"Not all runs are of one {_OF[what]}: "
        + "; ".join(f"{title} {' and '.join(found[what])}" for title, found in of.items())
        + ". Between columns that differ in it the figures differ by that too."
        for what, values in _all_of(systems).items()
        if len(values) > 1
    ]


def _table(rows: Sequence[Row], titles: Mapping[str, str]) -> Table:
    cells = tuple((row.label, *(row.cells[name].text for name in titles)) for row in rows)
    return Table(("", *titles.values()), cells, tuple(range(1, len(titles) + 1)))


def _why(rows: Sequence[Row], titles: Mapping[str, str]) -> list[str]:
    """Why figures are not there, or not good: each reason once, with figures and systems."""
    systems: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, cell in row.cells.items():
            if cell.why:
                systems.setdefault((row.label, cell.why), []).append(titles[name])
    labels: dict[tuple[str, str], list[str]] = {}
    for (label, why), names in systems.items():
        of = "all" if len(names) == len(titles) else ", ".join(names)
        labels.setdefault((of, why), []).append(label)
    return [f"{of}: {'; '.join(those)}: {why.rstrip('.')}." for (of, why), those in labels.items()]


def _acknowledges(system: System, titles: Mapping[str, str]) -> tuple[str, ...]:
    document, run = system.document, system.runs.get(LOAD)
    versions = run.manifest["versions"] if run else {}
    mine = [str(v) for k, v in versions.items() if k not in ("kairoscope", "python", "java")]
    durable = ", ".join(f"system.{k}: {v}" for k, v in document["durable"].items())
    return (
        titles[system.name],
        document["acknowledgement"],
        ", ".join(mine) or units.NONE,
        durable or "as planned",
    )


def _runs(system: System, titles: Mapping[str, str]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for step, name in system.document["spoiled"].items():
        lines.append((titles[system.name], step, "made once more", units.NONE, name))
    for name in system.document.get("unmeasured", ()):
        lines.append((titles[system.name], LOAD, _UNMEASURED, units.NONE, name))
    for search in system.document.get("below", ()):
        word = f"all of {units.count(search['sustained'])} sensors sustained: searched from there"
        lines.append((titles[system.name], SEARCH, word, units.NONE, search["made"]))
    for step, name in system.document["steps"].items():
        run, killed = system.runs.get(step), system.killed.get(step)
        word = run.word if run else system.odd.get(step, units.NONE)
        if step == SEARCH:
            word = str((system.searched or {}).get("sentence", "under way"))
        came_s = killed.after_s if killed else None
        after = units.NONE if came_s is None else f"{came_s:.2f} s after the last acknowledgement"
        lines.append((titles[system.name], step, word, after, name))
    return lines


def throughput(systems: Sequence[System], titles: Mapping[str, str]) -> Chart | None:
    """Points/s by the share that survives a kill at once: a dot for each system as it is planned,
    and a line to one with its durable setting; None before both are known of a system."""
    found = []
    for number, system in enumerate(systems):
        kills = [system.killed.get(prefix + kill_name(KILLS_S[0])) for prefix in ("", DURABLE)]
        kept = {100 * k.share: k.shown for k in kills if k and k.share is not None}
        rate = figures.throughput(system)
        if kept and rate:
            label = ", ".join(filter(None, (titles[system.name], rate[1])))
            colour = COLOURS[number % len(COLOURS)]
            found.append((label, rate[0], kept, colour))
    if not found:
        return None
    x = tuple(sorted({0.0, 100.0}.union(*(kept for _, _, kept, _ in found))))
    shares = (" and ".join(kept[at] for at in sorted(kept)) for *_, kept, _ in found)
    told = "; ".join(
        f"{label} {units.count(rate)}/s, {share}"
        for (label, rate, *_), share in zip(found, shares, strict=True)
    )
    return Chart(
        id="throughput",
        title="Throughput against survival",
        summary="Points/s that each system sustains at most, or where no search came to that those "
        "that were accepted, by the share of acknowledged points (sent ones, where nothing is "
        "acknowledged) that survives kill -9 as the load ends; where a durable setting keeps more, "
        f"a line to that. What the table marks is in it too. {told}.",
        x=x,
        x_label="% of the points survive a kill as the load ends",
        y_label="points/s",
        series=tuple(
            Series(label, tuple(rate if at in kept else None for at in x), colour)
            for label, rate, kept, colour in found
        ),
        time=False,
        log=True,
        sparse=True,
        ticks=tuple((at, f"{at:g}") for at in (0.0, 25.0, 50.0, 75.0, 100.0)),
    )


def survival(systems: Sequence[System], titles: Mapping[str, str]) -> Chart | None:
    """Share of the acknowledged points that survive a kill, by when it comes, of each system as it
    is planned and with its durable setting; None before there was a kill."""
    x = tuple(float(s) for s in KILLS_S)
    shown, told = [], []
    for number, system in enumerate(systems):
        colour = COLOURS[number % len(COLOURS)]
        for prefix, label in (("", ""), (DURABLE, ", durable")):
            found = [system.killed.get(prefix + kill_name(s)) for s in KILLS_S]
            values = tuple(100 * k.share if k and k.share is not None else None for k in found)
            if any(v is not None for v in values):
                name = titles[system.name] + label
                shown.append(Series(name, values, colour, dashed=bool(prefix)))
                told.append(f"{name} {' / '.join(k.shown if k else units.NONE for k in found)}")
    if not shown:
        return None
    return Chart(
        id="survival",
        title="What survives kill -9 of all servers",
        summary="Share of acknowledged points (sent ones, where nothing is acknowledged) that are "
        f"there afterwards; killed {' / '.join(map(str, KILLS_S))} s after the last "
        "acknowledgement, or as soon as the loaders had ended (when it was, the table says): "
        f"{'; '.join(told)}.",
        x=x,
        x_label="seconds from the last acknowledgement to the kill, as asked for",
        y_label="%",
        series=tuple(shown),
        time=False,
        sparse=True,
        ticks=tuple((at, f"{at:g}") for at in x),
    )
