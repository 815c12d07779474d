"""The plan in the making: collects settings while the arithmetic goes from load to store."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kairoscope.experiment import Experiment
from kairoscope.plan.model import Origin, Setting

MIB = 1_048_576


class Draft:
    """Settings, totals, notices and contradictions so far, and the rates they are computed from."""

    def __init__(self, experiment: Experiment) -> None:
        """Nothing recorded yet; the rates follow from the experiment alone."""
        self.experiment = experiment
        self.settings: list[Setting] = []
        self.totals: dict[str, int | float] = {}
        self.notices: list[str] = []
        self.problems: list[str] = []
        # Of one storage node, and what stores; `derive.make` knows by which rule of which target.
        self.shards = 0
        # Most that a KairosDB node's disk has for its queue, in MiB, and what says so.
        self.queue_disk = (0, "")
        self.engine = ""
        # Whether all servers share the cores and the memory of one machine.
        self.shared = False
        # Sections and settings that mean nothing to the stack: not shown.
        self.unused: frozenset[str] = frozenset()

        load, cluster = experiment.load, experiment.cluster
        # What takes the points, in words.
        self.taker = "KairosDB node"
        self.nodes = cluster.kairosdb_nodes
        self.survivors = max(1, self.nodes - 1)
        self.after_failure = " after one KairosDB node has failed" if self.nodes > 1 else ""
        # Of steps the highest rate: what is sized for it also carries the others.
        self.points_per_s = load.sensors * 1000 / load.shortest_period_ms
        self.node_points_per_s = self.points_per_s / self.nodes
        # With a ramp an upper bound: only the loader knows which group of sensors joins when.
        self.points = load.sensors * load.ticks
        self.series = math.ceil(load.sensors / self.nodes)
        self.series_failed_over = math.ceil(load.sensors / self.survivors)

    def given(
        self, section: str, *, skip: tuple[str, ...] = (), absent: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Record the fields of a section that are given or have a default.

        `absent` has the defaults that depend on other fields.
        """
        model = getattr(self.experiment, section)
        source = self.experiment.source
        values: dict[str, Any] = {}
        for key, info in type(model).model_fields.items():
            name = f"{section}.{key}"
            value = getattr(model, key)
            arithmetic = ""
            origin: Origin = "experiment" if key in model.model_fields_set else "default"
            if value is None:
                value, origin = (absent or {}).get(key), "default"
            if key in skip or value is None:
                continue
            if name in source.command_line:
                origin = "command line"
                if name in source.replaced:
                    replaced = source.replaced[name]
                    arithmetic = f"{source.command_line[name]}; the experiment has {replaced}"
            if not self.unused & {section, name}:
                unit = info.json_schema_extra["unit"]
                self.add(name, value, unit, arithmetic, info.description, origin=origin)
            values[key] = value
        return values

    def derive(self, name: str, value: int, unit: str, arithmetic: str, reason: str) -> int:
        """Record a derived setting, or the experiment's override of it; returns what holds."""
        section, key = name.split(".")
        override: int | None = getattr(getattr(self.experiment, section), key)
        if override is None:
            self.add(name, value, unit, arithmetic, reason)
            return value
        self.add(name, override, unit, arithmetic, reason, origin="experiment", derived_value=value)
        return override

    def own(self, key: str, default: int, unit: str, reason: str, *, least: int, most: int) -> int:
        """Record a setting of the stack's own, of the section system; returns what holds.

        A whole number from `least` to `most`, in `unit`; another value is refused.
        """
        name, given = f"system.{key}", self.experiment.system.get(key, default)
        if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
            self.refuse(name, f"must be a whole number from {least:,} to {most:,}, got {given!r}")
            given = default
        origin: Origin = "experiment" if key in self.experiment.system else "default"
        self.add(name, given, unit, "", reason, origin=origin)
        return given

    def chosen(self, key: str, default: str, among: Sequence[str], reason: str) -> str:
        """Record a setting of the stack's own that is one of several words; returns what holds."""
        name, given = f"system.{key}", self.experiment.system.get(key, default)
        if given not in among:
            self.refuse(name, f"must be one of {', '.join(among)}, got {given!r}")
            given = default
        origin: Origin = "experiment" if key in self.experiment.system else "default"
        self.add(name, given, "", "", reason, origin=origin)
        return str(given)

    def value(self, name: str) -> Any:
        """What was recorded of a setting; None if nothing was."""
        return next((each.value for each in self.settings if each.name == name), None)

    def total(self, key: str, value: float, unit: str, arithmetic: str, reason: str) -> None:
        """Record what the experiment comes to."""
        self.add(f"totals.{key}", value, unit, arithmetic, reason)
        self.totals[key] = value

    def refuse(self, name: str, text: str) -> None:
        """Record a setting that contradicts another."""
        self.problems.append(f"{self.experiment.source.where(name)}: {name}: {text}")

    def add(
        self,
        name: str,
        value: Any,
        unit: str,
        arithmetic: str,
        reason: str,
        *,
        origin: Origin = "derived",
        derived_value: Any = None,
    ) -> None:
        """Record a setting."""
        self.settings.append(
            Setting(
                name=name,
                value=value,
                unit=unit,
                origin=origin,
                arithmetic=arithmetic,
                reason=reason,
                derived_value=derived_value,
            )
        )
