"""What a run says on the screen: how the load goes, and what came of it."""

from rich.console import Console

from kairoscope import live
from kairoscope.report import units
from kairoscope.report.advice import ADVICE
from kairoscope.verdict import sustained
from loaders.emulator import Progress
from loaders.schedule.spec import LoadSpec

_THOUSANDS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


def short(count: int) -> str:
    """A count in at most six characters: 9,999, 12.3k, 2.88M."""
    if count < 10_000:
        return f"{count:,}"
    for size, letter in _THOUSANDS:
        # 999,950 is 1.00M, not 1000k.
        if count >= size * 0.9995:
            scaled = count / size
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{digits}f}{letter}"
    return f"{count:,}"


def figures(spec: LoadSpec, points: int, now: Progress, waiting: int | None) -> str:
    """How a load goes, short enough for a line of 80 characters with its bar.

    *behind* are points that should have been sent and were not: a replay has none, as nothing of
    it is due at a time.

    Args:
        spec: of the load.
        points: of the whole load.
        now: how far it is.
        waiting: points in KairosDB's queues; None if a node did not tell.
    """
    arrived = now.acknowledged if spec.acknowledges else now.sent
    said = [f"{'acked' if spec.acknowledges else 'sent'} {short(arrived)}"]
    if not spec.replay:
        said.append(f"behind {short(max(0, now.due - now.sent))}")
    said.append(f"p99 {now.p99_ms:,.0f} ms")
    said.append(f"queue {'?' if waiting is None else short(waiting)}")
    if spec.replay:
        left_s = live.time_left(arrived, points, now.elapsed_s)
    else:
        left_s = now.duration_s - max(0.0, now.elapsed_s)
    if left_s is not None:
        said.append(f"{live.duration(left_s)} left" if left_s > 0 else "ending")
    return "  ".join(said)


def show_verdict(judged: sustained.Verdict, console: Console) -> None:
    """Print the word, why, and the five parts: of one that failed, what to do; nothing twice."""
    colour = {"pass": "green", "fail": "red"}.get(judged.verdict, "yellow")
    console.print(f"\n[bold {colour}]verdict: {judged.verdict}[/]", end="  ")
    console.print(_headline(judged), markup=False)
    for name, part in judged.parts.items():
        console.print(f"  {name:9} {part.outcome:8} {part.text}", markup=False)
        if part.outcome != "fail":
            continue
        # An outcome without a figure (a queue that was never empty) has it in its text.
        figure = units.quantity(part.figure, part.unit)
        limit = units.quantity(part.limit, part.unit)
        of = f" ({part.unit})" if part.unit.startswith("fraction") else ""
        console.print(f"{'':21}figure {figure}, limit {limit}{of}", markup=False)
        if advice := ADVICE.get(name):
            console.print(f"{'':21}means: {advice.means}", markup=False)
            console.print(f"{'':21}look at: {advice.look}", markup=False)
    for reason in _apart_from_parts(judged)[1:]:
        console.print(f"  also: {reason}", markup=False)


def _of_parts(judged: sustained.Verdict) -> set[str]:
    return {f"{name}: {part.text}" for name, part in judged.parts.items()}


def _apart_from_parts(judged: sustained.Verdict) -> list[str]:
    """The reasons that no part gives."""
    parts = _of_parts(judged)
    return [reason for reason in judged.reasons if reason not in parts]


def _headline(judged: sustained.Verdict) -> str:
    """The verdict's sentence, without what the parts below it say anyway."""
    if not judged.reasons:
        return judged.summary
    more = f" (and {len(judged.reasons) - 1} more)" if len(judged.reasons) > 1 else ""
    said = f"{judged.reasons[0]}{more}".rstrip(".")
    happened = judged.summary.removeprefix(said).strip(". ")
    why = []
    if others := _apart_from_parts(judged):
        why.append(others[0].rstrip("."))
    for outcome, words in (("fail", "failed"), ("unknown", "not known")):
        if names := [name for name, part in judged.parts.items() if part.outcome == outcome]:
            why.append(f"{words}: {', '.join(names)}")
    return ". ".join([*why, *([happened] if happened else [])]) + "."
