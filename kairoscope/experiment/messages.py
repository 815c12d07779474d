"""Pydantic's errors in words that say what is allowed, made from the schema itself."""

import difflib
import re
import types
import typing
from typing import Any, Literal

import annotated_types
from pydantic.fields import FieldInfo

from kairoscope.experiment.model import Experiment, section
from kairoscope.experiment.problems import Problem, got
from kairoscope.experiment.schema.section import Section


def explain(loc: tuple[int | str, ...], kind: str, value: Any) -> Problem:
    """One pydantic error as a sentence that says what is allowed."""
    dotted = _dotted(loc)
    hint = ""
    if kind == "extra_forbidden":
        return Problem((dotted,), _unknown(loc))
    found = _described(loc)
    if found is None:  # load.tags.x
        allowed, hint = "text", _quotes(value)
    elif isinstance(found, FieldInfo):
        allowed, hint = allows(found), _hint(found, value)
    else:
        allowed = f"a mapping of fields ({', '.join(named(found))})"
    if kind == "missing":
        return Problem((dotted,), f"is missing; it must be {allowed}")
    return Problem((dotted,), f"must be {allowed}, got {got(value)}{hint}")


def named(model: type[Section]) -> dict[str, FieldInfo]:
    """The fields of a section by their names in a file, of which some are words of Python."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _dotted(loc: tuple[int | str, ...]) -> str:
    """The name of a place as lines are kept by: load.steps[2].rate, counted from 1."""
    name = ""
    for part in loc:
        name += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return name.removeprefix(".")


def _described(loc: tuple[int | str, ...]) -> FieldInfo | type[Section] | None:
    """What the schema says of a place: a mapping of fields, a field, or None inside of a mapping
    without fixed names (load.tags)."""
    found: FieldInfo | type[Section] | None = Experiment
    for part in loc:
        if isinstance(found, type):
            info = named(found)[str(part)]
            plain = _plain(info)
            found = plain if isinstance(plain, type) and issubclass(plain, Section) else info
        elif isinstance(found, FieldInfo):
            inner = typing.get_args(_plain(found))
            found = inner[0] if isinstance(part, int) else None
    return found


def _unknown(loc: tuple[int | str, ...]) -> str:
    """What to say about a field nobody knows: a near name here, or its place elsewhere."""
    last, here = str(loc[-1]), _described(loc[:-1])
    known = list(named(here)) if isinstance(here, type) else []
    close = difflib.get_close_matches(last, known, n=1, cutoff=0.6)
    if close:
        return f"unknown field; did you mean {close[0]!r}?"
    elsewhere = [
        f"{other}.{last}"
        for other in Experiment.model_fields
        if (model := section(other)) is not None and last in model.model_fields
    ]
    if elsewhere:
        return f"unknown field here; did you mean {' or '.join(elsewhere)}?"
    return f"unknown field; allowed: {', '.join(known)}"


def _hint(info: FieldInfo, value: Any) -> str:
    """How to mend a value that is nearly right."""
    if isinstance(value, str):
        choices = _choices(info)
        close = [c for c in choices if value and c.lower().startswith(value.lower())]
        close = close or difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
        return f" (did you mean {close[0]!r}?)" if close else ""
    if _plain(info) is not str or (_pattern(info) and not re.fullmatch(_pattern(info), str(value))):
        return ""
    return _quotes(value)


def _pattern(info: FieldInfo) -> str:
    """What a text must look like; "" if that is not said."""
    return next((str(p) for each in info.metadata if (p := getattr(each, "pattern", None))), "")


def _quotes(value: Any) -> str:
    """The hint for text that YAML reads as something else; {n} is a mapping to it."""
    return "; put it in quotes" if isinstance(value, bool | int | float | dict) else ""


def _plain(info: FieldInfo) -> Any:
    """A field's type without its `| None`."""
    annotation = info.annotation
    # A Literal with `| None` is a typing.Union, not one of Python's own.
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(a for a in typing.get_args(annotation) if a is not types.NoneType)
    return annotation


def _choices(info: FieldInfo) -> list[str]:
    plain = _plain(info)
    return [str(c) for c in typing.get_args(plain)] if typing.get_origin(plain) is Literal else []


def allows(info: FieldInfo) -> str:
    """What a field takes, in words, from its type and bounds."""
    extra = info.json_schema_extra
    if isinstance(extra, dict) and "allowed" in extra:
        return str(extra["allowed"])
    choices = _choices(info)
    if choices:
        return f"one of {', '.join(choices)}"
    if _plain(info) is bool:
        return "true or false"
    noun = {int: "a whole number", float: "a number"}[_plain(info)]
    low = high = ""
    above = False
    for bound in info.metadata:
        if isinstance(bound, annotated_types.Ge):
            low = _number(bound.ge)
        elif isinstance(bound, annotated_types.Gt):
            low, above = _number(bound.gt), True
        elif isinstance(bound, annotated_types.Le):
            high = _number(bound.le)
    if not high:
        return f"{noun} ≥ {low}"
    return f"{noun} above {low}, at most {high}" if above else f"{noun} from {low} to {high}"


def _number(value: Any) -> str:
    """1234567 as 1,234,567; 0.5 as 0.5; 60.0 as 60."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.15g}"
