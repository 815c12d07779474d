"""What the sensor loader can do, against a sink that throws everything away.

The cost of a point is CPU time of the loader's worker processes, from the moment at which a worker
has been made ready to its end: requests made for the first time are in it, starting Python is not.
The baseline is the way published in 2018 (`published_way`), against the same kind of sink.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import psutil

from bench.harness import RATIO, Bench, BenchError, Limit, Round, alone
from kairoscope import paths
from loaders import emulator
from loaders.schedule.due import Schedule
from loaders.schedule.protocols import REST, TELNET_PUT
from loaders.schedule.spec import LoadSpec, Step
from loaders.sink.process import SinkProcess

_SENSORS_2018 = 25_000  # of one published loader script
_TICKS = 200
_BASELINE_POINTS = 500_000
_MILLION = 1_000_000
_DAY_S = 86_400


def published_way() -> Round:
    """One round of the baseline."""
    with SinkProcess() as sink:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.published_way",
                sink.telnet,
                str(_BASELINE_POINTS),
            ],
            cwd=paths.CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BenchError(f"the published way ended with: {done.stderr.strip()[-300:]}")
        found = json.loads(done.stdout)
        _same("points that reached the sink", sink.stats()["lines"], found["points"])
    points = found["points"]
    figures = {
        "points_per_cpu_s": points / found["cpu_s"],
        "points_per_s": points / found["wall_s"],
    }
    return Round(found["cpu_s"] / points * 1e6, figures)


def rest() -> Round:
    """One worker over REST, unpaced: 1,000 sensors a request, and 100."""
    figures: dict[str, float] = {}
    cost: dict[int, float] = {}
    for together in (1_000, 100):
        with SinkProcess() as sink:
            spec = _unpaced(sink, protocol=REST, sensors_per_request=together)
            found = _run(spec)
            _same("points acknowledged", found.acknowledged, spec.sensors * spec.ticks)
            counters = sink.stats()
        _same("points that reached the sink", counters["requests"] * together, found.acknowledged)
        cost[together] = found.cpu_s / found.acknowledged * 1e6
        figures |= {
            f"{name}.{together}_a_request": figure
            for name, figure in _speed(found, found.acknowledged, counters["cpu_s"]).items()
        }
    return Round(cost[1_000], figures)


def telnet() -> Round:
    """One worker over telnet `put`, unpaced: 1,000 sensors a write."""
    with SinkProcess() as sink:
        spec = _unpaced(sink, protocol=TELNET_PUT, sensors_per_request=1_000)
        found = _run(spec)
        counters = sink.stats()
    points = spec.sensors * spec.ticks
    _same("points handed to the socket", found.sent, points)
    _same("points that reached the sink", counters["lines"], points)
    return Round(found.cpu_s / points * 1e6, _speed(found, points, counters["cpu_s"]))


def pacing() -> Round:
    """180,000 sensors at a point a second from two workers to three nodes for 20 s."""
    with SinkProcess(http=(0, 0, 0)) as sink:
        spec = _paced(sink, sensors=180_000, sensors_per_request=100, seconds=20, warmup_s=5)
        found = _run(spec)
    _same("points acknowledged", found.acknowledged, spec.sensors * spec.ticks)
    return Round(found.cpu_s / found.acknowledged * 1e6, _punctuality(spec, found))


def million() -> Round:
    """A million sensors at a point a second: the plan of a day, and 10 s as far as it goes."""
    with SinkProcess(http=(0, 0, 0)) as sink:
        spec = _paced(sink, sensors=_MILLION, sensors_per_request=1_000, seconds=10, warmup_s=2)
        planned = _plan_of_a_day(spec)
        found = _run(spec)
    if not found.acknowledged:
        raise BenchError("no point was acknowledged")
    seconds = max(spec.duration_s, found.wall_s)
    figures = {
        "points_per_s": found.acknowledged / seconds,
        "acknowledged_share": found.acknowledged / (spec.sensors * spec.ticks),
        **_punctuality(spec, found),
        **planned,
    }
    return Round(found.cpu_s / found.acknowledged * 1e6, figures)


@dataclasses.dataclass(frozen=True)
class _Found:
    """All workers of a load together; points, seconds, bytes, µs."""

    acknowledged: int
    sent: int
    cpu_s: float
    wall_s: float
    rss_bytes: int
    send_error_p99_us: float
    send_error_max_us: float
    stolen_s: float


def _run(spec: LoadSpec) -> _Found:
    stolen_before_s = _stolen_s()
    with tempfile.TemporaryDirectory(prefix="kairoscope-bench-") as folder:
        results = emulator.run(spec, Path(folder))
    stolen_s = _stolen_s() - stolen_before_s
    for result in results:
        if "died" in result:
            raise BenchError(f"loader worker {result['worker']} died: {result['died']}")

    def total(name: str) -> Any:
        return sum(result[name] for result in results)

    # From the start of the schedule: a paced worker is up, and waits, some time before.
    began_ms = min(result["started_ms"] for result in results)
    if not spec.replay:
        began_ms = max(began_ms, spec.start_ms)
    return _Found(
        acknowledged=total("acknowledged"),
        sent=total("sent"),
        cpu_s=total("cpu_s"),
        wall_s=(max(result["ended_ms"] for result in results) - began_ms) / 1000,
        rss_bytes=total("max_rss_bytes"),
        send_error_p99_us=max(result["send_error_us"]["p99"] for result in results),
        send_error_max_us=max(result["send_error_us"]["max"] for result in results),
        stolen_s=stolen_s,
    )


def _speed(found: _Found, points: int, sink_cpu_s: float) -> dict[str, float]:
    return {
        "points_per_cpu_s": points / found.cpu_s,
        "points_per_s": points / found.wall_s,
        # Close to 1 it would be the sink that was measured.
        "sink_cores": sink_cpu_s / found.wall_s,
    }


def _stolen_s() -> float:
    """CPU time that the hypervisor gave to others while this machine wanted it, since its start.

    On a shared host that is what lateness of some tens of milliseconds comes from.
    """
    return float(psutil.cpu_times().steal)


def _punctuality(spec: LoadSpec, found: _Found) -> dict[str, float]:
    return {
        "send_error_p99_ms": found.send_error_p99_us / 1000,
        "send_error_max_ms": found.send_error_max_us / 1000,
        "loader_cores": found.cpu_s / spec.duration_s,
        "loader_rss_mb": found.rss_bytes / 1e6,
        "stolen_cpu_s": found.stolen_s,
    }


def _same(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise BenchError(f"{what}: {found:,} instead of {expected:,}")


def _unpaced(sink: SinkProcess, *, protocol: str, sensors_per_request: int) -> LoadSpec:
    return _spec(
        sink,
        sensors=_SENSORS_2018,
        steps=[Step(period_ms=1_000, ticks=_TICKS)],
        start_ms=int(time.time() * 1000) - _TICKS * 1_000,
        protocol=protocol,
        sensors_per_request=sensors_per_request,
        replay=True,
    )


def _paced(
    sink: SinkProcess, *, sensors: int, sensors_per_request: int, seconds: int, warmup_s: int
) -> LoadSpec:
    return _spec(
        sink,
        sensors=sensors,
        steps=[Step(period_ms=1_000, ticks=seconds)],
        warmup_ticks=warmup_s,
        start_ms=int(time.time() * 1000) + emulator.START_MARGIN_MS,
        sensors_per_request=sensors_per_request,
        workers_per_host=2,
    )


def _spec(sink: SinkProcess, **changes: Any) -> LoadSpec:
    fields: dict[str, Any] = {
        "warmup_ticks": 0,
        "nodes": sink.urls,
        "telnet": sink.telnets[: len(sink.urls)],
        "metric": "SENSOR_{n}",
        "tags": {"status": "good"},
        "request_timeout_s": 30,
        "retry_for_s": 30,
        "latency_limit_ms": 1_000,
        "connections_per_node": 8,
    }
    return LoadSpec(**fields | changes)


def _plan_of_a_day(spec: LoadSpec) -> dict[str, float]:
    """The schedule of a whole day of the same sensors: exact counts, what it takes to make."""
    day = dataclasses.replace(spec, steps=[Step(period_ms=1_000, ticks=_DAY_S)])
    began = time.perf_counter()
    schedule = Schedule(day)
    build_s = time.perf_counter() - began
    _same("points planned for a day", schedule.points, spec.sensors * _DAY_S)
    groups = sum(len(schedule.groups(worker)) for worker in range(day.workers))
    tracemalloc.start()
    try:
        again = Schedule(day)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del again
    return {
        "day_points": schedule.points,
        "day_requests": groups * _DAY_S,
        "plan_s": build_s,
        "plan_mb": size / 1e6,
    }


_UNIT = "µs CPU a point"
_BASELINE = (
    "the way published in 2018, written anew: one Python process, a `put` line and a socket send "
    "for each point over one telnet connection, without its sleep"
)


def _bench(name: str, what: str, ours: Any, *limits: Limit, rounds: int = 5) -> Bench:
    return Bench(
        name=name,
        what=what,
        unit=_UNIT,
        sides=lambda: alone(ours, published_way),
        baseline_what=_BASELINE,
        limits=limits,
        rounds=rounds,
    )


_FIVE_TIMES = Limit("at least 5 times as cheap a point as the baseline", RATIO, at_least=5)

BENCHES = (
    _bench(
        "rest",
        "one loader worker over REST, as fast as it is acknowledged, every value new",
        rest,
        Limit(
            "at least 1,000,000 points a CPU second, 1,000 sensors a request",
            "points_per_cpu_s.1000_a_request",
            at_least=1e6,
        ),
        _FIVE_TIMES,
    ),
    _bench(
        "telnet",
        "one loader worker over telnet, as fast as the socket takes it, every value new",
        telnet,
        Limit("at least 2,000,000 points a CPU second", "points_per_cpu_s", at_least=2e6),
        _FIVE_TIMES,
    ),
    _bench(
        "pacing",
        "180,000 sensors × 1 point/s over REST from two workers, 100 sensors a request, 20 s",
        pacing,
        Limit("send-time error p99 at most 10 ms", "send_error_p99_ms", at_most=10),
        Limit("workers' CPU at most 40 % of a core", "loader_cores", at_most=0.4),
        Limit("workers' memory at most 300 MB", "loader_rss_mb", at_most=300),
    ),
    _bench(
        "million",
        "1,000,000 sensors × 1 point/s over REST from two workers, 1,000 sensors a request, 10 s",
        million,
        rounds=3,
    ),
)
