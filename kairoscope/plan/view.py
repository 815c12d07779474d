"""The plan for a terminal."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kairoscope.plan.amounts import count, in_bytes, n
from kairoscope.plan.model import Origin, Plan, Setting, Value

_TITLES = {
    "cluster": "cluster: the shape",
    "load": "load: what the sensors send",
    "queries": "queries: what is read beside it",
    "faults": "faults: what goes wrong on purpose",
    "totals": "totals: what it comes to",
    "kairosdb": "kairosdb: how points are written",
    "storage": "storage: how they are kept",
    "system": "system: how the servers are set",
    "security": "security: who may talk to the servers",
    "aws": "aws: what the target is made of",
    "limits": "limits: what makes a run a pass",
    "capture": "capture: how often it is looked at",
    "assume": "assume: inputs of the arithmetic, to be replaced by measurements",
}
_SINGULAR = {
    "nodes": "node",
    "hosts": "host",
    "replicas": "replica",
    "shards": "shard",
    "sensors": "sensor",
    "series": "series",
    "points": "point",
    "points/s": "point/s",
    "requests": "request",
    "requests/s": "request/s",
    "queries/s": "query/s",
    "connections": "connection",
    "threads": "thread",
    "processes": "process",
    "entries": "entry",
    "cores": "core",
}
_VALUE_WIDTH = 26
_ORIGIN_STYLE: dict[Origin, str] = {
    "derived": "cyan",
    "experiment": "green",
    "command line": "bold magenta",
    "default": "dim italic",
}


def render(plan: Plan) -> RenderableType:
    """The plan for a terminal: a table for each group, then what to know before starting."""
    experiment = plan.experiment
    parts: list[RenderableType] = [
        Text.assemble(
            (experiment.name, "bold"),
            " on target ",
            (plan.target, "bold"),
            f" ({plan.engine}), from {plan.experiment_file}\n{experiment.description}\n",
        )
    ]
    for group, title in _TITLES.items():
        rows = [each for each in plan.settings if each.name.partition(".")[0] == group]
        if not rows:
            continue
        table = Table(title=title, title_justify="left", title_style="bold", expand=True)
        table.add_column("setting", no_wrap=True)
        # The origin stands below the value: a column of its own would leave no room for the
        # arithmetic in a terminal of 80 columns; nor would a metric of 200 characters in one line.
        table.add_column("value, origin", overflow="fold", max_width=_VALUE_WIDTH)
        table.add_column("arithmetic, reason", ratio=1)
        for setting in rows:
            table.add_row(*_row(setting))
        parts += [table, ""]
    if plan.notices:
        parts.append(Text("To know before starting", style="bold yellow"))
        parts += [_bullet(notice) for notice in plan.notices]
    return Group(*parts)


def _row(setting: Setting) -> Iterator[RenderableType]:
    yield Text(setting.name.partition(".")[2])
    value = Text(_value(setting.value, setting.unit) + "\n", style="bold")
    yield value.append(setting.origin, style=_ORIGIN_STYLE[setting.origin])
    how = Text()
    if setting.derived_value is not None and setting.derived_value == setting.value:
        how.append("as derived: ", style="green")
    elif setting.derived_value is not None:
        how.append(f"replaces {_value(setting.derived_value, setting.unit)}: ", style="yellow")
    if setting.arithmetic:
        how.append(setting.arithmetic + "\n")
    how.append(setting.reason, style="dim")
    yield how


def _value(value: Value, unit: str) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, list):  # load.steps; the arithmetic beside it has each of them
        return count(len(value), "step")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) or value is None:
        return str(value)
    text = in_bytes(value) if unit == "bytes" and value >= 1e6 else n(value)
    if unit in ("", "bytes", "share"):
        return text
    return f"{text} {_SINGULAR.get(unit, unit) if value == 1 else unit}"


def _bullet(text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row("•", Text(text))
    return grid
