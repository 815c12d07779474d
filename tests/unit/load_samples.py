"""Loads made up for tests of what comes after them: specifications, workers' files, points."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import loads
from hypothesis import strategies as st

from loaders.schedule.due import Schedule, Series
from loaders.schedule.spec import LoadSpec, Step
from loaders.schedule.values import ValueType, values

WORDS = ("acknowledged", "rejected", "unknown", "not_sent")
# Metric and tags: a metric for each series, or told apart by a tag, or both.
MODELS = (
    ("SENSOR_{n}", {"status": "good"}),
    ("SENSOR_{n}", {"sensor": "s-{n}", "site": "site-{n%3}"}),
    ("temperature", {"sensor": "{n}", "status": "good", "site": "site-{n%3}"}),
    ("temperature_{n%3}", {"status": "good", "sensor": "s-{n}"}),
)

QUIET: dict[str, Any] = {"longest_s": 0.01, "from_t": 1_700_000_001.0, "long": []}
"""A silence that is none, as in workers' final figures."""

Became = dict[tuple[int, int, int], str]
"""Outcome by (worker, group, tick)."""


def spec_of(sensors: int = 4, ticks: int = 3, **changes: Any) -> LoadSpec:
    """A small load without a warm-up, with some fields changed."""
    fields = {
        "sensors": sensors,
        "steps": [Step(1000, ticks)],
        "warmup_ticks": 0,
        "telnet": ["127.0.0.1:4242"],
        "sensors_per_request": 2,
    }
    return loads.load_spec(**fields | changes)


@st.composite
def specs(draw: st.DrawFn) -> LoadSpec:
    """Small loads of every shape: steps, ramp, churn, several workers and nodes, any names."""
    together = draw(st.integers(1, 3))
    steps = draw(
        st.lists(
            st.builds(Step, st.sampled_from([100, 250, 1000]), st.integers(1, 5)),
            min_size=1,
            max_size=3,
        )
    )
    ticks = sum(step.ticks for step in steps)
    nodes = draw(st.integers(1, 2))
    metric, tags = draw(st.sampled_from(MODELS))
    return spec_of(
        sensors=draw(st.integers(1, 12)),
        steps=steps,
        ramp_ticks=draw(st.integers(0, ticks - 1)),
        lifetime_ticks=draw(st.integers(0, 4)) * together,
        pacing=draw(st.sampled_from(["spread", "aligned"])),
        nodes=[f"http://127.0.0.{n + 1}:8080" for n in range(nodes)],
        telnet=[f"127.0.0.{n + 1}:4242" for n in range(nodes)],
        protocol=draw(st.sampled_from(["rest", "telnet-put"])),
        hosts=draw(st.integers(1, 2)),
        workers_per_host=draw(st.integers(1, 2)),
        metric=metric,
        tags=tags,
        value_type=draw(st.sampled_from([kind.value for kind in ValueType])),
        sensors_per_request=draw(st.integers(1, 4)),
        points_per_request=together,
    )


def cells(schedule: Schedule) -> list[tuple[int, int, int]]:
    """All (worker, group, tick) at which something is due."""
    return [
        (worker, group.index, tick)
        for worker in range(schedule.spec.workers)
        for group in schedule.groups(worker)
        for tick in range(group.first_tick, schedule.spec.ticks)
    ]


def last_of_round(spec: LoadSpec, first_tick: int, tick: int) -> int:
    """The last tick of the request that a tick of a group travels in."""
    together = spec.points_per_request
    beyond = first_tick + ((tick - first_tick) // together + 1) * together
    return min(beyond, spec.ticks) - 1


def write_worker_files(schedule: Schedule, folder: Path, became: Became) -> None:
    """Worker files as a loader leaves them."""
    spec = schedule.spec
    usual = "acknowledged" if spec.acknowledges else "unknown"
    for worker in range(spec.workers):
        counts: Counter[str] = Counter()
        by_node = [[0] * len(spec.nodes), [0] * len(spec.nodes)]
        lines: list[dict[str, Any]] = []
        in_time = [0] * len(spec.steps)
        for group in schedule.groups(worker):
            for tick in range(group.first_tick, spec.ticks):
                word, points = became[worker, group.index, tick], len(group.slots)
                counts[word] += points
                last_tick = last_of_round(spec, group.first_tick, tick)
                if word == usual and last_tick >= spec.warmup_ticks:
                    in_time[schedule.step_of(last_tick)] += points
                by_node[0][group.node] += points * (word != "not_sent")
                by_node[1][group.node] += points * (word == "acknowledged")
                if word == usual:
                    continue
                last = lines[-1] if lines else {}
                end = last.get("tick", 0) + last.get("ticks", 0)
                if (last.get("group"), last.get("outcome"), end) == (group.index, word, tick):
                    last["ticks"] += 1
                    continue
                line = {"group": group.index, "tick": tick, "ticks": 1, "outcome": word}
                lines.append(line)
        scheduled = counts.total()
        sent = scheduled - counts["not_sent"]
        final = {
            "worker": worker,
            "host": worker // spec.workers_per_host,
            "scheduled": scheduled,
            "sent": sent,
            **{word: counts[word] for word in WORDS},
            "in_time": sum(in_time),
            "in_time_by_step": in_time,
            "untimed": counts["rejected"],
            "stopped_early": False,
            "silence": {**QUIET, "by_node": [QUIET] * len(spec.nodes)},
            "sent_by_node": by_node[0],
            "acknowledged_by_node": by_node[1],
        }
        (folder / f"worker-{worker}.json").write_text(json.dumps(final))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"worker-{worker}.outcomes.jsonl").write_text(text)


def points_of(schedule: Schedule, series: Series) -> list[tuple[int, int]]:
    """(timestamp in ms, value) of all points of a series."""
    times = schedule.timestamps_ms(series.rank, series.ticks)
    return list(zip(times.tolist(), values(series.number, times).tolist(), strict=True))
