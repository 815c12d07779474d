"""The verdict on a screen."""

from rich.console import Console

from kairoscope.verdict.sustained import Verdict


def show(judged: Verdict, console: Console) -> None:
    """Print the word, the sentence and the five parts."""
    colour = {"pass": "green", "fail": "red"}.get(judged.verdict, "yellow")
    console.print(f"\n[bold {colour}]verdict: {judged.verdict}[/]  {judged.summary}")
    for name, part in judged.parts.items():
        console.print(f"  {name:9} {part.outcome:8} {part.text}", markup=False)
    for reason in judged.reasons[1:]:
        console.print(f"  also: {reason}", markup=False)
