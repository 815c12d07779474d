"""What a section of an experiment is, and what each of its fields has to say."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue


def described(
    unit: str,
    text: str,
    *,
    allowed: str | None = None,
    absent: str | None = None,
    **constraints: Any,
) -> Any:
    """Declare a field with its unit ("" for none), its reason, and, for text, what is allowed.

    `absent` says what holds without the field where that is neither a plain default nor derived by
    the plan.
    """
    extra: dict[str, JsonValue] = {"unit": unit}
    if allowed is not None:
        extra["allowed"] = allowed
    if absent is not None:
        extra["absent"] = absent
    return Field(description=text, json_schema_extra=extra, **constraints)


class Section(BaseModel):
    """Strict ("5" is not 5), closed (an unknown field is an error) and unchangeable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
