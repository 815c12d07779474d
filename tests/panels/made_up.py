"""Figures for every query of the dashboards, of a cluster that there never was.

For drawing: each query finds series, with the labels that its legend and its `by` have. Each figure
goes up and down, so that what is drawn is no line at the edge.
"""

import hashlib
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from boards import make, panels

SCRAPED_S = 15
START_S = 1_767_261_600
"""2026-01-01T10:00:00Z: what is drawn is the same every time."""

DURATION_S = 2400
NAN_UNTIL_S = 600
"""Until then figures are no numbers, as the mean of nothing is none: a gap. The first that is drawn
must be one: where it is taken for a number, the plot has no scale."""

STORAGE = [f"storage-{n}" for n in (1, 2, 3)]
KAIROSDB = ["kairosdb-1", "kairosdb-2"]
LOADERS = ["loader-1"]
INSTANCES = {
    "kairoscope_loader_": LOADERS,
    "kairoscope:": STORAGE,
    "cassandra_": STORAGE,
    "scylla_": STORAGE,
    "node_": STORAGE + KAIROSDB + LOADERS,
    "up": STORAGE + KAIROSDB + LOADERS,
}
"""By how a metric's name begins; all others are of KairosDB nodes."""

BUCKETS = ["0.01", "0.1", "1", "10", "+Inf"]


@dataclass
class Metric:
    """What the dashboards ask of a metric."""

    counter: bool = False
    labels: dict[str, set[str]] = field(default_factory=dict)


def metrics() -> dict[str, Metric]:
    """Every metric that a query selects, by name."""
    found: dict[str, Metric] = {}
    for _, panel in panels():
        for legend, query in panel["queries"].items():
            text = make.expression(query)
            grouped = ",".join(re.findall(r"by \(([^)]*)\)", text)).replace(" ", "").split(",")
            shown = re.findall(r"{{(\w+)}}", legend)
            for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", text):
                metric = found.setdefault(name, Metric())
                metric.counter |= f"rate({name}{{" in text
                for label in {*grouped, *shown} - {"", "instance"}:
                    metric.labels.setdefault(label, {f"{label}-1", f"{label}-2"})
                for label, value in re.findall(r'(\w+)="([^"]*)"', matchers):
                    if f"{label}-1" not in metric.labels.get(label, set()):
                        metric.labels.setdefault(label, set()).add(value)
    return found


def level(name: str) -> float:
    """About how large a figure is: seconds, and shares of a limit, stay below 1."""
    if "seconds" in name or name == "up":
        return 0.5
    return 1000 if re.search(r"limit|max|size|MemTotal", name) else 300


def samples(name: str, metric: Metric) -> Iterator[str]:
    """One metric's lines of the OpenMetrics text format."""
    of = next((hosts for start, hosts in INSTANCES.items() if name.startswith(start)), KAIROSDB)
    values = {label: sorted(values) for label, values in metric.labels.items()} | {"instance": of}
    if "le" in values:
        values["le"] = BUCKETS
    for chosen in itertools.product(*values.values()):
        labels = dict(zip(values, chosen, strict=True)) | {"cluster": "made-up"}
        series = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
        # Buckets hold those below them, and rise together.
        share = BUCKETS.index(labels.pop("le")) + 1 if "le" in labels else 1
        phase = int(hashlib.sha256(f"{name}{sorted(labels.items())}".encode()).hexdigest()[:4], 16)
        total = 0.0
        for at in range(0, DURATION_S + 1, SCRAPED_S):
            value = level(name) * share * (1 + 0.5 * math.sin(at / 300 + phase))
            total += value * SCRAPED_S
            shown = total if metric.counter else math.nan if at < NAN_UNTIL_S else value
            yield f"{name}{{{series}}} {shown:.6g} {START_S + at}"


def text() -> str:
    """All of it, as `promtool tsdb create-blocks-from openmetrics` reads it."""
    lines = [line for name, metric in sorted(metrics().items()) for line in samples(name, metric)]
    return "\n".join([*lines, "# EOF", ""])
