"""What the first screen of the report says: the verdict with its five parts, the figures that
somebody would quote, and what was not ours on the machines."""

from dataclasses import dataclass

from kairoscope.report import units
from kairoscope.report.advice import ADVICE, Advice
from kairoscope.report.data import GOING_ON, Json, RunData, items, part
from kairoscope.report.load import counted, duration
from kairoscope.report.table import Table, Text
from kairoscope.report.units import NONE, number

# What a part may have come to; anything else in a file is not known. The last three are of a run
# that goes on.
_OUTCOMES = ("pass", "fail", "undecided", "not judged", "within so far", "over so far", "not yet")

MACHINES = 4
"""Of more than these only the ones with the most that was not ours are named."""


@dataclass(frozen=True)
class Part:
    """One of the five parts of a verdict; `outcome` is one of _OUTCOMES or unknown."""

    key: str
    name: str
    question: str
    outcome: str
    figure: str
    limit: str
    text: str
    advice: Advice | None = None
    """Of a part that failed."""


@dataclass(frozen=True)
class Verdict:
    """The verdict in words; `word` is pass, fail, invalid or incomplete, or that it goes on."""

    word: str
    summary: str
    parts: tuple[Part, ...]
    reasons: Text

    @property
    def apart(self) -> Text:
        """The reasons that no part gives."""
        given = {f"{p.key}: {p.text}" for p in self.parts}
        return tuple(reason for reason in self.reasons if reason not in given)


PARTS = (
    ("schedule", "Schedule", "all that was due arrives, and in time"),
    ("latency", "Latency", "p99 from the planned send time"),
    ("queue", "Queue", "KairosDB's queue does not grow"),
    ("drain", "Drain", "the queue empties after the load"),
    ("readback", "Read-back", "every acknowledged point is read back"),
)

_UNJUDGED = "The run was not judged: it ended before its verdict, so nothing is proved."

_SECTIONS = {
    "schedule": "target",
    "latency": "client",
    "queue": "kairosdb",
    "drain": "kairosdb",
    "readback": "ledger",
}


# What there is to watch while a run goes on: its curves.
_WATCHED = frozenset({"parts", "target", "client", "kairosdb", "cost"})


def verdict(run: RunData) -> Verdict:
    """The verdict of the run; `incomplete` if the run did not get as far as one."""
    word = run.verdict.get("verdict")
    if word not in ("pass", "fail", "invalid", "incomplete", GOING_ON):
        word = "incomplete"
    parts = []
    for key, name, question in _questions(run):
        judged = part(run.verdict, "parts", key)
        outcome = judged.get("outcome", "not yet" if word == GOING_ON else None)
        unit = judged.get("unit")
        parts.append(
            Part(
                key=key,
                name=name,
                question=question,
                outcome=outcome if outcome in _OUTCOMES else "unknown",
                figure=units.quantity(judged.get("figure"), unit),
                limit=units.quantity(judged.get("limit"), unit),
                text=str(judged.get("text", "not yet" if word == GOING_ON else "not judged")),
                advice=ADVICE[key] if outcome == "fail" else None,
            )
        )
    summary = str(run.verdict.get("summary") or _UNJUDGED)
    # A single one is the summary.
    given = [str(reason) for reason in items(run.verdict, "reasons")]
    reasons = tuple(given) if len(given) > 1 else ()
    return Verdict(word, summary, tuple(parts), reasons)


def _questions(run: RunData) -> tuple[tuple[str, str, str], ...]:
    """The parts with what each asks, in the words of the protocol and of the system."""
    words: dict[str, str] = {}
    if not run.of_kairosdb:
        words |= {
            "queue": "what waits in the server does not grow",
            "drain": "nothing waits any more soon after the load",
        }
    silent = {
        "schedule": "all that was due is handed to the socket, and in time",
        "latency": "p99 from the planned send time until handed to the socket",
        "readback": "every point sent is read back",
    }
    words |= {} if run.acknowledges else silent
    return tuple((key, name, words.get(key, question)) for key, name, question in PARTS)


def opened(run: RunData, found: Verdict) -> frozenset[str]:
    """The sections that are open from the start: those that tell why the run is no pass, or of a
    run that goes on what there is to watch."""
    if found.word == GOING_ON:
        return _WATCHED
    names = {_SECTIONS[p.key] for p in found.parts if p.outcome in ("fail", "undecided")}
    if found.word != "pass":
        names.add("parts")
    if found.word == "invalid":
        names.add("target")  # has how late the loaders were
    vanished = number(part(run.queries, "followed").get("vanished"))
    if number(part(run.queries, "answers").get("wrong")) or vanished:
        names.add("queries")
    if items(run.verdict, "faults"):
        names.add("faults")
    return frozenset(names)


def quoted(run: RunData, found: Verdict) -> Table:
    """The five figures that somebody would quote, each with what must be said beside it."""
    rows = (_load(run, found.word), _arrived(run), _latency(run), _cpu(run), _queue(run))
    return Table(("", "figure", "beside it"), rows)


Row = tuple[str, str, str]


def _load(run: RunData, word: str) -> Row:
    label = {"pass": "Sustained", "fail": "Asked for, not sustained"}.get(word, "Asked for")
    rate = part(run.measurements, "points_per_s")
    target = number(rate.get("target"))
    if target is None:
        target = number(part(run.plan, "totals").get("points_per_s"))
    achieved = units.count(rate.get("achieved"))
    sensors = units.count(run.load.get("sensors"), "sensors")
    how = "acknowledged" if run.acknowledges else "handed to the socket"
    lasted = units.duration(duration(run))
    if run.replay:
        return (label, f"{achieved} points/s", f"{how}: history of {sensors}, over {lasted}")
    in_time = "so far" if run.going_on else "in time"
    beside = f"{achieved} of {units.count(target)} points/s {how} {in_time}; load of {lasted}"
    return (label, sensors, beside)


def _arrived(run: RunData) -> Row:
    """Points acknowledged, and those of them that are lost; over telnet sent, and not found."""
    took, lack = ("acknowledged", "missing") if run.acknowledges else ("sent", "unknown_missing")
    label = "Acknowledged / lost" if run.acknowledges else "Sent / not found"
    lost = number(run.ledger.get(lack))
    done = units.count(counted(run, took))
    kinds = [
        ("wrong_value", "with another value"),
        ("queued", "still in the queue"),
        ("failed_logged", "logged as failed"),
        ("rejected", "refused"),
        ("not_sent", "never sent"),
    ]
    if run.acknowledges:
        kinds.append(("unknown", "unanswered"))
    counts = [(number(run.ledger.get(key)), what) for key, what in kinds]
    more = [f"{units.count(count)} {what}" for count, what in counts if count]
    until = " so far" if run.going_on else ""
    beside = [f"of {units.count(counted(run, 'scheduled'))} scheduled{until}", *more]
    if lost is None:
        beside.append("what is lost is not known: not read back")
    return (label, f"{done} / {units.count(lost)} points", "; ".join(beside))


def _latency(run: RunData) -> Row:
    found = run.latency
    label = "Latency p50 / p99"
    p50, p99 = (units.milliseconds(found.get(key)) for key in ("p50_ms", "p99_ms"))
    since = "from the start of the request" if run.replay else "from the planned time"
    if not run.acknowledges:
        since += " until handed to the socket"
    if now := part(found, "last"):
        p50, p99 = (units.milliseconds(now.get(key)) for key in ("p50", "p99"))
        whose = "of the slowest loader process, in the last second"
        return (label, f"{p50} / {p99}", f"{since}; {whose}")
    beside = [since]
    for name, key in (("p50", "p50_ms"), ("p99", "p99_ms")):
        if interval := _interval(found, key):
            beside.append(f"{name} {interval}")
    if len(beside) > 1:
        beside[-1] += " (95 %)"
    else:
        beside.append("no interval")
    beside.append(f"{units.count(found.get('count'))} points")
    if requests := number(found.get("requests")):
        beside[-1] += f" in {units.count(requests)} requests"
    return (label, f"{p50} / {p99}", "; ".join(beside))


def _interval(latency: Json, key: str) -> str:
    """Between what a percentile lies at 95 %; empty if that is not known."""
    ends = [number(end) for end in items(part(latency, "sure"), key)]
    if len(ends) != 2 or None in ends:
        return ""
    low, high = (units.milliseconds(end) for end in ends)
    return f"{low} to {high}"


def _cpu(run: RunData) -> Row:
    """CPU a point; the servers' together is the sum of all roles, if all were seen."""
    of = part(run.measurements, "cpu_us_per_point")
    roles = [(label, number(of.get(role))) for role, label in run.server_roles.items()]
    known = [value for _, value in roles if value is not None]
    servers = sum(known) if known and len(known) == len(roles) else None
    shown = roles if len(roles) > 1 else []
    shown = [*shown, ("loaders", number(of.get("loader")))]
    beside = ", ".join(f"{name} {_micros(value)}" for name, value in shown)
    return ("CPU a point, servers", _micros(servers), beside)


def _micros(value: object) -> str:
    return units.quantity(number(value), "µs")


def _queue(run: RunData) -> Row:
    """The deepest queue of a node under load, the longest wait in it, and how long it drained."""
    begun = run.start_s or 0.0
    looks = [r for r in run.queue if (units.epoch_s(r.get("t")) or 0.0) >= begun]
    waiting = [v for r in looks if (v := number(r.get("waiting"))) is not None]
    oldest = [v for r in looks if (v := number(r.get("oldest_ms"))) is not None]
    nodes = len({r.get("node") for r in looks})
    beside = [f"waiting in {run.title}" if nodes < 2 else f"waiting on one of {nodes} nodes"]
    if oldest:
        beside.append(f"the oldest {units.duration(max(oldest) / 1000)} old")
    drained = part(run.verdict, "parts", "drain")
    seconds = number(drained.get("figure"))
    if drained.get("unit") == "s" and seconds is not None:
        beside.append(f"empty {units.duration(seconds)} after the last point was due")
    return ("Deepest queue", units.count(max(waiting, default=None), "points"), "; ".join(beside))


def not_ours(run: RunData) -> Table:
    """What others had of each machine while the load was measured; empty if that is not known."""
    limits = part(run.plan, "experiment", "limits")
    machines = [
        part(machine)
        for machine in items(part(run.measurements, "conditions"), "machines")
        if number(part(machine).get("cpus"))
    ]
    machines.sort(key=_others, reverse=True)
    rows = [_machine(machine) for machine in machines[:MACHINES]]
    if len(machines) > MACHINES:
        rows.append((f"{len(machines) - MACHINES} more, with less", "", "", ""))
    head = (
        "machine",
        f"CPU of others{_limit(limits, 'foreign_cpu')}",
        f"stolen{_limit(limits, 'steal')}",
        "busy in all",
    )
    return Table(head, tuple(rows), numeric=(1, 2, 3))


def _others(machine: Json) -> float:
    """Share of a machine's cores that was not ours; what is not known counts as nothing."""
    foreign = (number(machine.get("foreign_cores")) or 0.0) / (number(machine.get("cpus")) or 1.0)
    return foreign + (number(machine.get("steal_share")) or 0.0)


def _machine(machine: Json) -> tuple[str, str, str, str]:
    cpus, foreign = number(machine.get("cpus")) or 1.0, number(machine.get("foreign_cores"))
    others = "not known"
    if foreign is not None:
        others = f"{_share(foreign / cpus)}, {foreign:.2f} of {cpus:g} cores"
    return (
        str(machine.get("name", "?")),
        others,
        _share(machine.get("steal_share")),
        _share(machine.get("busy_share")),
    )


def _limit(limits: Json, key: str) -> str:
    share = number(limits.get(key))
    return "" if share is None else f" (limit {_share(share)})".replace(" %", "\N{NO-BREAK SPACE}%")


def _share(value: object) -> str:
    n = number(value)
    return NONE if n is None else f"{units.significant(100 * n)} %"
