"""Points of followed sensors: a history of acknowledgements and reads, and what it says of each."""

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import loads
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_samples import NOW_S, run_of

from kairoscope.verdict import followed
from loaders.query import query_files
from loaders.record import files
from loaders.schedule import follow, shard
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Queries, Step

TICKS = 8
QUERIES = Queries(rate=1, last_s=10, lag_s=1, sensors=1, bucket_s=5, followed=1)


def spec_of(**changes: Any) -> LoadSpec:
    """One sensor, of which all points are followed."""
    fields = {"sensors": 1, "steps": [Step(1000, TICKS)], "warmup_ticks": 0, "queries": QUERIES}
    return loads.load_spec(**fields | changes)


def read(begun: float, ended: float, *missed: int, asked: tuple[int, int] = (0, TICKS)) -> Any:
    """A read of the only series that did not find some ticks."""
    series = {"series": 0, "ticks": list(asked), "absent": [[t, t + 1] for t in missed]}
    return {"begun": begun, "ended": ended, "node": 0, "series": [series]}


def unanswered(begun: float, ended: float) -> Any:
    return {"begun": begun, "ended": ended, "node": 0, "unanswered": "HTTP 500"}


def write(folder: Path, acknowledged: dict[int, float], reads: Iterable[Any]) -> None:
    """The files of a load of one group; `acknowledged`: when, by tick."""
    lines = [{"t": t, "group": 0, "tick": k, "ticks": 1} for k, t in acknowledged.items()]
    for path, records in (
        (files.followed_path(folder, 0), lines),
        (query_files.followed_path(folder, 0), reads),
    ):
        path.write_text("".join(json.dumps(record) + "\n" for record in records))


def seen(
    folder: Path, acknowledged: dict[int, float], *reads: Any, **changes: Any
) -> dict[str, Any]:
    write(folder, acknowledged, reads)
    found = followed.of_run(Schedule(spec_of(**changes)), folder)
    assert found is not None
    assert found["points"] == found["found"] + found["never_found"] + found["unread"]
    return found


def counted(found: dict[str, Any]) -> dict[str, int]:
    """The counts that are not 0."""
    names = ("points", "found", "stale", "never_found", "unread", "vanished", "found_again")
    return {name: found[name] for name in names if found[name]}


ONLY = [t for t in range(TICKS) if t != 3]
"""What is not there where only the fourth point is looked at."""


def test_a_point_is_visible_from_the_end_of_the_read_that_found_it(tmp_path: Path) -> None:
    found = seen(tmp_path, {3: 10.0}, read(10.5, 10.75, *ONLY), read(11.5, 11.7, *ONLY))
    assert counted(found) == {"points": 1, "found": 1}
    assert found["visible"]["count"] == 1
    assert found["visible"]["p99_ms"] == pytest.approx(750, rel=0.001)
    assert (found["every_s"], found["longest_apart_s"]) == (1.0, 1.0)


def test_one_that_was_found_before_its_acknowledgement_took_no_time(tmp_path: Path) -> None:
    found = seen(tmp_path, {3: 10.0}, read(9.5, 9.75, *ONLY))
    assert (counted(found), found["visible"]["max_ms"]) == ({"points": 1, "found": 1}, 0)


def test_one_that_comes_later_is_stale_and_has_not_vanished(tmp_path: Path) -> None:
    reads = (read(10.5, 10.7, 3, *ONLY), read(11.5, 11.7, 3, *ONLY), read(12.5, 13.0, *ONLY))
    found = seen(tmp_path, {3: 10.0}, *reads)
    assert counted(found) == {"points": 1, "found": 1, "stale": 1}
    assert found["visible"]["p50_ms"] == pytest.approx(3000, rel=0.001)


def test_a_read_that_began_before_the_acknowledgement_need_not_find_it(tmp_path: Path) -> None:
    found = seen(tmp_path, {3: 10.0}, read(9.9, 10.7, 3, *ONLY), read(10.8, 11.0, *ONLY))
    assert counted(found) == {"points": 1, "found": 1}


@pytest.mark.parametrize("again", [False, True])
def test_one_that_was_found_and_is_missed_has_vanished(tmp_path: Path, again: bool) -> None:
    reads = [read(10.5, 10.7, *ONLY), read(11.5, 11.7, 3, *ONLY), read(12.5, 12.7, 3, *ONLY)]
    reads += [read(13.5, 13.7, *ONLY)] if again else []
    found = seen(tmp_path, {3: 10.0}, *reads)
    expected = {"points": 1, "found": 1, "stale": 1, "vanished": 1}
    assert counted(found) == expected | ({"found_again": 1} if again else {})
    (point,) = found["vanished_points"]
    assert point == {
        "series": "SENSOR_0",
        "timestamp_ms": Schedule(spec_of()).timestamp_ms(0, 3),
        **{"acknowledged_t": 10.0, "found_t": 10.7, "missed_t": 11.5, "found_again": again},
    }
    text = followed.in_words(found)
    assert text.startswith("1 point that a query had found was not in a later answer")
    assert "SENSOR_0 at 1700000003000, found 00:00:10.700 and missed 00:00:11.500" in text


def test_one_that_is_missed_again_was_found_again_for_a_while_only(tmp_path: Path) -> None:
    reads = [read(t + 0.5, t + 0.7, *([3] if t % 2 else []), *ONLY) for t in (10, 11, 12, 13)]
    found = seen(tmp_path, {}, *reads)
    assert counted(found) == {"points": 1, "found": 1, "vanished": 1}


def test_a_read_beside_the_one_that_found_it_proves_nothing(tmp_path: Path) -> None:
    found = seen(tmp_path, {3: 10.0}, read(10.5, 10.7, *ONLY), read(10.6, 11.7, 3, *ONLY))
    assert counted(found) == {"points": 1, "found": 1, "stale": 1}


def test_a_read_without_an_answer_says_nothing(tmp_path: Path) -> None:
    found = seen(tmp_path, {3: 10.0}, read(10.5, 10.7, *ONLY), unanswered(11.5, 21.5))
    assert counted(found) == {"points": 1, "found": 1}
    assert (found["reads"], found["unanswered"]) == (2, 1)


def test_one_that_nobody_acknowledged_vanishes_too(tmp_path: Path) -> None:
    found = seen(tmp_path, {}, read(10.5, 10.7, *ONLY), read(11.5, 11.7, 3, *ONLY))
    assert counted(found) == {"points": 1, "found": 1, "vanished": 1}
    assert found["visible"]["count"] == 0
    assert found["vanished_points"][0]["acknowledged_t"] is None


def test_one_that_was_never_found_is_no_loss_here(tmp_path: Path) -> None:
    found = seen(tmp_path, {3: 10.0, 4: 12.0}, read(10.5, 10.7, 3, *ONLY))
    assert counted(found) == {"points": 2, "stale": 1, "never_found": 1, "unread": 1}
    assert followed.in_words(found) == ""


def test_what_no_longer_is_in_the_span_is_not_missed(tmp_path: Path) -> None:
    everything = read(10.5, 10.7)
    found = seen(
        tmp_path, dict.fromkeys(range(TICKS), 10.0), everything, read(11.5, 11.7, asked=(6, 8))
    )
    assert counted(found) == {"points": TICKS, "found": TICKS}


def test_the_warm_up_is_not_timed_and_may_yet_vanish(tmp_path: Path) -> None:
    reads = (read(10.5, 10.7), read(11.5, 11.7, 0, 1))
    found = seen(tmp_path, dict.fromkeys(range(TICKS), 10.0), *reads, warmup_ticks=2)
    assert (found["found"], found["visible"]["count"], found["vanished"]) == (8, 6, 2)


def test_what_lies_beyond_a_cut_was_never_due(tmp_path: Path) -> None:
    reads = (read(10.5, 10.7, 7), read(11.5, 11.7, 5, 6, 7))
    found = seen(tmp_path, dict.fromkeys(range(5), 10.0), *reads, steps=[Step(1000, 5)])
    assert counted(found) == {"points": 5, "found": 5}


def test_many_are_named_by_the_first_few(tmp_path: Path) -> None:
    everything = range(TICKS)
    reads = (read(10.5, 10.7), read(11.5, 11.7, *everything))
    text = followed.in_words(seen(tmp_path, dict.fromkeys(everything, 10.0), *reads))
    assert text.startswith("8 points that queries had found were not in a later answer (0 of them")
    assert text.endswith(", and 5 more")


def test_half_a_line_of_a_reader_that_was_killed_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {3: 10.0}, [read(10.5, 10.7, *ONLY), read(11.5, 11.7, 3, *ONLY)])
    path = query_files.followed_path(tmp_path, 0)
    path.write_text(path.read_text()[:-9])
    found = followed.of_run(Schedule(spec_of()), tmp_path)
    assert found
    assert counted(found) == {"points": 1, "found": 1}


def test_a_run_of_before_has_nothing_of_it(tmp_path: Path) -> None:
    assert followed.of_run(Schedule(spec_of()), tmp_path) is None


times = st.integers(0, 12).map(float)
histories = st.lists(
    st.tuples(times, st.floats(0.1, 5), st.sets(st.integers(0, TICKS - 1)), st.booleans()),
    max_size=8,
)


@given(st.dictionaries(st.integers(0, TICKS - 1), times), histories)
def test_every_point_is_what_its_own_history_says(
    acknowledged: dict[int, float], history: list[tuple[float, float, set[int], bool]]
) -> None:
    """Against each pair of reads of each point, looked at for itself."""
    history = sorted(history, key=lambda each: each[0] + each[1])
    with TemporaryDirectory() as folder:
        reads = [
            read(begun, begun + took, *missed) if answered else unanswered(begun, begun + took)
            for begun, took, missed, answered in history
        ]
        got = seen(Path(folder), acknowledged, *reads)
    expected = dict.fromkeys(counted(got) | dict.fromkeys(("found", "stale", "vanished")), 0)
    looks = [(begun, begun + took, missed) for begun, took, missed, answered in history if answered]
    for tick in range(TICKS):
        finding = [(b, e) for b, e, missed in looks if tick not in missed]
        missing = [b for b, e, missed in looks if tick in missed]
        expected["found"] += bool(finding)
        since = acknowledged.get(tick, float("inf"))
        expected["stale"] += any(since < b for b in missing)
        vanished = any(e < b for _, e in finding for b in missing)
        expected["vanished"] += vanished
        if not finding and tick in acknowledged:
            name = "never_found" if any(since < b for b in missing) else "unread"
            expected[name] = expected.get(name, 0) + 1
        if vanished and max(b for b, _ in finding) > max(missing):
            expected["found_again"] = expected.get("found_again", 0) + 1
    expected["points"] = len(
        {*acknowledged, *(t for t in range(TICKS) for _, _, missed in looks if t not in missed)}
    )
    assert counted(got) == {name: count for name, count in expected.items() if count}


@given(loads.load_specs(), st.integers(0, 12))
def test_each_host_follows_sensors_of_its_own_on_all_nodes(spec: LoadSpec, wanted: int) -> None:
    loads_queries = Queries(rate=1, last_s=10, lag_s=1, sensors=1, bucket_s=5, followed=wanted)
    fields = {**vars(spec), "replay": False, "replay_queue_points": 0, "queries": loads_queries}
    spec = LoadSpec(**fields)
    for host in range(spec.hosts):
        workers = shard.host_workers(spec.hosts, spec.workers_per_host, host)
        own = [
            sensor
            for worker in workers
            for sensor in shard.worker_range(spec.sensors, spec.workers, worker)
        ]
        places = follow.places(spec, host)
        assert len(places) == min(wanted, len(own))
        assert set(places) <= set(own)
        assert places == sorted(set(places))
        nodes = {place % len(spec.nodes) for place in places}
        assert len(nodes) == min(len(places), len(spec.nodes))


def test_without_queries_nothing_is_followed() -> None:
    assert follow.places(spec_of(queries=None), 0) == []
    old = json.loads(spec_of().to_json())
    del old["queries"]["followed"]
    assert follow.places(LoadSpec.from_json(json.dumps(old)), 0) == []


def test_a_run_in_which_a_point_vanished_fails_whatever_was_read_back(tmp_path: Path) -> None:
    run = run_of(tmp_path, queries={"rate": 1.0, "last_s": 10, "bucket_s": 5, "followed": 1})
    run.read_back()
    load = tmp_path / "load"
    spec = run.schedule.spec
    kind = {"sent": 5, "not_sent": 0, "right": 5, "late": 0, "wrong": 0, "failed": 0}
    final = {**kind, "kinds": {"raw": kind}, "points_checked": 500, "points_late": 0}
    final |= {"errors": {}, "first_errors": [], "stopped_early": False}
    for host in range(spec.hosts):
        (load / f"queries-{host}.json").write_text(json.dumps(final))
    write(load, {tick: NOW_S + tick for tick in range(20)}, [read(NOW_S + 25, NOW_S + 25.5)])
    judged = run.judge()
    assert judged.verdict == "pass", judged.reasons
    assert run.json("queries.json")["followed"]["found"] == TICKS
    assert run.json("verdict.json")["followed"] == {
        **{"count": 3, "p50_ms": pytest.approx(19_500, rel=0.01)},
        **{"p99_ms": pytest.approx(20_500, rel=0.01), "max_ms": pytest.approx(20_500, rel=0.01)},
        **{"every_s": None, "points": 20, "vanished": 0, "found_again": 0},
    }
    later = [
        read(NOW_S + 25, NOW_S + 25.5),
        read(NOW_S + 26, NOW_S + 26.5, 4),
        read(NOW_S + 27, NOW_S + 28),
    ]
    write(load, {tick: NOW_S + tick for tick in range(20)}, later)
    judged = run.judge()
    assert judged.verdict == "fail"
    assert judged.reasons[0].startswith(
        "readback: 400 of 400 acknowledged points read back; 1 point that a query had found was "
        "not in a later answer (1 of them found again): SENSOR_0 at "
    )
    assert run.json("verdict.json")["followed"]["vanished"] == 1


def test_a_read_with_wrong_values_fails_the_readback_as_any_other_query(tmp_path: Path) -> None:
    found = seen(tmp_path, {3: 10.0}, read(10.5, 10.7, *ONLY) | {"wrong": 2, "first_wrong": []})
    assert found["wrong"] == 1
