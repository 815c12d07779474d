"""The resolved settings."""

from kairoscope.report import units
from kairoscope.report.data import RunData, items
from kairoscope.report.table import Table


def table(run: RunData) -> Table:
    """The resolved settings with where each comes from and its arithmetic."""
    rows = []
    for setting in items(run.plan, "settings"):
        if not isinstance(setting, dict):
            continue
        origin = str(setting.get("origin", "?"))
        if setting.get("derived_value") is not None and origin != "derived":
            origin += f" (derived would be {units.plain(setting['derived_value'])})"
        unit = str(setting.get("unit") or "")
        rows.append(
            (
                str(setting.get("name", "?")),
                f"{units.plain(setting.get('value'))} {unit}".strip(),
                origin,
                str(setting.get("arithmetic") or ""),
                str(setting.get("reason") or ""),
            )
        )
    return Table(("setting", "value", "from", "arithmetic", "reason"), tuple(rows))
