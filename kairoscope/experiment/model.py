"""The experiment as a whole: its sections, and that they fit together."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from kairoscope.experiment import checks
from kairoscope.experiment.faults import Fault
from kairoscope.experiment.problems import Source
from kairoscope.experiment.schema.assume import Assume
from kairoscope.experiment.schema.aws import Aws
from kairoscope.experiment.schema.capture import Capture
from kairoscope.experiment.schema.cluster import Cluster
from kairoscope.experiment.schema.kairosdb import KairosDB
from kairoscope.experiment.schema.limits import Limits
from kairoscope.experiment.schema.load import Load
from kairoscope.experiment.schema.queries import Queries
from kairoscope.experiment.schema.section import Section, described
from kairoscope.experiment.schema.security import Security
from kairoscope.experiment.schema.storage import Storage


class Experiment(Section):
    """One experiment: what to deploy, how to load it, and what counts as sustained."""

    name: str = described(
        "",
        "Names the run folders.",
        allowed="lower-case letters, digits and -, at most 40, beginning with a letter or digit",
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$",
    )
    description: str = described(
        "",
        "One sentence for the report's head.",
        allowed="a sentence of at most 300 characters",
        min_length=1,
        max_length=300,
    )
    stack: str = described(
        "",
        "The system under test: a folder of kairoscope/stacks/ (docs/systems.md).",
        allowed="the name of a stack",
        default="kairosdb",
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$",
    )
    cluster: Cluster
    storage: Storage = Field(default_factory=Storage)
    kairosdb: KairosDB = Field(default_factory=KairosDB)
    load: Load
    system: dict[str, bool | int | float | str] = described(
        "",
        "Settings of a stack other than KairosDB, which has two sections of its own; "
        "`kairoscope plan` shows those that there are.",
        allowed="a mapping of settings that the stack has to their values",
        default_factory=dict,
    )
    queries: Queries = Field(default_factory=Queries)
    faults: list[Fault] = described(
        "",
        "What goes wrong on purpose while the load goes on (docs/faults.md).",
        allowed="a list of at most 100 faults such as {at: 30s, kill: storage-2, for: 20s}",
        default_factory=list,
        max_length=100,
    )
    limits: Limits = Field(default_factory=Limits)
    capture: Capture = Field(default_factory=Capture)
    security: Security = Field(default_factory=Security)
    aws: Aws = Field(default_factory=Aws)
    assume: Assume = Field(default_factory=Assume)
    reference: str | None = described(
        "",
        "Id of the published figures that the report puts beside this run's.",
        allowed="the id of published figures in results/reference/",
        default=None,
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$",
    )

    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def source(self) -> Source:
        return self._source

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = checks.check(flat(self.model_dump(), set()))
        if problems:
            raise ValueError("; ".join(f"{p.fields[0]}: {p.text}" for p in problems))
        return self


def section(name: str) -> type[Section] | None:
    """The model of a section ("load"), None for a plain field ("name")."""
    info = Experiment.model_fields.get(name)
    annotation = info.annotation if info else None
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return None


def flat(data: Mapping[str, Any], invalid: set[str]) -> dict[str, Any]:
    """Every valid field by its dotted name: given or default. Invalid ones are left out, so that
    a check which needs one is skipped instead of adding a second message to the first."""
    fields: dict[str, Any] = {}
    if not any(name.partition("[")[0] == "faults" for name in invalid):
        fields["faults"] = data.get("faults", [])
    for name in Experiment.model_fields:
        model = section(name)
        if model is None or name in invalid:
            continue
        given = data.get(name, {})
        for key, info in model.model_fields.items():
            dotted = f"{name}.{key}"
            # Also what is inside of it: load.tags.status, load.steps[2].rate.
            if dotted in invalid or any(
                i.startswith((f"{dotted}.", f"{dotted}[")) for i in invalid
            ):
                continue
            if key in given:
                fields[dotted] = given[key]
            elif not info.is_required():
                fields[dotted] = info.get_default(call_default_factory=True)
    return fields
