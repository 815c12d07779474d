"""From a file and the command line to an experiment, or to what is wrong with it.

Every problem is reported at once, each as `file:line: field: what is wrong and what is allowed`,
because a person who mends one field at a time gives up at the third.
"""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kairoscope.errors import UserError
from kairoscope.experiment import checks, document, files
from kairoscope.experiment.messages import explain
from kairoscope.experiment.model import Experiment, flat, section
from kairoscope.experiment.problems import Source, report


@dataclass(frozen=True)
class Overrides:
    """What the command line may change: SENSORS=, RATE=, DURATION= (seconds), PROTOCOL=, ENGINE=.

    Text is taken as typed, so that a bad value can be refused by its Makefile name. None and ""
    leave the experiment's value.
    """

    sensors: int | str | None = None
    rate: float | str | None = None
    duration_s: int | str | None = None
    protocol: str | None = None
    engine: str | None = None


# Field of the overrides: its Makefile variable, and the section it is in.
_VARIABLES = {
    "sensors": ("SENSORS", "load"),
    "rate": ("RATE", "load"),
    "duration_s": ("DURATION", "load"),
    "protocol": ("PROTOCOL", "load"),
    "engine": ("ENGINE", "storage"),
}


def load(path_or_name: str, overrides: Overrides | None = None) -> Experiment:
    """Read, scale and check an experiment.

    `path_or_name` is a path (it has a `/` or ends in .yml or .yaml) or the name of a file in
    `experiments/`. Raises UserError with one line for each problem.
    """
    text, shown = files.read(path_or_name)
    data, lines, problems = document.read(text, shown)
    for name, value in data.items():
        # A section whose every line is commented out is an empty one.
        if value is None and section(name) is not None:
            data[name] = {}
    command_line, replaced = _apply(overrides or Overrides(), data)

    experiment: Experiment | None = None
    invalid = {name for problem in problems for name in problem.fields}
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        for details in error.errors():
            if not details["loc"]:
                continue  # the cross checks, which run below on all that is valid
            problem = explain(details["loc"], details["type"], details["input"])
            if details["input"] is not document.UNREADABLE:  # else reported while reading
                problems.append(problem)
            invalid.update(problem.fields)
        problems += checks.check(flat(data, invalid))

    source = Source(shown, lines, command_line, replaced)
    if problems or experiment is None:
        raise UserError(report(problems, source))
    experiment._source = source
    return experiment


def _apply(overrides: Overrides, data: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Lay the command line over the file's data; returns Source.command_line and .replaced."""
    command_line: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for name, (variable, section_name) in _VARIABLES.items():
        given = getattr(overrides, name)
        if given is None or given == "":
            continue
        fields = data.setdefault(section_name, {})
        if not isinstance(fields, dict):
            continue  # the schema says what is wrong with it
        command_line[f"{section_name}.{name}"] = f"{variable}={given}"
        if name in fields:
            replaced[f"{section_name}.{name}"] = str(fields[name])
        fields[name] = _as_number(given)
        if name == "duration_s" and "points" in fields:
            replaced["load.duration_s"] = f"points: {fields.pop('points')}"
    return command_line, replaced


def _as_number(given: float | str) -> float | str:
    """A number where the text is one, otherwise the text for the schema to refuse."""
    if isinstance(given, str):
        text = given.strip()
        if re.fullmatch(r"[+-]?\d{1,18}", text):
            return int(text)
        if re.fullmatch(r"[+-]?(\d{1,18}\.\d*|\.\d+)", text):
            return float(text)
    return given
