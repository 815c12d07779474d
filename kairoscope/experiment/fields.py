"""The fields of an experiment for who writes one, of the schema itself."""

import textwrap
from collections.abc import Iterator

from pydantic.fields import FieldInfo

from kairoscope.errors import UserError
from kairoscope.experiment.faults import Fault
from kairoscope.experiment.messages import allows, named
from kairoscope.experiment.model import Experiment, section
from kairoscope.experiment.schema.load import Step
from kairoscope.experiment.schema.section import Section

_WIDTH = 100


def sections() -> dict[str, type[Section]]:
    """The model of each section by its name; "" is the experiment, `load.steps` one step, `faults`
    one fault."""
    found: dict[str, type[Section]] = {"": Experiment}
    for name in Experiment.model_fields:
        if model := section(name):
            found[name] = model
        if name == "load":
            found["load.steps"] = Step
        if name == "faults":
            found[name] = Fault
    return found


def described(only: str = "") -> str:
    """Every field, or those of one section: unit, default, what is allowed, and its reason.

    Raises:
        UserError: there is no such section.
    """
    known = sections()
    if only and only not in known:
        raise UserError(f"No section {only}. There are: {', '.join(filter(None, known))}")
    chosen = {only: known[only]} if only else known
    return "\n\n".join("\n".join(_section(name, model)) for name, model in chosen.items())


def _section(name: str, model: type[Section]) -> Iterator[str]:
    about = (model.__doc__ or "").partition("\n")[0]
    yield f"{name or 'experiment'}: {about[0].lower()}{about[1:]}"
    for key, info in named(model).items():
        # A section of its own.
        if info.json_schema_extra is None or (model is Experiment and key in sections()):
            continue
        yield ""
        yield from _field(key, info)


def _field(key: str, info: FieldInfo) -> Iterator[str]:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    unit = f" [{extra['unit']}]" if extra["unit"] else ""
    yield f"  {key}{unit}: {default(info)}"
    for text in (info.description or "", f"Allowed: {allows(info)}."):
        yield from textwrap.wrap(
            text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
        )


def default(info: FieldInfo) -> str:
    """What holds where the field is absent."""
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if value is None:
        return str(extra.get("absent", "derived by the plan"))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {text}" for name, text in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
