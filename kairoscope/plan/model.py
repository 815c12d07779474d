"""The plan itself, and its JSON."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from kairoscope.errors import UserError
from kairoscope.experiment import Experiment

Origin = Literal["derived", "experiment", "command line", "default"]
Value = bool | int | float | str | dict[str, str] | list[dict[str, int]] | None


class Setting(BaseModel):
    """One line of the plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Dotted, as in the experiment file where it can be set there ("kairosdb.batch_size")."""
    value: Value
    unit: str
    origin: Origin
    arithmetic: str = ""
    """How the value came about, in the plan's own numbers; "" where it was simply given."""
    reason: str = ""
    derived_value: Value = None
    """What the arithmetic gave where an override replaced it."""


class Plan(BaseModel):
    """An experiment resolved for a target: what plan.json holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    """Raised when a reader of the old one would misread the new one."""
    experiment_file: str
    target: str
    stack: str = "kairosdb"
    """The system under test; the default is that of plans from before there was a choice."""
    title: str = ""
    """The system as its makers write it; "" in plans from before that was said, as the next."""
    taker: str = ""
    """A server of it that takes points, in words."""
    shared: bool | None = None
    """Whether all servers share one machine; None in plans from before that was said."""
    roles: dict[str, str] = {"storage": "storage", "kairosdb": "kairosdb"}
    """What the stack's servers are called, by their group of the inventory."""
    engine: str
    experiment: Experiment
    """As scaled by the command line; derived settings that it leaves open stay open here."""
    settings: tuple[Setting, ...]
    kairosdb: dict[str, Any]
    """Final values for KairosDB's templates, flat."""
    storage: dict[str, Any]
    """Final values for the storage engine's templates and the schema, flat."""
    load: dict[str, Any]
    """Final values for the load's specification, flat."""
    security: dict[str, bool]
    """Whether the servers are `enabled` to trust nobody without certificate and password; whether
    KairosDB's REST interface asks for one (`rest_auth`)."""
    terraform: dict[str, Any] = {}
    """Terraform's variables that come from the plan; empty for targets without Terraform."""
    totals: dict[str, int | float]
    notices: tuple[str, ...]

    @property
    def held_s(self) -> float:
        """How long a server keeps a point before it writes it, while all is well, in s.

        Of its own settings, which a load on servers of another plan takes from that one.
        """
        return (self.kairosdb.get("queue_window_ms") or 0) / 1000

    def setting(self, name: str) -> Setting:
        """The line of one setting; KeyError if there is none of that name."""
        for setting in self.settings:
            if setting.name == name:
                return setting
        raise KeyError(name)

    def to_json(self) -> str:
        """Text of plan.json, ending in a newline."""
        data = self.model_dump(mode="json")
        data["experiment"] = self.experiment.model_dump(mode="json", exclude_none=True)
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote. UserError for anything else."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the text"
            raise UserError(
                f"plan.json: {where}: {first['msg']}. It was written by another version or by "
                "hand; make it again with `kairoscope plan EXPERIMENT --json`."
            ) from None
