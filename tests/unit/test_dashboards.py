"""Dashboards: what is committed is what boards.yml makes; every query asks for something there is.

That each query returns series under a load is looked at in tests/cluster (test_secured.py, of other
stacks in test_systems.py), that Grafana's own components draw them in tests/panels.
"""

import json
import re

import promql_parser
import pytest
import yaml
from boards import BOARDS, FILES, make, panels, queries, ready

from kairoscope import paths
from loaders.metrics import FAMILIES

PROMETHEUS = paths.DASHBOARDS / "prometheus"

SCYLLA = {
    f"scylla_{name}"
    for name in (
        "cache_partition_hits",
        "cache_partition_misses",
        "commitlog_pending_allocations",
        "cql_batches",
        "cql_statements_in_batches",
        "database_requests_blocked_memory",
        "database_total_writes",
        "hints_manager_written",
        "reactor_cpu_busy_ms",
        "transport_current_connections",
        "transport_requests_served",
        "transport_requests_shed",
    )
}
"""Each is in docs/source/reference/metrics.yaml of scylladb/scylla-monitoring at 8338154, of
2026-08-20; no server is there to ask."""

UNITS = {"Bps", "bytes", "cps", "percentunit", "pps", "reqps", "rowsps", "s", "short", "wps"}
"""Of Grafana's (packages/grafana-data/src/valueFormats/categories.ts)."""

# node_exporter's are many, and asked for where it runs, as other stacks' are
# (tests/cluster/test_systems.py); `up` is Prometheus' own.
ELSEWHERE = re.compile(r"(node|process|go|vm|questdb)_\w+|up")


def selected(query: str) -> set[str]:
    """Names of the metrics that a query asks for."""
    return set(re.findall(r"([a-zA-Z_:][\w:]*)\{", make.expression(query)))


def told() -> set[str]:
    """Metrics that our own parts say they have."""
    found = {family for family, *_ in FAMILIES.values()} | SCYLLA
    table = (paths.CHECKOUT / "docs" / "metrics.md").read_text()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+)", table, re.MULTILINE):
        ends = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
        found |= {name + end for end in ends.get(kind, ("",))}
    rules = yaml.safe_load((PROMETHEUS / "cassandra-jmx.yml").read_text())["rules"]
    for rule in rules:
        # `$2` is one of the words that the pattern's second choice has.
        choices = re.findall(r"\(([\w|]+)\)", rule["pattern"])
        words = choices[1].split("|") if "$2" in rule["name"] else [""]
        found |= {rule["name"].replace("$2", word.lower()) for word in words}
    recorded = yaml.safe_load((PROMETHEUS / "recording.yml").read_text())["groups"]
    return found | {rule["record"] for group in recorded for rule in group["rules"]}


def test_what_is_committed_is_what_the_description_makes():
    wanted = make.files()
    assert make.committed() == set(wanted), "make dashboards"
    for file, text in wanted.items():
        assert file.read_text() == text, f"{file}: make dashboards"


@pytest.mark.parametrize(("place", "query"), [pytest.param(*q, id=q[0]) for q in queries()])
def test_every_query_is_promql_of_the_chosen_cluster(place, query):
    promql_parser.parse(ready(query, "1m"))
    for matchers in re.findall(r"\{([^}]*)\}", make.expression(query)):
        assert make.OF in matchers, place


def test_every_metric_is_told_by_somebody():
    known = told()
    for place, query in queries():
        names = selected(query)
        assert names, place
        unknown = {name for name in names - known if not ELSEWHERE.fullmatch(name)}
        assert not unknown, place


def test_a_renamed_metric_would_be_noticed():
    assert "kairosdb_queue_waiting_points" in told()
    assert "kairosdb_queue_waiting" not in told()


def test_every_panel_says_what_it_means():
    alerts = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    names = {rule["alert"] for group in alerts for rule in group["rules"]}
    for name, panel in panels():
        place = f"{name}: {panel['title']}"
        assert panel["unit"] in UNITS, place
        assert panel["help"].endswith((".", "?")), place
        assert panel.get("alert") in names | {None}, place
        assert all(legend.strip() for legend in panel["queries"]), place
        assert set(panel) <= {
            *("title", "unit", "help", "queries", "max", "alert", "only", "may_be_empty"),
        }, place


def test_titles_and_panels_are_told_apart():
    assert len({board["name"] for board in BOARDS}) == len(BOARDS)
    for file, board in FILES.items():
        titles = [panel["title"] for row in board["rows"] for panel in row["panels"]]
        assert len(titles) == len(set(titles)), board["name"]
        built = json.loads(file.read_text())["panels"]
        assert len({panel["id"] for panel in built}) == len(built)
        places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in built]
        assert len(places) == len(set(places)), board["name"]
