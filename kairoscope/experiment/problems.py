"""What is wrong with an experiment, and where: `file:line: field: what is wrong`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class Source:
    """Where an experiment's values came from, for messages and for the plan's origins."""

    shown: str = "(no file)"
    """The file as a message names it: relative to the working directory where it is below it."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line (from 1) of each field that the file gives, by its dotted name."""
    command_line: Mapping[str, str] = field(default_factory=dict)
    """Fields that the command line gave, with the argument as typed ("SENSORS=20000")."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """What the file had said in place of those ("5000", "points: 2000"), where it said anything."""

    def line(self, name: str) -> int:
        """Line of a field. An absent one belongs to what it would be in (load.steps[2], load), and
        an absent section to the file: 0."""
        while name and name not in self.lines:
            name = name.rpartition(".")[0]
        return self.lines.get(name, 0)

    def where(self, name: str) -> str:
        """The place to look at for a field: its command line argument, its line or the file."""
        if name in self.command_line:
            return self.command_line[name]
        line = self.line(name)
        return f"{self.shown}:{line}" if line else self.shown


@dataclass(frozen=True)
class Problem:
    """One thing that the user is to mend."""

    fields: tuple[str, ...]
    """Dotted names it concerns. The message is put where the user can mend it: at the first of
    them that the command line gave, otherwise at the first."""
    text: str
    line: int | None = None
    """Where it is not the line of the field."""


def report(problems: Iterable[Problem], source: Source) -> str:
    """One line a problem, in the order of the file, those of the command line first."""
    rows = []
    for problem in problems:
        name = next((n for n in problem.fields if n in source.command_line), problem.fields[0])
        where = f"{source.shown}:{problem.line}" if problem.line else source.where(name)
        line = problem.line or source.line(name)
        rows.append((name not in source.command_line, line, f"{where}: {name}: {problem.text}"))
    return "\n".join(dict.fromkeys(text for _, _, text in sorted(rows)))


def got(value: Any) -> str:
    """A value as a message shows it: as written, and not too long."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str | float) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
