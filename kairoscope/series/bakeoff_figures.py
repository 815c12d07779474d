"""What a bake-off's runs came to, as rows of figures with a column for each system. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kairoscope import run_folder
from kairoscope.compare import runs
from kairoscope.compare.runs import Run
from kairoscope.report import units
from kairoscope.series import bakeoff_queries
from kairoscope.series.bakeoff import DURABLE, KILLS_S, LOAD, QUERIES, SEARCH, kill_name, spoiled
from kairoscope.series.bakeoff_runs import Book, System

NOT_JUDGED = "not judged"
NOT_RUN = "not run yet"
_FAILED = {"lost": "points lost", "none sustained": "nothing sustained"}
"""How a search may end without a figure, and what stands in its place."""


@dataclass(frozen=True)
class Cell:
    """A figure as it is shown, and as a number where systems are compared by it; or `why` there
    is none. One that is `doubted` is of a run that says nothing of its system, or of questions that
    ended early."""

    text: str
    value: float | None = None
    why: str = ""
    doubted: bool = False

    @property
    def compared(self) -> float | None:
        """The number that others are held against; None if there is none to rely on."""
        return None if self.doubted else self.value


@dataclass(frozen=True)
class Row:
    """A figure of all systems, by their names."""

    label: str
    cells: dict[str, Cell]
    less_is_better: bool | None = None


def rows(systems: Sequence[System], sensors: int) -> list[Row]:
    """All figures, in the order of the table."""
    made: list[tuple[str, Callable[[System], Cell], bool | None]] = [
        (f"the load of {sensors:,} sensors", _verdict, None),
        ("sensors sustained at most", _sustained, False),
        ("accepted", _accepted, False),
        ("read back", _read_back, False),
        *((f"survives kill -9 {_when(s)}", _survival(kill_name(s)), False) for s in KILLS_S),
    ]
    if any(system.document["durable"] for system in systems):
        made += [
            (f"… with its durable setting, {_when(s)}", _survival(DURABLE + kill_name(s)), False)
            for s in KILLS_S
        ]
    made += [
        ("serves again after a kill", _serving, True),
        ("client latency p99, from the planned time", _p99, True),
        *((label, _asked(kind), True) for kind, label in bakeoff_queries.labels(sensors)),
        ("CPU of its servers a point", _cpu, True),
        ("memory of its servers at most", _memory, True),
        ("disk a point, all copies", _bytes, True),
        ("queries find all points, after the last was due", _visible, True),
        ("nothing waits any more, after the last point was due", _drained, True),
        ("copies", _copies, None),
    ]
    return [Row(label, {s.name: get(s) for s in systems}, less) for label, get, less in made]


def _when(after_s: int) -> str:
    return f"{after_s} s after the last acknowledgement" if after_s else "as the load ends"


def _none(why: str) -> Cell:
    return Cell(NOT_JUDGED, why=why)


def _missing(system: System, step: str) -> Cell:
    """Of a step without figures: why."""
    if step in system.odd:
        return _none(system.odd[step])
    if step in system.runs:
        return _none(f"its run says: {system.runs[step].verdict['summary']}")
    if step in system.document["steps"]:
        return _none("it has no such figure: see there")
    return _none("it was not brought to its end" if system.document["error"] else NOT_RUN)


def doubt(step: str, run: Run) -> tuple[str, str] | None:
    """The word that figures of a run are marked with, and why; None if they stand for themselves.

    What a kill took fails a run, and is what it was made for.
    """
    found = spoiled(run)
    if found is None and step in (LOAD, QUERIES) and run.word != "pass":
        found = run.word, str(run.verdict["summary"])
    return found


def _marked(cell: Cell, system: System, *steps: str) -> Cell:
    """A figure with the word of the first of its runs that says nothing of its system, or else of
    the first that is to be doubted."""
    if cell.value is None:
        return cell
    of = [(step, system.runs[step]) for step in steps if step in system.runs]
    nothing = next(filter(None, (spoiled(run) for _, run in of)), None)
    found = nothing or next(filter(None, (doubt(step, run) for step, run in of)), None)
    if not found:
        return cell
    word, why = found
    said = "; ".join(filter(None, (cell.why, f"its run is {word}: {why}")))
    return Cell(f"{cell.text}, {word}", cell.value, said, cell.doubted or bool(nothing))


def _of_load(get: Callable[[System, Run], Cell | None]) -> Callable[[System], Cell]:
    def cell(system: System) -> Cell:
        run = system.runs.get(LOAD)
        found = (get(system, run) if run else None) or _missing(system, LOAD)
        return _marked(found, system, LOAD)

    return cell


def _part(run: Run, part: str) -> str:
    """Why a part of a run's verdict is not judged; "" if it is."""
    told = runs.at(run.manifest, "captures", "not_judged", part)
    return str(told) if told else ""


@_of_load
def _verdict(system: System, run: Run) -> Cell:
    return Cell(run.word, why="" if run.word == "pass" else str(run.verdict["summary"]))


def _sustained(system: System) -> Cell:
    found = system.searched
    if found is None:
        asked = SEARCH in system.document["steps"] or system.document["error"]
        return _missing(system, SEARCH) if asked else _none("no search was made")
    how, sentence = found["how"], str(found["sentence"])
    if how == "found":
        median, low, high = (found["capacity"][key] for key in ("median", "low", "high"))
        return Cell(f"{units.count(median)} ({units.count(low)} to {units.count(high)})", median)
    # Of any other the interval is of trials that did not get to its end, or that lost points.
    if how in _FAILED:
        return Cell(_FAILED[how], why=sentence)
    least = found["lower"] if how == "all sustained" else found["at_least"]
    if not least and (below := system.document.get("below")):
        least = below[-1]["sustained"]
    return (
        Cell(f"at least {units.count(least)}", float(least), sentence) if least else _none(sentence)
    )


def throughput(system: System) -> tuple[float, str] | None:
    """Points/s that a system sustains at most, or else that were accepted of its load; and what is
    to be said of them. None if neither is known."""
    sustained = _sustained(system).value
    if sustained:  # each sensor sends one a second
        found = system.searched or {}
        return sustained, "" if found["how"] == "found" else "at least"
    book = system.books.get(LOAD)
    return (book.claimed / book.seconds, "accepted") if book and book.claimed else None


def _kept(book: Book | None) -> Cell | None:
    """Of the points that must be in the store those that came back; None if nobody looked."""
    if book is None or book.stored is None:
        return None
    if not book.claimed:
        return _none(f"no point was {'acknowledged' if book.acknowledges else 'sent'}")
    rate, share = f"{units.count(book.stored / book.seconds)}/s", units.percent(book.share)
    if not book.queued:
        return Cell(f"{rate} ({share})", book.share)
    waited = f"{units.count(book.queued)} points still waited"
    why = f"{waited} on its servers when all were read back: whether they are kept is not known"
    return Cell(f"at least {rate} ({share}; {waited})", book.share, why)


@_of_load
def _accepted(system: System, run: Run) -> Cell | None:
    book = system.books.get(LOAD)
    if not book:
        return None
    share = book.claimed / book.scheduled
    text = f"{units.count(book.claimed / book.seconds)}/s ({units.percent(share)})"
    return Cell(text if book.acknowledges else f"{text} sent", share)


@_of_load
def _read_back(system: System, run: Run) -> Cell | None:
    return _kept(system.books.get(LOAD))


def _survival(step: str) -> Callable[[System], Cell]:
    def cell(system: System) -> Cell:
        if step.startswith(DURABLE) and not system.document["durable"]:
            return Cell(units.NONE)  # What is planned keeps as much as it can.
        killed = system.killed.get(step)
        cell = _kept(killed.book) if killed else None
        if not killed or not cell:
            return _missing(system, step)
        if killed.after_s is not None and cell.value is not None:
            # As it was: loaders have to end before all servers can be killed.
            cell = replace(cell, text=f"{cell.text} after {killed.after_s:.1f} s")
        return _marked(cell, system, step)

    return cell


def _serving(system: System) -> Cell:
    if not system.killed:
        return _missing(system, kill_name(KILLS_S[0]))
    known = [k.serving_s for k in system.killed.values() if k.serving_s is not None]
    never = [step for step, k in system.killed.items() if k.stayed_down]
    if not known and not never:
        return _missing(system, next(iter(system.killed)))
    text = ""
    if known:
        least, most = (units.duration(round(pick(known), 2)) for pick in (min, max))
        text = least if least == most else f"{least} to {most}"
    if never:
        # Longer than any that is known.
        told = f"not after {len(never)} of {len(known) + len(never)} kills"
        return Cell("; ".join(filter(None, (text, told))), why=_missing(system, never[0]).why)
    return _marked(Cell(text, max(known)), system, *system.killed)


@_of_load
def _p99(system: System, run: Run) -> Cell | None:
    if why := _part(run, "latency"):
        return _none(why)
    figure = run.figures.get("p99_ms")
    if figure is None:
        return None
    counted = units.count(run.latency.get("count"))
    return Cell(f"{units.milliseconds(figure)} ({counted} points)", figure)


def _asked(kind: str) -> Callable[[System], Cell]:
    def cell(system: System) -> Cell:
        run = system.runs.get(QUERIES)
        if run is None:
            return Cell(bakeoff_queries.NOT_MEASURED, why=_missing(system, QUERIES).why)
        records = run_folder.records(run.folder / run_folder.ASKED)
        events = run_folder.records(run.folder / run_folder.EVENTS)
        ended = bakeoff_queries.ended_early(events)
        # Of some moments of the load, where others' are of all of it.
        asked = Cell(*bakeoff_queries.figure(records, kind, ended), doubted=bool(ended))
        return _marked(asked, system, QUERIES)

    return cell


@_of_load
def _cpu(system: System, run: Run) -> Cell | None:
    figures = [run.figures.get(role) for role in ("storage_us", "kairosdb_us")]
    known = [figure for figure in figures if figure is not None]
    if not known:
        return None
    text = f"{units.significant(sum(known))} µs"
    if len(known) > 1:
        text += f" ({units.significant(known[0])} of the store)"
    return Cell(text, sum(known))


@_of_load
def _memory(system: System, run: Run) -> Cell | None:
    """Of each server at its most, added up."""
    of_servers = run.manifest["captures"]["processes"]
    each = run.measurements.get("rss_max_bytes", {})
    known = [each[name] for name in of_servers if name in each]
    return Cell(units.byte_size(sum(known)), float(sum(known))) if known else None


@_of_load
def _bytes(system: System, run: Run) -> Cell | None:
    figure = run.figures.get("bytes_per_point")
    return Cell(f"{units.significant(figure)} bytes", figure) if figure else None


@_of_load
def _visible(system: System, run: Run) -> Cell | None:
    if not (run.folder / run_folder.VISIBLE).exists():
        return _followed(system)
    told = system.visible.get(LOAD)
    if not told:
        return None
    if told["after_due_s"] is None:
        there = f"{units.count(told['found'])} of {units.count(told['wanted'])}"
        return _none(f"not all were found: {there}")
    # Counting takes a while by itself, which is no time that the points were not there.
    most, lacked_s = units.duration(told["after_due_s"]), told.get("lacked_s")
    text = f"at most {most}"
    if lacked_s is not None:
        text = f"between {units.duration(lacked_s)} and {most}"
    return Cell(text, float(told["after_due_s"]))


def _followed(system: System) -> Cell:
    """Of a few sensors' points, each: until the first answer to a query that had it."""
    run = system.runs.get(QUERIES)
    told = run.verdict.get("followed") if run else None
    if not told or told.get("max_ms") is None:
        return _none("what its queries find cannot be counted without changing it")
    text = (
        f"at most {units.milliseconds(told['max_ms'])} ({units.count(told['count'])} points of a "
        f"few sensors, from each one's acknowledgement, asked for every "
        f"{units.duration(told['every_s'])})"
    )
    return _marked(Cell(text, told["max_ms"] / 1000), system, QUERIES)


@_of_load
def _drained(system: System, run: Run) -> Cell | None:
    if why := _part(run, "drain"):
        return _none(why)
    # Not as runs are compared by it, which is half a second at least.
    figure = units.number(runs.at(run.verdict, "parts", "drain", "figure"))
    return Cell(units.duration(figure), figure) if figure is not None else None


@_of_load
def _copies(system: System, run: Run) -> Cell:
    return Cell(str(runs.at(run.plan, "experiment", "cluster", "replication_factor")))


def origins(system: System) -> dict[str, list[str]]:
    """What its figures are of, all values of each: days (UTC), commits and machines."""
    made = [(run.started, run.manifest) for run in system.runs.values()]
    if conditions := system.search.get("conditions"):
        began = datetime.fromtimestamp(system.search["started_s"], UTC)
        made.append((began.isoformat(), conditions))
    found: dict[str, set[str]] = {"day": set(), "code": set(), "machine": set()}
    for started, manifest in made:
        git = manifest.get("git") or {}
        changed = " with changes" if git.get("dirty") else ""
        version = runs.at(manifest, "versions", "kairoscope")
        commit = str(git.get("commit") or "unknown")[:7]
        found["day"].add(started[:10])
        found["code"].add(f"{version}, {commit}{changed}")
        found["machine"].add(machine(manifest["machine"]))
    return {what: sorted(values) for what, values in found.items()}


def machine(about: Mapping[str, Any]) -> str:
    """A machine in words."""
    return (
        f"{about['cpus']} cores ({about['cpu_model']}), "
        f"{units.byte_size(about['memory_bytes'])}, {about.get('os', 'system not known')}"
    )


def behind(rows: Sequence[Row], ours: str, titles: Mapping[str, str]) -> list[str]:
    """Where another system has a better figure than ours, or ours has none to rely on, a sentence
    each, the best one named."""
    found = []
    for row in rows:
        own = row.cells.get(ours)
        others = {
            name: cell.compared
            for name, cell in row.cells.items()
            if cell.compared is not None and name != ours
        }
        if row.less_is_better is None or own is None or not others:
            continue
        if own.compared is None and (not own.why or own.why == NOT_RUN):
            continue
        pick = min if row.less_is_better else max
        best = pick(others, key=others.__getitem__)
        theirs, text = others[best], f"{titles[best]} {row.cells[best].text}"
        if own.compared is None:
            found.append(f"{row.label}: {own.text} ({own.why}); {text}")
        elif theirs < own.compared if row.less_is_better else theirs > own.compared:
            found.append(f"{row.label}: {own.text}; {text}")
    return found
