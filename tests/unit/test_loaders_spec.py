"""The specification of a load: what it refuses, and in which words; names made from patterns."""

import dataclasses
import json
import math
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from loads import START_MS, STORE, load_spec, load_specs

from loaders.schedule import naming
from loaders.schedule.spec import LATER, LoadSpec, Queries, Step

GOOD: dict[str, Any] = json.loads(load_spec().to_json())
STORED: dict[str, Any] = dataclasses.asdict(STORE)
QUERIES = {"rate": 2.5, "last_s": 60, "lag_s": 5, "sensors": 10, "bucket_s": 10}


@given(load_specs(), st.none() | st.just(Queries(**QUERIES)))  # type: ignore[arg-type]
def test_spec_survives_json(spec: LoadSpec, queries: Queries | None) -> None:
    if queries and not spec.replay:
        spec = dataclasses.replace(spec, queries=queries)
    text = spec.to_json()
    assert LoadSpec.from_json(text) == spec
    # One field a line, for people.
    assert len(text.splitlines()) > len(GOOD)


@pytest.mark.parametrize("as_float", [True, False])
def test_spec_numbers_may_be_whole(as_float: bool) -> None:
    kind = float if as_float else int
    spec = load_spec(retry_for_s=kind(0), request_timeout_s=kind(1), failover_after_s=kind(2))
    assert LoadSpec.from_json(spec.to_json()) == spec


def test_what_follows_from_the_fields() -> None:
    spec = load_spec(
        steps=[Step(period_ms=1000, ticks=20), Step(period_ms=250, ticks=7)],
        hosts=3,
        workers_per_host=2,
        metric="M{n%3}",
        tags={"sensor": "S-{n}", "site": "é{n%10}"},
    )
    assert spec.ticks == 27
    assert spec.duration_ms == 21_750
    assert spec.duration_s == 21.75
    assert spec.end_ms == START_MS + 21_750
    assert spec.workers == 6
    assert spec.metric_name(14) == "M2"
    assert spec.tags_of(14) == {"sensor": "S-14", "site": "é4"}
    assert spec.acknowledges
    assert load_spec(protocol="rest-gzip").acknowledges
    for protocol in ("telnet-put", "telnet-putm"):
        assert not load_spec(protocol=protocol, telnet=["a:1"]).acknowledges


# Bad values

COUNT = [0, -1, 1.5, "3", True, None, 2**60]
NOT_NEGATIVE = [-1, 1.5, "3", True, None, 2**60]
NUMBER = [-1, "3", True, None, math.nan, math.inf]
BAD: dict[str, list[Any]] = {
    "sensors": COUNT,
    "steps": [
        [],
        None,
        {},
        [{"period_ms": 0, "ticks": 20}],
        [{"period_ms": 1000, "ticks": 0}],
        [{"period_ms": 1.5, "ticks": 20}],
        [{"period_ms": 1000, "ticks": True}],
        [{"period_ms": 1000, "ticks": 20}, {"period_ms": 1000, "ticks": "20"}],
        ["1000"],
        [{"period_ms": 1000, "ticks": 2**52}],
    ],
    "warmup_ticks": [*NOT_NEGATIVE, 20, 21],
    "ramp_ticks": [*NOT_NEGATIVE, 20, 21],
    "lifetime_ticks": NOT_NEGATIVE,
    "start_ms": [*NOT_NEGATIVE, 0, 10**12 - 1, 10**13],
    "pacing": ["", "even", None, 7, []],
    "jitter_ms": [*NOT_NEGATIVE, 1001],
    "seed": NOT_NEGATIVE,
    "replay": [0, 1, None, "true"],
    "replay_queue_points": NOT_NEGATIVE,
    "nodes": [
        [],
        "http://127.0.0.1:8080",
        None,
        ["127.0.0.1:8080"],
        ["ftp://127.0.0.1"],
        ["http://"],
        ["http://a:port"],
        ["http://a:99999"],
        ["http://a:0"],
        ["http://a/api"],
        ["http://a?x=1"],
        ["http://me:secret@a"],
        [7],
        [["http://a"]],
        ["http://a:1", "http://a:1"],
    ],
    "telnet": [
        None,
        "127.0.0.1:4242",
        ["127.0.0.1"],
        [":4242"],
        ["a:0"],
        ["a:65536"],
        ["a:x"],
        ["a:²"],
        ["a:-1"],
        [7],
        [None],
        ["a:1", "a:1"],
    ],
    "protocol": ["", "REST", "telnet", None, 7],
    "hosts": COUNT,
    "workers_per_host": COUNT,
    "metric": [
        "",
        "SENSOR",
        None,
        7,
        "SENSOR_{}",
        "SENSOR_{n",
        "SENSOR_n}",
        "{n%0}{n}",
        "{n%01}-{n}",
        "{n %2}-{n}",
        "{n%-2}-{n}",
        "{m}-{n}",
        "{{n}}",
        "{n%5}",
        "{n%13}{n}",
        "{n}{n}",
        "{n%13}0{n}",
    ],
    "tags": [
        {},
        None,
        [],
        {"a": ""},
        {"": "a"},
        {"a": 1},
        {"a": "{m}"},
        {"a": "{n}{n%2}"},
        {"{n}": "a"},
        {"}": "a"},
    ],
    "value_type": ["", "LONG", "int", None, 7],
    "sensors_per_request": COUNT,
    "points_per_request": COUNT,
    "request_timeout_s": [0, *NUMBER],
    "retry_for_s": NUMBER,
    "failover_after_s": [0, *NUMBER],
    "latency_limit_ms": [0, *NUMBER],
    "connections_per_node": COUNT,
    # Of REST, as the good one is.
    "connection_per_request": [True, 1, None, "no"],
    "partly": [None, 7, ["a"]],
    "path": [None, "write", "/a b", "/a\r\nX: y", 7, False],
    "queries": [
        7,
        [],
        *(QUERIES | {"rate": bad} for bad in (0, -1, "3", None, math.nan)),
        *(QUERIES | {"last_s": bad} for bad in (0, -1, 1.5, "3", 65)),
        *(QUERIES | {"bucket_s": bad} for bad in (0, -1, 1.5, 7)),
        *(QUERIES | {"sensors": bad} for bad in (0, -1, 1.5)),
        *(QUERIES | {"lag_s": bad} for bad in (-1, 1.5, None)),
        *(QUERIES | {"followed": bad} for bad in (-1, 1.5, None, True)),
    ],
    "store": [
        7,
        STORED,  # and the protocol goes to the nodes
        *(STORED | {"contacts": bad} for bad in ([], ["127.0.0.1"], "127.0.0.1:9042")),
        *(STORED | {name: ""} for name in ("keyspace", "consistency")),
        *(STORED | {"ttl_s": bad} for bad in (-1, 1.5, None)),
        *(STORED | {"batch_points": bad} for bad in (0, "3", True)),
    ],
}


def test_every_field_has_bad_values() -> None:
    assert set(BAD) == {field.name for field in dataclasses.fields(LoadSpec)} == set(GOOD)


@pytest.mark.parametrize(("name", "value"), [(name, bad) for name in BAD for bad in BAD[name]])
def test_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        LoadSpec.from_json(json.dumps(GOOD | {name: value}))


@pytest.mark.parametrize("name", [name for name in GOOD if name not in LATER])
def test_missing_field_is_refused_by_name(name: str) -> None:
    rest_of_it = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(ValueError, match=f"^{name}: missing"):
        LoadSpec.from_json(json.dumps(rest_of_it))


def test_unknown_field_is_refused_by_name() -> None:
    for spec in (
        GOOD | {"sensor": 1},
        GOOD | {"steps": [{"period_ms": 1000, "ticks": 20, "sensor": 1}]},
        GOOD | {"queries": QUERIES | {"sensor": 1}},
    ):
        with pytest.raises(ValueError, match=r"^sensor: unknown field of a "):
            LoadSpec.from_json(json.dumps(spec))


@pytest.mark.parametrize("name", ["period_ms", "ticks"])
def test_a_step_must_be_whole(name: str) -> None:
    step = {key: value for key, value in GOOD["steps"][0].items() if key != name}
    with pytest.raises(ValueError, match=f"^{name}: missing from the Step"):
        LoadSpec.from_json(json.dumps(GOOD | {"steps": [step]}))


@pytest.mark.parametrize("text", ["", "[]", "{", "7"])
def test_not_a_spec(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        LoadSpec.from_json(text)


def test_a_load_past_kairosdb_needs_its_store() -> None:
    assert load_spec(protocol="cql", store=STORE).acknowledges
    with pytest.raises(ValueError, match=r"^store: cql needs it"):
        load_spec(protocol="cql")
    with pytest.raises(ValueError, match=r"^store: rest does not go there"):
        load_spec(store=STORE)


TELNET = {"protocol": "telnet-put", "telnet": ["10.0.0.1:4242"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup_ticks": 20}, "warmup_ticks: must be less than ticks (20), not 20"),
        ({"ramp_ticks": 25}, "ramp_ticks: must be less than ticks (20), not 25"),
        (
            {"start_ms": 10**13 - 20_000},
            "steps: the schedule would end beyond any date (20 points from 9999999980000)",
        ),
        (
            {"lifetime_ticks": 10, "points_per_request": 4},
            "lifetime_ticks: must be a multiple of points_per_request (4), not 10",
        ),
        (
            {"metric": "S{n%7}", "tags": {"a": "b"}},
            'metric: the metric or a tag must have "{n}" in it, or all sensors would be one series',
        ),
        (
            {"protocol": "telnet-putm"},
            "telnet: telnet-putm needs an address for each of the 1 nodes, not 0",
        ),
        (
            TELNET | {"telnet": ["a:1", "a:2"]},
            "telnet: telnet-put needs an address for each of the 1 nodes, not 2",
        ),
        *(
            (
                TELNET | names,
                "tags: over telnet-put metric and tags may only have visible ASCII characters, "
                'and neither "=" nor quotes',
            )
            for names in (
                {"metric": "S {n}"},
                {"metric": "S\x00{n}"},
                {"metric": '"{n}"'},
                {"metric": "é{n}"},
                {"tags": {"a b": "c"}},
                {"tags": {"a": "b\n"}},
                {"tags": {"a": "b=c"}},
                {"tags": {"a=b": "c"}},
            )
        ),
        ({"replay": True, "jitter_ms": 5}, "replay: history has neither jitter nor queries "),
        (
            {"replay": True, "queries": Queries(**QUERIES)},  # type: ignore[arg-type]
            "replay: history has neither jitter nor queries beside it",
        ),
        (
            {"steps": [Step(1000, 20), Step(200, 20)], "jitter_ms": 201},
            "jitter_ms: must be at most the period (200), not 201",
        ),
    ],
)
def test_what_is_wrong_between_fields(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        load_spec(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"warmup_ticks": 19},
        {"ramp_ticks": 19},
        {"start_ms": 10**13 - 20_001},
        {"lifetime_ticks": 8, "points_per_request": 4},
        {"metric": "S{n%7}", "tags": {"a": "x{n}"}},
        {"metric": "100%_'{n}'_é d", "tags": {"a=b": 'c "d" \\ \n', "n": "n%2"}},
        {"metric": "{n%13}-{n}-{n}"},
        TELNET | {"metric": "S_{n}.a/b-c", "tags": {"a:b": "c,{n%3}"}},
        {"telnet": ["[::1]:4242"], "nodes": ["http://[::1]:8080/"]},
        {"replay": True},
        {"jitter_ms": 1000},
    ],
)
def test_what_is_just_right(changes: dict[str, Any]) -> None:
    spec = load_spec(**changes)
    assert LoadSpec.from_json(spec.to_json()) == spec


# Names

literals = st.text(st.characters(exclude_characters="{}"), max_size=5)
places = st.one_of(st.just(None), st.integers(1, 1000))


@given(st.lists(st.tuples(literals, places), max_size=4), literals, st.integers(0, 10**9))
def test_expand_fills_in_each_place(
    parts: list[tuple[str, int | None]], end: str, number: int
) -> None:
    pattern = expected = ""
    for literal, modulus in parts:
        pattern += literal + ("{n}" if modulus is None else f"{{n%{modulus}}}")
        expected += literal + str(number if modulus is None else number % modulus)
    assert naming.problem(pattern + end) == ""
    assert naming.expand(pattern + end, number) == expected + end
    assert naming.tells_apart(["x", pattern]) == any(modulus is None for _, modulus in parts)


@given(st.text(alphabet="{}n%0123456789-", max_size=12))
def test_a_pattern_without_a_problem_has_no_brace_left(pattern: str) -> None:
    left = naming.expand(pattern, 7)
    assert (naming.problem(pattern) == "") == ("{" not in left and "}" not in left)


@given(
    st.lists(st.tuples(st.sampled_from(["", "-", "a", "1", "_7"]), places), min_size=1, max_size=3),
    st.integers(1, 300),
)
def test_cardinality_is_an_upper_bound_and_exact_for_one_place(
    parts: list[tuple[str, int | None]], series: int
) -> None:
    pattern = "".join(
        literal + ("{n}" if modulus is None else f"{{n%{modulus}}}") for literal, modulus in parts
    )
    texts = {naming.expand(pattern, number) for number in range(series)}
    bound = naming.cardinality(pattern, series)
    assert len(texts) <= bound <= series
    if len(parts) == 1:
        assert len(texts) == bound
    assert naming.cardinality("constant", series) == 1


@given(
    st.lists(st.tuples(st.sampled_from(["", "-", "a", "1", "_7"]), places), min_size=1, max_size=3)
)
def test_a_spec_that_is_taken_has_a_name_of_its_own_for_each_series(
    parts: list[tuple[str, int | None]],
) -> None:
    metric = "".join(
        literal + ("{n}" if modulus is None else f"{{n%{modulus}}}") for literal, modulus in parts
    )
    try:
        spec = load_spec(metric=metric)
    except ValueError:
        assume(False)
    numbers = [*range(300), *range(1000, 1300), *range(11_000, 11_100)]
    assert len({spec.metric_name(number) for number in numbers}) == len(numbers)
