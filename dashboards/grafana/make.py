"""Makes Grafana's dashboards of boards.yml and of stacks' own board.yml: a JSON file each, beside
it, by the name of the board here and as board.json there.

By Grafana's own SDK, so that the form is that of its schema. The JSON is committed: whoever imports
a dashboard needs nothing of this.

    python dashboards/grafana/make.py
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.builders import common as options
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard

HERE = Path(__file__).resolve().parent
BOARDS = HERE / "boards.yml"
STACKS = HERE.parents[1] / "kairoscope" / "stacks"

OF = 'cluster=~"$cluster", instance=~"$instance"'
"""What `$of` stands for."""

ENGINES = {"cassandra": "Cassandra", "scylla": "ScyllaDB"}
HEIGHT = 8
"""Of a panel, in Grafana's grid of 24 columns."""

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")


def expression(query: str) -> str:
    """A query as Grafana gets it."""
    return re.sub(r",? *\$of", lambda found: (", " if "," in found[0] else "") + OF, query)


def variables() -> list[Any]:
    """The choices at the top: where from, which cluster, which of its hosts."""
    every = {"text": "All", "value": "$__all"}
    return [
        build.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        build.QueryVariable("cluster")
        .label("Cluster")
        .datasource(SOURCE)
        .query("label_values(up, cluster)")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC),
        build.QueryVariable("instance")
        .label("Host")
        .datasource(SOURCE)
        .query('label_values(up{cluster=~"$cluster"}, instance)')
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(dashboard.VariableOption(**every)),
    ]


def width(panels: int) -> int:
    """Of each panel of a row: four beside each other, or three where that leaves no gap."""
    return 8 if panels % 4 and panels % 3 == 0 else 6


def panel(wanted: Mapping[str, Any], span: int) -> timeseries.Panel:
    """One panel of the description, `span` columns wide."""
    text = wanted["help"]
    if "only" in wanted:
        text += f" {ENGINES[wanted['only']]} alone tells it."
    if "may_be_empty" in wanted:
        text += f" Empty while {wanted['may_be_empty']}."
    if "alert" in wanted:
        text += f" Runbook: {wanted['alert']} in dashboards/runbook.md."
    made = (
        timeseries.Panel()
        .title(wanted["title"])
        .description(text)
        .unit(wanted["unit"])
        .datasource(SOURCE)
        .height(HEIGHT)
        .span(span)
        .line_width(1)
        .fill_opacity(8)
        .show_points(common.VisibilityMode.NEVER)
        # From 0 on, or every ripple is a storm; what is below 0 is shown all the same.
        .axis_soft_min(0)
        .legend(
            options.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(
            options.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
    )
    if "max" in wanted:
        made.min(0).max(wanted["max"])
    if "alert" in wanted:
        # Grafana's list has Prometheus' alerts with their annotations, the runbook among them.
        link = build.DashboardLink(f"Alert: {wanted['alert']}")
        made.links(
            [
                link.type(dashboard.DashboardLinkType.LINK)
                .url(f"/alerting/list?search=rule:{wanted['alert']}")
                .target_blank(True)
            ]
        )
    for number, (legend, query) in enumerate(wanted["queries"].items()):
        made.with_target(
            prometheus.Dataquery()
            .expr(expression(query))
            .legend_format(legend)
            .datasource(SOURCE)
            .ref_id(chr(ord("A") + number))
            .range()
        )
    return made


def board(wanted: Mapping[str, Any], names: Mapping[str, str]) -> dashboard.Dashboard:
    """One dashboard; `names`: titles of those that it has links to."""
    made = (
        build.Dashboard(f"Kairoscope: {wanted['title']}")
        .uid(f"kairoscope-{wanted['name']}")
        .description(wanted["about"])
        .tags(["kairoscope"])
        .timezone("utc")
        .time("now-30m", "now")
        .refresh("15s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    )
    for variable in variables():
        made.with_variable(variable)
    for name, title in names.items():
        if name != wanted["name"]:
            made.link(
                build.DashboardLink(title)
                .type(dashboard.DashboardLinkType.LINK)
                .url(f"/d/kairoscope-{name}")
                .include_vars(True)
                .keep_time(True)
            )
    for row in wanted["rows"]:
        made.with_row(build.Row(row["title"]))
        for each in row["panels"]:
            made.with_panel(panel(each, width(len(row["panels"]))))
    built = made.build()
    for number, each in enumerate(built.panels or [], 1):
        each.id_val = number
    return built


def descriptions() -> dict[Path, dict[str, Any]]:
    """What stands on each dashboard, by its JSON file: those of boards.yml beside that, and one of
    each other stack that has any, in its folder."""
    found = {HERE / f"{one['name']}.json": one for one in yaml.safe_load(BOARDS.read_text())}
    for file in sorted(STACKS.glob("*/board.yml")):
        found[file.with_suffix(".json")] = yaml.safe_load(file.read_text())
    return found


def files() -> dict[Path, str]:
    """Every dashboard's file and text."""
    found = descriptions()
    # Other stacks' are linked to by none.
    names = {one["name"]: one["title"] for file, one in found.items() if file.parent == HERE}
    return {
        file: json.dumps(board(one, names), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
        for file, one in found.items()
    }


def committed() -> set[Path]:
    """The JSON files that there are."""
    return {*HERE.glob("*.json"), *STACKS.glob("*/board.json")}


def main() -> int:
    """Write them, and take away what none of them is."""
    made = files()
    for old in committed() - set(made):
        old.unlink()
    for file, text in made.items():
        file.write_text(text)
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
