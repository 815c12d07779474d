"""The one definition of "sustained", in five parts. Pure arithmetic, no I/O.

A run passes when all five hold; it is *invalid* when the loader, not the store, was the limit, or
others used the machine, and *incomplete* when something that a part needs was not captured, or when
nothing failed and what was seen of a part decides neither way. A failed part is never hidden by
either: its outcome stays beside the verdict. Parts that a kind of load has no figure for are not
judged, and say why: a replayed history has no planned send times.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kairoscope.verdict import ledger as ledgers
from kairoscope.verdict.ledger import Ledger

Outcome = Literal["pass", "fail", "unknown", "undecided", "not judged"]
Word = Literal["pass", "fail", "invalid", "incomplete"]

EXIT_STATUS: dict[str, int] = {"pass": 0, "fail": 1, "invalid": 2, "incomplete": 2}


@dataclass
class Part:
    """One part of the verdict: `figure` against `limit`, both in `unit`."""

    figure: float | None
    limit: float
    unit: str
    outcome: Outcome
    text: str


@dataclass
class Verdict:
    """The word, the five parts, and the reasons when the word is not "pass".

    Attributes:
        sentence: in one, what the word rests on.
        happened: sentences on what disturbed the run, whatever the word.
        invalid: why the loader was the limit, or the machine not ours, also where the word is not
            that.
        incomplete: what was not captured or not finished, whatever the parts lack.
        despite: parts that failed though the loader was late, by more than its lateness explains.
        steps: of a load of several rates what each came to; see `steps.documents`.
        faults: what each fault of the experiment came to; see `faults.Aftermath`.
        followed: what became of the points of followed sensors; see `followed.summary`.
    """

    verdict: Word
    sentence: str
    parts: dict[str, Part]
    reasons: list[str]
    happened: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    despite: list[str] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    followed: dict[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The sentence, and what happened."""
        if not self.happened:
            return self.sentence
        return ". ".join([self.sentence.rstrip("."), *self.happened]) + "."

    def to_json(self) -> dict[str, Any]:
        """The content of verdict.json."""
        return {
            "verdict": self.verdict,
            "summary": self.summary,
            "parts": {name: asdict(part) for name, part in self.parts.items()},
            "reasons": self.reasons,
            "invalid": self.invalid,
            "incomplete": self.incomplete,
            **({"despite": self.despite} if self.despite else {}),
            **({"steps": self.steps} if self.steps else {}),
            **({"faults": self.faults} if self.faults else {}),
            **({"followed": self.followed} if self.followed else {}),
        }


def not_judged(limit: float, unit: str, why: str) -> Part:
    """A part that this kind of load has no figure for."""
    return Part(None, limit, unit, "not judged", why)


def readback_part(
    ledger: Ledger, wrong_answers: int = 0, unseen_replicas: int = 0, vanished: str = ""
) -> Part:
    """Acknowledged points that came back with the right value, of all acknowledged ones.

    A point that no query finds counts as missing, even if some replica has it; the text says of how
    many that is so. Where nothing is acknowledged it is all points sent.
    `wrong_answers`: queries beside the load that were answered with wrong values;
    `unseen_replicas`: of a point that one replica answered for, how many others there are;
    `vanished`: what queries had found and then missed, in words: read back or not, it was lost to
    whoever asked meanwhile.
    """
    claimed, stored = ledger.claimed, ledger.claimed_stored
    what = "acknowledged" if ledger.acknowledges else "sent"
    unit = f"fraction of {what}"
    queries = "query" if wrong_answers == 1 else "queries"
    wrong = f"{wrong_answers:,} {queries} gave wrong values" if wrong_answers else ""
    wrong = "; ".join(filter(None, (wrong, vanished)))
    if stored is None:
        text = "the points were not read back"
        if wrong:
            return Part(None, 1.0, unit, "fail", f"{text}, and {wrong}")
        return Part(None, 1.0, unit, "unknown", text)
    figure = stored / claimed if claimed else 0.0
    whole = stored == claimed
    good = whole and claimed > 0 and ledger.balanced and not wrong
    text = f"{stored:,} of {claimed:,} {what} points read back"
    if unseen_replicas:
        others = "the other replica" if unseen_replicas == 1 else f"the {unseen_replicas} others"
        text += f" at ONE, each from one replica (whether {others} have it is not known)"
    for count, how in (
        (ledger.claimed_missing, f"missing{_at_all(ledger)}"),
        (ledger.wrong_value, "with a wrong value"),
        (ledger.queued, "still queued"),
        (ledger.failed_logged, f"given up by the servers{_why(ledger)}"),
        (ledger.unexpected, "at times or with tags that were never scheduled"),
    ):
        text += f", {count:,} {how}" if count else ""
    if ledger.rows_by_cql is None and whole and not wrong:
        return Part(figure, 1.0, unit, "unknown", f"{text}; rows were not counted")
    # A missing point of its own shows in the figure; a ledger that is off says where.
    if whole and claimed > 0 and not ledger.balanced:
        text += "; the ledger does not balance: " + "; ".join(
            f"{e.text}: {_number(e.left)} against {_number(e.right)}"
            for e in ledger.equations
            if not e.holds
        )
    text += f"; {wrong}" if wrong else ""
    return Part(figure, 1.0, unit, "pass" if good else "fail", text)


def _at_all(ledger: Ledger) -> str:
    if ledger.at_all is None:
        return ""
    return f" at {ledger.at_all.read_at} ({ledger.at_all.text})"


def _why(ledger: Ledger) -> str:
    reasons = ledgers.reasons(ledger)
    return f" ({reasons})" if reasons else ""


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def despite_lateness(parts: dict[str, Part], latest_s: float, window_s: float) -> list[str]:
    """The names of parts that failed whatever a late loader did, for a search.

    Points that are sent late make latency, but hardly a queue: all that lateness can add to a queue
    in the window are the points of the last `latest_s` before it. So one that grew by more is the
    store's: it did not keep up with what was sent, and would not have with more. That matters where
    loader and servers share cores: past what these carry the loader is late in every run.
    """
    queue = parts["queue"]
    if queue.outcome != "fail" or queue.figure is None:
        return []
    return ["queue"] if queue.figure * window_s > latest_s else []


def verdict_of(parts: dict[str, Part], invalid: list[str], incomplete: list[str]) -> Verdict:
    """The verdict of a run from its five parts.

    `invalid`: why the loader was the limit, or the machine not ours; `incomplete`: what was not
    captured or not finished.
    """
    said: dict[Outcome, list[str]] = {}
    for name, part in parts.items():
        said.setdefault(part.outcome, []).append(f"{name}: {part.text}")
    failed, unknown, undecided = (
        said.get(outcome, []) for outcome in ("fail", "unknown", "undecided")
    )
    # A point that was acknowledged and is not there is lost, whoever else used the machine.
    lost = "readback" in parts and parts["readback"].outcome == "fail"
    word: Word
    if incomplete or unknown:
        word, reasons = "incomplete", [*incomplete, *unknown, *invalid, *failed, *undecided]
    elif invalid and not lost:
        word, reasons = "invalid", [*invalid, *failed, *undecided]
    elif failed:
        # However an undecided part came out: the run would not pass.
        word, reasons = "fail", [*failed, *undecided, *invalid]
    elif undecided:
        word, reasons = "incomplete", undecided
    else:
        word, reasons = "pass", []
    spared = [name for name, p in parts.items() if p.outcome == "not judged"]
    if word == "pass" and spared:
        summary = (
            "All parts that apply hold, and no point that must be there was lost; not judged: "
            f"{', '.join(spared)}."
        )
    elif word == "pass":
        summary = "All five parts hold: the load was sustained and no acknowledged point was lost."
    else:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        summary = f"{reasons[0]}{more}"
    return Verdict(word, summary, parts, reasons, invalid=invalid, incomplete=incomplete)
