"""What a verdict says beside its parts, whatever its word: what was refused, what stayed unknown,
and queries beside the load that did not get what they asked for. Pure: sentences out of counts."""

from collections.abc import Iterable, Mapping
from typing import Any

from kairoscope.verdict.ledger import Ledger


def of_points(book: Ledger) -> list[str]:
    """Points that are no loss, as nobody said that they were stored; none if there are none."""
    counts = [
        (book.rejected, "refused by the server"),
        (book.not_sent, "never sent"),
    ]
    # Over telnet all that was sent is unknown, and the read-back speaks of it.
    if book.acknowledges:
        absent = book.unknown_missing
        told = "unanswered" if absent is None else "unanswered and not stored"
        counts.append((book.unknown if absent is None else absent, told))
    said = [f"{count:,} {what}" for count, what in counts if count]
    return [f"Of {book.scheduled:,} scheduled points: {', '.join(said)}"] if said else []


def of_losses(looks: Iterable[Mapping[str, Any]], losses: Mapping[str, str]) -> list[str]:
    """What servers threw away by their own counters; none if they count nothing.

    `looks` are records of counters.jsonl, `losses` what a counter means, by its name
    without the process that it is of (`process/name`, where a server has several).
    """
    most: dict[tuple[str, str], float] = {}
    for look in looks:
        for name, value in look.get("counters", {}).items():
            if value > 0 and name.rpartition("/")[2] in losses:
                where = (str(look["node"]), str(name))
                most[where] = max(value, most.get(where, 0))
    return [
        f"{node} counts {name} (up to {value:,.0f} in a look): {losses[name.rpartition('/')[2]]}"
        for (node, name), value in most.items()
    ]


def of_queries(answers: Mapping[str, Any]) -> list[str]:
    """Queries beside the load that were not answered in full; none if all were."""
    kinds = (
        ("failed", "failed"),
        ("late", "did not find points that should have been there"),
        ("wrong", "gave wrong values"),
        ("not_sent", "were never sent"),
    )
    said = [f"{answers[key]:,} {what}" for key, what in kinds if answers.get(key)]
    asked = answers["sent"] + answers["not_sent"]
    return [f"Of {asked:,} queries beside the load: {', '.join(said)}"] if said else []
