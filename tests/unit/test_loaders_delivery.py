"""The open loop against a server that misbehaves. Times are lower bounds or very generous."""

import asyncio
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sink import Sink

from loaders import emulator, files, histograms, schedule
from loaders.spec import LoadSpec
from loaders.values import values
from loaders.worker import Worker, main

pytestmark = [pytest.mark.unit, pytest.mark.timeout(60)]

PERIOD_MS = 100
TICKS = 10
ROOT = Path(__file__).resolve().parents[2]


def make(sink_or_url: Sink | str, *, start_in_ms: int = 100, **changes: Any) -> LoadSpec:
    url = sink_or_url if isinstance(sink_or_url, str) else sink_or_url.url
    fields: dict[str, Any] = {
        "sensors": 20,
        "period_ms": PERIOD_MS,
        "ticks": TICKS,
        "warmup_ticks": 2,
        "start_ms": int(time.time() * 1000) + start_in_ms,
        "nodes": [url],
        "workers": 1,
        "metric": "SENSOR_{n}",
        "tags": {"status": "good"},
        "sensors_per_request": 5,
        "request_timeout_s": 10,
        "retry_for_s": 10,
        "latency_limit_ms": 500,
        "connections_per_node": 4,
    }
    return LoadSpec(**fields | changes)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(spec: LoadSpec, outdir: Path, result: dict[str, Any]) -> None:
    """What must hold at the end of any worker, whatever happened."""
    worker = result["worker"]
    assert json.loads(files.result_path(outdir, worker).read_text()) == result
    own = sum(len(group.sensors) for group in schedule.groups(spec, worker))
    assert result["scheduled"] == own * spec.ticks
    assert result["scheduled"] == result["sent"] + result["not_sent"]
    assert result["sent"] == result["acknowledged"] + result["rejected"] + result["unknown"]
    assert result["acknowledged_in_time"] <= result["acknowledged"]
    # The file of outcomes names every request that was not acknowledged, once.
    outcomes = lines(files.outcomes_path(outdir, worker))
    assert len({(row["group"], row["tick"]) for row in outcomes}) == len(outcomes)
    sizes = [len(group.sensors) for group in schedule.groups(spec, worker)]
    counts: Counter[str] = Counter()
    for row in outcomes:
        assert row["reason"]
        assert row["points"] == sizes[row["group"]]
        assert 0 <= row["tick"] < spec.ticks
        counts[row["outcome"]] += row["points"]
    for outcome in ("rejected", "unknown", "not_sent"):
        assert counts[outcome] == result[outcome]
    # The records of progress lead to the same figures.
    records = lines(files.progress_path(outdir, worker))
    for before, after in itertools.pairwise(records):
        for name in ("due", "sent", "acknowledged", "rejected", "unknown"):
            assert before[name] <= after[name]
    for name in ("sent", "acknowledged", "rejected", "unknown", "not_sent"):
        assert records[-1][name] == result[name]
    assert records[-1]["in_flight"] == 0
    assert sum(record["count"] for record in records) == result["acknowledged"]


def expected_points(spec: LoadSpec) -> set[tuple[str, int, int]]:
    return {
        (spec.metric_name(sensor), timestamp, value)
        for sensor in range(spec.sensors)
        for times in [schedule.timestamps_ms(spec, sensor)]
        for timestamp, value in zip(times.tolist(), values(sensor, times).tolist(), strict=True)
    }


def received(sink: Sink) -> Counter[tuple[str, int, int]]:
    return Counter((point["name"], point["timestamp"], point["value"]) for point in sink.points)


async def work(
    spec: LoadSpec, outdir: Path, trouble: Callable[[], Awaitable[None]] | None = None
) -> dict[str, Any]:
    """Run one worker in this process, with `trouble` beside it."""
    worker = Worker(spec, 0, outdir)
    beside = asyncio.create_task(trouble()) if trouble else None  # type: ignore[arg-type]
    result = await worker.run()
    if beside:
        await beside
    check(spec, outdir, result)
    return result


def measured(outdir: Path, *, warmup: bool = False) -> Any:
    return histograms.merged([files.histogram_path(outdir, 0)], warmup=warmup)


def at_least(histogram: Any, latency_us: float) -> int:
    """Number of points whose latency was certainly not below `latency_us`."""
    indexes = np.flatnonzero(np.array(histogram.counts))
    return sum(
        histogram.counts[int(i)]
        for i in indexes
        if histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(i)))
        >= latency_us
    )


# A server that behaves


async def test_all_points_arrive_exactly_once(tmp_path: Path) -> None:
    async with Sink() as one, Sink() as two:
        spec = make(one, nodes=[one.url, two.url], sensors=23)
        result = await work(spec, tmp_path)
        assert received(one) + received(two) == Counter(expected_points(spec))
        for node, sink in enumerate((one, two)):
            assert {int(point["name"][7:]) % 2 for point in sink.points} == {node}
            assert all(point["tags"] == {"status": "good"} for point in sink.points)
        # No request left before it was due.
        assert min(one.arrivals) >= spec.start_ms / 1000
    assert result["acknowledged"] == result["scheduled"] == spec.points
    assert result["errors"] == {}
    assert result["first_errors"] == []
    assert not result["stopped_early"]
    assert measured(tmp_path).get_total_count() == 23 * (TICKS - 2)
    assert measured(tmp_path, warmup=True).get_total_count() == 23 * 2
    assert result["send_error_us"]["count"] == 23 * (TICKS - 2)
    assert result["max_rss_bytes"] > 1_000_000


async def test_a_start_in_the_past_is_lateness(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, start_in_ms=-3000, warmup_ticks=0)
        result = await work(spec, tmp_path)
        assert received(sink) == Counter(expected_points(spec))
    # The last tick was due 2 seconds before the worker began.
    assert result["send_error_us"]["p50"] >= 2_000_000
    assert result["send_error_us"]["max"] >= 3_000_000 - PERIOD_MS * 1000
    assert measured(tmp_path).get_value_at_percentile(1) >= 2_000_000


async def test_too_late_to_be_sent(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, start_in_ms=-5000, retry_for_s=1, request_timeout_s=1)
        result = await work(spec, tmp_path)
        assert sink.requests == 0
    assert result["not_sent"] == result["scheduled"]


async def test_a_worker_without_sensors(tmp_path: Path) -> None:
    spec = make("http://127.0.0.1:9", sensors=1, workers=3)
    assert (await work(spec, tmp_path))["scheduled"] == 0


# Stalls


async def test_a_stall_shows_in_full(tmp_path: Path) -> None:
    """What a closed-loop tool hides: every point that was due in the stall waited for its end."""
    stalled_ms = resumed_ms = 0.0
    async with Sink() as sink:
        # Fewer connections than requests in the stall: most cannot even be sent in it.
        spec = make(sink, ticks=16, warmup_ticks=0, connections_per_node=2)

        async def stall() -> None:
            nonlocal stalled_ms, resumed_ms
            await asyncio.sleep(spec.start_ms / 1000 + 0.3 - time.time())
            sink.stall()
            stalled_ms = time.time() * 1000
            await asyncio.sleep(1)
            resumed_ms = time.time() * 1000
            sink.resume()

        result = await work(spec, tmp_path, stall)
        assert received(sink) == Counter(expected_points(spec))
    assert result["acknowledged"] == result["scheduled"]
    histogram = measured(tmp_path)
    planned = [
        schedule.planned_ms(spec, group, tick)
        for tick in range(spec.ticks)
        for group in schedule.groups(spec, 0)
    ]
    for latency_ms in (100, 500, 800):
        # Whatever was due since the stall began was not answered before it ended.
        waited = [at for at in planned if stalled_ms + 2 <= at <= resumed_ms - latency_ms]
        assert at_least(histogram, (latency_ms - 2) * 1000) >= 5 * len(waited) > 0
    phase_step_ms = PERIOD_MS / 4
    assert histogram.get_max_value() >= (resumed_ms - stalled_ms - phase_step_ms - 2) * 1000
    # The load was not held up: the loop went on starting requests through the stall.
    assert histogram.get_total_count() == spec.points


async def test_an_outage_is_ridden_out(tmp_path: Path) -> None:
    outage_ms = 0.0
    async with Sink() as sink:
        spec = make(sink)

        async def outage() -> None:
            nonlocal outage_ms
            await asyncio.sleep(spec.start_ms / 1000 + 0.3 - time.time())
            await sink.refuse()
            began = time.time()
            await asyncio.sleep(0.7)
            outage_ms = (time.time() - began) * 1000
            await sink.listen()

        result = await work(spec, tmp_path, outage)
        assert set(received(sink)) == expected_points(spec)
    assert result["acknowledged"] == result["scheduled"]
    assert result["errors"]["refused"] >= 1
    assert result["retries"] >= 1
    assert measured(tmp_path).get_max_value() >= (outage_ms - PERIOD_MS / 4 - 2) * 1000
    assert result["first_errors"]


# Refusals and failures


async def test_client_error_is_final_and_keeps_the_body(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.status, sink.body = 400, '{"errors":["value:\nnot a number"]}'
        spec = make(sink, ticks=3)
        result = await work(spec, tmp_path)
        assert sink.requests == 12
    assert result["rejected"] == result["sent"] == result["scheduled"]
    assert result["retries"] == 0
    assert result["errors"] == {"http_400": 12}
    assert len(result["first_errors"]) == 10
    assert result["first_errors"][0] == 'HTTP 400: {"errors":["value: not a number"]}'
    reasons = {row["reason"] for row in lines(files.outcomes_path(tmp_path, 0))}
    assert reasons == {result["first_errors"][0]}
    # A quick refusal is not a fast acknowledgement.
    assert measured(tmp_path).get_total_count() == 0


@pytest.mark.parametrize("status", [500, 200])
async def test_server_error_for_ever_is_unknown(tmp_path: Path, status: int) -> None:
    async with Sink() as sink:
        sink.status, sink.body = status, "no"
        spec = make(sink, ticks=3, retry_for_s=0.3)
        result = await work(spec, tmp_path)
        assert sink.requests == 12 + result["retries"]
    assert result["unknown"] == result["scheduled"]
    assert result["retries"] >= 1
    assert set(result["errors"]) == {f"http_{status}"}
    # Given up after retry_for_s: that is the least their latency can be.
    assert measured(tmp_path).get_value_at_percentile(1) >= 299_000


async def test_refused_for_ever_is_not_sent(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, ticks=3, retry_for_s=0.3, request_timeout_s=0.3)
        await sink.refuse()
        result = await work(spec, tmp_path)
    assert result["not_sent"] == result["scheduled"]
    assert result["sent"] == 0
    assert set(result["errors"]) == {"refused"}
    assert measured(tmp_path).get_total_count() == 20
    assert measured(tmp_path).get_value_at_percentile(1) >= 299_000


async def test_no_name_is_not_sent(tmp_path: Path) -> None:
    spec = make("http://nowhere.invalid:8080", ticks=2, warmup_ticks=0, retry_for_s=0)
    result = await work(spec, tmp_path)
    assert result["not_sent"] == result["scheduled"]


async def test_timeout_is_unknown(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.stall()
        spec = make(sink, ticks=3, retry_for_s=0, request_timeout_s=0.5, connections_per_node=100)
        result = await work(spec, tmp_path)
    assert result["unknown"] == result["scheduled"]
    assert result["errors"] == {"timeout": 12}


async def test_reset_is_unknown(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.reset = True
        spec = make(sink, ticks=3, retry_for_s=0.2)
        result = await work(spec, tmp_path)
    assert result["unknown"] == result["scheduled"]
    assert set(result["errors"]) == {"reset"}


async def test_waiting_for_a_connection_for_ever_is_not_sent(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.stall()
        spec = make(sink, ticks=3, retry_for_s=0, request_timeout_s=0.4, connections_per_node=1)
        result = await work(spec, tmp_path)
    assert result["unknown"] > 0
    assert result["not_sent"] > 0
    assert result["unknown"] + result["not_sent"] == result["scheduled"]


async def test_late_acknowledgement_is_not_in_time(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, ticks=3, latency_limit_ms=1)

        async def stall() -> None:
            sink.stall()
            await asyncio.sleep(0.8)
            sink.resume()

        result = await work(spec, tmp_path, stall)
    assert result["acknowledged"] == result["scheduled"]
    assert result["acknowledged_in_time"] == 0


async def test_stop_settles_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaders.worker._GRACE_S", 0.2)
    async with Sink() as sink:
        spec = make(sink, ticks=10_000)
        worker = Worker(spec, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0.6)
        sink.stall()  # nothing more is answered: in-flight requests end as unknown
        await asyncio.sleep(0.3)
        worker.stop()
        worker.stop()
        result = await running
        check(spec, tmp_path, result)
    assert result["stopped_early"]
    assert result["acknowledged"] > 0
    assert result["unknown"] > 0
    assert result["not_sent"] > result["scheduled"] * 0.9
    assert {row["reason"] for row in lines(files.outcomes_path(tmp_path, 0))} == {"stopped"}


# Processes


@pytest.fixture
def served() -> Iterator[Sink]:
    """A sink in a thread of its own, for tests that block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    sink = Sink()
    asyncio.run_coroutine_threadsafe(sink.__aenter__(), loop).result(10)
    yield sink
    asyncio.run_coroutine_threadsafe(sink.__aexit__(None, None, None), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def pids_of(outdir: Path) -> dict[int, int]:
    """Process ids of the workers that write to `outdir`, by worker."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if "loaders.worker" in words and str(outdir) in words:
            found[int(words[words.index(str(outdir)) - 1])] = int(folder.name)
    return found


def test_workers_together(served: Sink, tmp_path: Path) -> None:
    outdir = tmp_path / "new" / "load"
    spec = make(served, start_in_ms=700, workers=3, sensors=25)
    seen: list[emulator.Progress] = []
    results = emulator.run(spec, outdir, seen.append)
    for result in results:
        check(spec, outdir, result)
    assert [result["worker"] for result in results] == [0, 1, 2]
    assert sum(result["acknowledged"] for result in results) == spec.points
    assert received(served) == Counter(expected_points(spec))
    assert LoadSpec.from_json((outdir / "spec.json").read_text()) == spec
    last = seen[-1]
    assert (last.due, last.sent, last.acknowledged) == (spec.points,) * 3
    assert last.duration_s == 1.0
    assert pids_of(outdir) == {}
    paths = [files.histogram_path(outdir, worker) for worker in range(3)]
    assert sum(row["count"] for row in histograms.intervals(paths)) == spec.points
    assert sum(row["warmup_count"] for row in histograms.intervals(paths)) == 25 * 2


def test_a_killed_worker_is_reported_and_others_finish(served: Sink, tmp_path: Path) -> None:
    spec = make(served, start_in_ms=500, workers=2, ticks=15)

    served.stall()  # so that no worker can be done before one is killed

    def kill_one() -> None:
        while not served.requests:
            time.sleep(0.01)
        os.kill(pids_of(tmp_path)[0], signal.SIGKILL)
        served.resume()

    killer = threading.Thread(target=kill_one)
    killer.start()
    dead, alive = emulator.run(spec, tmp_path)
    killer.join()
    assert dead["worker"] == 0
    assert dead["died"] == "signal 9 (SIGKILL)"
    assert dead["last"] is None or dead["last"]["worker"] == 0
    check(spec, tmp_path, alive)
    assert alive["acknowledged"] == alive["scheduled"]
    assert not alive["stopped_early"]


@pytest.mark.parametrize("how", ["sigint", "exception"])
def test_stopped_in_mid_run(served: Sink, tmp_path: Path, how: str) -> None:
    spec = make(served, start_in_ms=300, workers=2, ticks=1000)
    sent: set[int] = set()

    def end(progress: emulator.Progress) -> None:
        if not progress.acknowledged:
            return
        if how == "exception":
            raise KeyboardInterrupt
        # As Ctrl-C in a terminal does, which goes to the workers too.
        for pid in set(pids_of(tmp_path).values()) - sent:
            sent.add(pid)
            os.kill(pid, signal.SIGINT)

    if how == "exception":
        with pytest.raises(KeyboardInterrupt):
            emulator.run(spec, tmp_path, end)
        results = [json.loads(files.result_path(tmp_path, w).read_text()) for w in range(2)]
    else:
        results = emulator.run(spec, tmp_path, end)
    assert pids_of(tmp_path) == {}
    for result in results:
        check(spec, tmp_path, result)
        assert result["stopped_early"]
    assert sum(result["acknowledged"] for result in results) > 0


def test_stopped_before_python_is_up(tmp_path: Path) -> None:
    """Ctrl-C right after the start must not cost a worker its report."""
    spec = make("http://127.0.0.1:9", workers=2, start_in_ms=60_000)
    stop = threading.Event()
    stop.set()
    for result in emulator.run(spec, tmp_path, stop=stop):
        check(spec, tmp_path, result)
        assert result["stopped_early"]
        assert result["not_sent"] == result["scheduled"]


def test_a_worker_ends_when_its_parent_dies(tmp_path: Path) -> None:
    spec = make("http://127.0.0.1:9", start_in_ms=600_000)
    spec_path = tmp_path / "in.json"
    spec_path.write_text(spec.to_json())
    program = (
        "import sys; from pathlib import Path; from loaders import emulator;"
        "from loaders.spec import LoadSpec;"
        "emulator.run(LoadSpec.from_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, spec_path, tmp_path], cwd=ROOT)
    deadline = time.monotonic() + 20
    while not files.progress_path(tmp_path, 0).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while not files.result_path(tmp_path, 0).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    check(spec, tmp_path, json.loads(files.result_path(tmp_path, 0).read_text()))
    while pids_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert pids_of(tmp_path) == {}


def worker_process(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loaders.worker", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("name", ["jsonl", "hlog", "outcomes.jsonl"])
def test_a_full_disk_ends_the_worker_with_one_line(served: Sink, tmp_path: Path, name: str) -> None:
    served.status = 400
    spec = make(served, start_in_ms=400, ticks=1000)
    (tmp_path / "spec.json").write_text(spec.to_json())
    full = tmp_path / f"worker-0.{name}"
    full.symlink_to("/dev/full")
    done = worker_process(tmp_path / "spec.json", 0, tmp_path)
    assert done.returncode == 3
    assert done.stderr == f"worker 0: cannot write {full}: No space left on device\n"
    assert not files.result_path(tmp_path, 0).exists()


def test_the_emulator_says_why_a_worker_died(served: Sink, tmp_path: Path) -> None:
    served.status, served.body = 400, "a long reason " * 30
    spec = make(served, start_in_ms=300, workers=2, ticks=30)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Large enough for the spec, too small for the outcomes.
    resource.setrlimit(resource.RLIMIT_FSIZE, (450, before[1]))
    try:
        results = emulator.run(spec, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for result in results:
        assert result["died"].startswith(f"exit status 3: worker {result['worker']}: cannot write")
        assert result["died"].endswith("File too large")


@pytest.mark.parametrize(
    ("text", "index", "message"),
    [
        ("{}", "0", "sensors: missing"),
        (None, "0", "No such file"),
        (make("http://127.0.0.1:9").to_json(), "1", "worker: must be"),
        ("{}", "x", "usage:"),
    ],
)
def test_bad_arguments(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    index: str,
    message: str,
) -> None:
    path = tmp_path / "spec.json"
    if text is not None:
        path.write_text(text)
    assert main([str(path), index, str(tmp_path)]) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
