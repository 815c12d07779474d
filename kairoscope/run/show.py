"""The verdict on a screen."""

from rich.console import Console

from kairoscope.report import units
from kairoscope.report.advice import ADVICE
from kairoscope.verdict.sustained import Verdict


def show(judged: Verdict, console: Console) -> None:
    """Print the word, why, and the five parts: of one that failed, what to do; nothing twice."""
    colour = {"pass": "green", "fail": "red"}.get(judged.verdict, "yellow")
    console.print(f"\n[bold {colour}]verdict: {judged.verdict}[/]", end="  ")
    console.print(_headline(judged), markup=False)
    for name, part in judged.parts.items():
        console.print(f"  {name:9} {part.outcome:9} {part.text}", markup=False)
        if part.outcome != "fail":
            continue
        # An outcome without a figure (a queue that was never empty) has it in its text.
        figure = units.quantity(part.figure, part.unit)
        limit = units.quantity(part.limit, part.unit)
        of = f" ({part.unit})" if part.unit.startswith("fraction") else ""
        console.print(f"{'':22}figure {figure}, limit {limit}{of}", markup=False)
        if advice := ADVICE.get(name):
            console.print(f"{'':22}means: {advice.means}", markup=False)
            console.print(f"{'':22}look at: {advice.look}", markup=False)
    for reason in _apart_from_parts(judged)[1:]:
        console.print(f"  also: {reason}", markup=False)


def _of_parts(judged: Verdict) -> set[str]:
    return {f"{name}: {part.text}" for name, part in judged.parts.items()}


def _apart_from_parts(judged: Verdict) -> list[str]:
    """The reasons that no part gives."""
    parts = _of_parts(judged)
    return [reason for reason in judged.reasons if reason not in parts]


def _headline(judged: Verdict) -> str:
    """The verdict's sentence, without what the parts below it say anyway."""
    if not judged.reasons:
        return judged.summary
    why = []
    if others := _apart_from_parts(judged):
        why.append(others[0].rstrip("."))
    for outcome, words in (
        ("fail", "failed"),
        ("unknown", "not known"),
        ("undecided", "undecided"),
    ):
        if names := [name for name, part in judged.parts.items() if part.outcome == outcome]:
            why.append(f"{words}: {', '.join(names)}")
    return ". ".join([*why, *judged.happened]) + "."
