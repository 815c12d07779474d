"""A sizing on a screen: each line with its arithmetic, and what is not known."""

from rich.console import Console

from kairoscope.plan.amounts import n
from kairoscope.sizing.size import Sizing


def show(found: Sizing, console: Console) -> None:
    """Print it."""
    for line in found.lines:
        console.print(f"[bold]{line.what}[/bold]: {line.value}", soft_wrap=True)
        console.print(f"    {line.arithmetic}", markup=False, soft_wrap=True)
        if line.sure:
            console.print(f"    how sure: {line.sure}", markup=False, soft_wrap=True)
    for other in found.others:
        console.print(
            f"or {n(other.count)} × {other.type}, {other.total:,.2f} USD/h, bound by "
            f"{other.bound_by}; chosen: {found.storage.total:,.2f}, by {found.storage.bound_by}",
            soft_wrap=True,
        )
    console.print("[bold]not known[/bold]")
    for text in found.unknown:
        console.print(f"  - {text}", markup=False, soft_wrap=True)
