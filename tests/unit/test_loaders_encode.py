"""The bytes of requests: made once and filled in, and always those of the scheduled points."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads import (
    all_groups,
    load_spec,
    load_specs,
    naive_rounds,
    naive_series,
    naive_timestamp_ms,
    naive_value,
)

from loaders.schedule.due import Group, Schedule
from loaders.schedule.protocols import TELNET_PUT
from loaders.schedule.spec import LoadSpec, Step
from loaders.schedule.values import ValueType
from loaders.send.encode import Encoder, json_text, telnet_text

PLACES = ["{n}", "-{n%7}_", "/{n%1000}"]
TEXTS = {"json_text": json_text, "telnet_text": telnet_text}


def names(characters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Metrics and tag values: some text, and a place for the series number here and there."""
    literal = st.text(characters, min_size=1, max_size=6)
    pieces = st.lists(st.one_of(literal, st.sampled_from(PLACES)), min_size=1, max_size=4)
    # Places with nothing but digits between them are refused, as names would be ambiguous.
    return pieces.map("~".join)


# Whatever JSON must escape: quotes, backslashes, control characters, anything beyond ASCII.
json_names = names(
    st.one_of(st.sampled_from('"\\/\n\x00\x01é€😀%'), st.characters(exclude_characters="{}"))
)
telnet_names = names(st.sampled_from("abzABZ019._/-:,;%#'\\~"))


@st.composite
def named_specs(draw: st.DrawFn, characters: st.SearchStrategy[str], **fixed: Any) -> LoadSpec:
    plain = characters.map(lambda text: text.replace("{", "").replace("}", ""))
    tags = draw(st.dictionaries(plain, characters, min_size=1, max_size=3))
    metric = draw(characters) + "~{n}"
    return draw(load_specs(metric=metric, tags=tags, **fixed))


def series_of(schedule: Schedule, group: Group, tick: int) -> list[int]:
    return [naive_series(schedule.spec, group, slot, tick) for slot in group.slots.tolist()]


def expected_points(
    schedule: Schedule, group: Group, series: int, ticks: range
) -> list[tuple[int, int]]:
    """Timestamps and values, by the slow arithmetic."""
    groups = len(all_groups(schedule))
    times = [naive_timestamp_ms(schedule.spec, groups, group.rank, tick) for tick in ticks]
    return [(at_ms, naive_value(series, at_ms)) for at_ms in times]


def written(spec: LoadSpec, value: int) -> Any:
    """A value as JSON gives it back."""
    if spec.value_type == "string":
        return f"v{value}"
    return value / 1000 if spec.value_type == "double" else value


def check_json(schedule: Schedule, group: Group, ticks: range, body: bytes) -> None:
    spec = schedule.spec
    expected = []
    for number in series_of(schedule, group, ticks.start):
        points = [
            (at_ms, written(spec, value))
            for at_ms, value in expected_points(schedule, group, number, ticks)
        ]
        metric: dict[str, Any] = {"name": spec.metric_name(number), "tags": spec.tags_of(number)}
        if len(ticks) == 1:
            metric["timestamp"], metric["value"] = points[0]
        else:
            metric["datapoints"] = [list(point) for point in points]
        expected.append(metric)
    assert json.loads(body) == expected
    assert body.isascii()


def check_telnet(schedule: Schedule, group: Group, ticks: range, body: bytes) -> None:
    spec = schedule.spec
    verb = "put" if spec.protocol == TELNET_PUT else "putm"
    if spec.value_type == "string":
        verb = "puts"
    expected = []
    for number in series_of(schedule, group, ticks.start):
        tags = [f"{name}={value}" for name, value in spec.tags_of(number).items()]
        for at_ms, value in expected_points(schedule, group, number, ticks):
            text = ValueType(spec.value_type).text(value)
            expected.append([verb, spec.metric_name(number), str(at_ms), text, *tags])
    *lines, end = body.decode("latin-1").split("\n")
    assert end == ""
    assert [line.split(" ") for line in lines] == expected


def encoder(schedule: Schedule, group: Group, text: str) -> Encoder:
    return Encoder(schedule, group, TEXTS[text])


@given(named_specs(json_names, protocol="rest"), st.data())
def test_json_has_exactly_the_scheduled_points(spec: LoadSpec, data: st.DataObject) -> None:
    schedule = Schedule(spec)
    group = data.draw(st.sampled_from(all_groups(schedule)))
    encode = encoder(schedule, group, "json_text").encode
    for ticks in naive_rounds(spec, group.first_tick):
        check_json(schedule, group, ticks, bytes(encode(ticks.start, len(ticks))))


@given(
    st.sampled_from(["telnet-put", "telnet-putm"]).flatmap(
        lambda protocol: named_specs(telnet_names, protocol=protocol)
    ),
    st.data(),
)
def test_telnet_has_exactly_the_scheduled_points(spec: LoadSpec, data: st.DataObject) -> None:
    schedule = Schedule(spec)
    group = data.draw(st.sampled_from(all_groups(schedule)))
    encode = encoder(schedule, group, "telnet_text").encode
    for ticks in naive_rounds(spec, group.first_tick):
        check_telnet(schedule, group, ticks, bytes(encode(ticks.start, len(ticks))))


@given(load_specs(), st.sampled_from(sorted(TEXTS)), st.data())
def test_the_order_of_requests_leaves_no_trace(
    spec: LoadSpec, text: str, data: st.DataObject
) -> None:
    """Retries go back in time, over replaced sensors and the shorter last round too."""
    schedule = Schedule(spec)
    group = data.draw(st.sampled_from(all_groups(schedule)))
    used = encoder(schedule, group, text)
    rounds = st.sampled_from(naive_rounds(spec, group.first_tick))
    for ticks in data.draw(st.lists(rounds, min_size=1, max_size=12)):
        fresh = encoder(schedule, group, text)
        wanted = bytes(fresh.encode(ticks.start, len(ticks)))
        assert bytes(used.encode(ticks.start, len(ticks))) == wanted
    check = check_json if text == "json_text" else check_telnet
    check(schedule, group, ticks, wanted)


def test_every_digit_of_the_time_may_change() -> None:
    # From 1,999,999,999,999 on by a millisecond: all of them do, and back again for a retry.
    spec = load_spec(
        start_ms=1_999_999_999_998, steps=[Step(period_ms=1, ticks=4)], warmup_ticks=0, sensors=2
    )
    schedule = Schedule(spec)
    (group,) = schedule.groups(0)
    encode = encoder(schedule, group, "json_text").encode
    for tick in (0, 1, 2, 1, 3, 0, 2, 2):
        check_json(schedule, group, range(tick, tick + 1), bytes(encode(tick, 1)))


def test_the_bytes_are_valid_until_the_next_call() -> None:
    # What the protocols rely on, and why they copy.
    schedule = Schedule(load_spec(sensors=1))
    (group,) = schedule.groups(0)
    encode = encoder(schedule, group, "json_text").encode
    before = encode(0, 1)
    kept = bytes(before)
    assert len(encode(1, 1)) == len(kept)
    assert bytes(before) != kept


@pytest.mark.parametrize(
    ("value_type", "protocol", "expected"),
    [
        (
            "long",
            "rest",
            '[{"name":"S0","timestamp":1700000000000,"value":637038,"tags":{"a":"b"}}]',
        ),
        (
            "double",
            "rest",
            '[{"name":"S0","timestamp":1700000000000,"value":637.038,"tags":{"a":"b"}}]',
        ),
        (
            "string",
            "rest",
            '[{"name":"S0","timestamp":1700000000000,"value":"v637038","tags":{"a":"b"}}]',
        ),
        ("long", "telnet-put", "put S0 1700000000000 637038 a=b\n"),
        ("double", "telnet-putm", "putm S0 1700000000000 637.038 a=b\n"),
        ("string", "telnet-put", "puts S0 1700000000000 v637038 a=b\n"),
        ("string", "telnet-putm", "puts S0 1700000000000 v637038 a=b\n"),
    ],
)
def test_what_goes_over_the_wire(value_type: str, protocol: str, expected: str) -> None:
    spec = load_spec(
        sensors=1,
        metric="S{n}",
        tags={"a": "b"},
        value_type=value_type,
        protocol=protocol,
        telnet=["127.0.0.1:4242"],
    )
    schedule = Schedule(spec)
    (group,) = schedule.groups(0)
    text = "json_text" if spec.acknowledges else "telnet_text"
    assert bytes(encoder(schedule, group, text).encode(0, 1)) == expected.encode()
