"""The dashboards' description, as tests of several layers look at it."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def ready(query: str, interval: str) -> str:
    """A query as Prometheus gets it from Grafana, of all clusters and hosts."""
    text = make.expression(query).replace("$__rate_interval", interval)
    return str(text.replace("$cluster", ".*").replace("$instance", ".*"))
