"""The dashboards' description, as tests of several layers look at it."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kairoscope import paths

FOLDER = paths.DASHBOARDS / "grafana"


def _made() -> Any:
    spec = importlib.util.spec_from_file_location("make_dashboards", FOLDER / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = _made()
"""dashboards/grafana/make.py, which belongs to no package."""

FILES: dict[Path, dict[str, Any]] = make.descriptions()
"""What stands on each, by its JSON file."""
BOARDS = list(FILES.values())
KAIROSDBS = {file: board["name"] for file, board in FILES.items() if file.parent == FOLDER}
"""Those of a KairosDB on its store; each of the others is of another stack, by its name."""


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each panel with its dashboard's name."""
    for board in BOARDS:
        for row in board["rows"]:
            for panel in row["panels"]:
                yield board["name"], panel


def queries() -> Iterator[tuple[str, str]]:
    """Each query, and where it stands."""
    for name, panel in panels():
        for query in panel["queries"].values():
            yield f"{name}: {panel['title']}", query


def empty(
    wanted: Iterable[tuple[str, dict[str, Any]]],
    ask: Callable[[str], Any],
    interval: str,
    span_s: float,
) -> list[str]:
    """Queries of some of the panels that found nothing in the last `span_s`.

    `ask` has what a Prometheus answers at /api/v1/<query>.
    """
    now = time.time()

    def found(query: str) -> Any:
        asked = {"query": ready(query, interval), "start": now - span_s, "end": now, "step": 15}
        return ask(f"query_range?{urlencode(asked)}")["result"]

    return [
        f"{name}: {panel['title']}: {legend}"
        for name, panel in wanted
        for legend, query in panel["queries"].items()
        if not found(query)
    ]


def ready(query: str, interval: str) -> str:
    """A query as Prometheus gets it from Grafana, of all clusters and hosts."""
    text = make.expression(query).replace("$__rate_interval", interval)
    return str(text.replace("$cluster", ".*").replace("$instance", ".*"))
