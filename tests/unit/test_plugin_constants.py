"""What the plan computes with of KairosDB's plugin is what its sources say."""

import re
from typing import Any

import pytest

from kairoscope import paths
from kairoscope.stacks.kairosdb.settings import queue
from kairoscope.verdict import queue as judged

SOURCES = paths.KAIROSDB_CONF / "plugin/src/main/java/io/kairoscope/kairosdb"


def constant(source: str, name: str) -> Any:
    """Of the class of that name in the package `queue`, a shift computed."""
    text = (SOURCES / "queue" / f"{source}.java").read_text()
    (value,) = re.findall(rf"static final \w+ {name} = ([0-9._]+(?: << [0-9]+)?);", text)
    number, _, shift = value.replace("_", "").partition(" << ")
    return int(number) << int(shift) if shift else float(number)


@pytest.mark.parametrize(
    ("source", "name", "planned"),
    [
        ("CoalescingQueue", "POINT_BYTES", queue.BYTES_PER_WAITING_POINT),
        ("CoalescingQueue", "PRESSED", queue.WAITING_SHARE),
        # The verdict allows a queue that much more at the end.
        ("CoalescingQueue", "MOMENTS_APART_MS", judged._END_S * 1000),
        ("IndexItem", "BYTES", queue.INDEX_BYTES),
        ("QueueSettings", "BATCH_BYTES", queue.BATCH_KIB * 1024),
        ("QueueSettings", "DISK_FREE_MB", queue.DISK_FREE_MIB),
        ("QueueSettings", "NEW_SERIES_PER_S", queue.NEW_SERIES_MIN),
    ],
)
def test_a_constant_of_the_plugin_is_the_plans(source: str, name: str, planned: float) -> None:
    assert constant(source, name) == planned


def test_a_point_on_its_way_is_planned_with_its_value() -> None:
    """`Room` adds the bytes of each value to its own; a number has at most 10 of them."""
    assert constant("Room", "POINT_BYTES") + 10 <= queue.BYTES_PER_POINT_IN_FLIGHT
