"""From a number of sensors to nodes and a price: monotone, enough of all, in the right unit."""

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.cli.main import main
from kairoscope.sizing import figures
from kairoscope.sizing.size import Need, data_bytes, queue_gib, size
from kairoscope.targets.aws.instance_types import table
from kairoscope.targets.aws.shape import CPU_SHARE, DISK_SHARE

PRICES, TYPES = table()
SCYLLA, CASSANDRA = figures.published("scylla"), figures.published("cassandra")

needs = st.builds(
    Need,
    st.integers(1, 100_000_000),
    st.floats(0.001, 10),
    st.floats(3600, 5 * 365 * 86_400),
    st.integers(1, 5),
)
engines = st.sampled_from([SCYLLA, CASSANDRA])


@given(needs, engines)
def test_no_node_type_is_too_small(need, known):
    found = size(need, known, TYPES, PRICES)
    store, door = TYPES[found.storage.type], TYPES[found.kairosdb.type]
    threads = store.shards if known.engine == "scylla" else store.vcpus
    copies = need.points_per_s * need.copies
    assert copies * known.cpu_us_per_copy.value <= found.storage.count * threads * CPU_SHARE * 1e6
    room = found.storage.count * sum(store.nvme_gb) * 1e9 * DISK_SHARE
    assert data_bytes(need, known) * 2 <= room * (1 + 1e-9)
    assert found.storage.count >= need.copies
    # With one KairosDB node failed the others carry all.
    left = found.kairosdb.count - 1
    assert left >= 1
    assert need.points_per_s * known.cpu_us_kairosdb.value <= left * door.vcpus * CPU_SHARE * 1e6


@given(needs, engines, st.floats(1, 50))
def test_more_sensors_never_cost_less(need, known, factor):
    more = Need(min(100_000_000, math.ceil(need.sensors * factor)), *_rest(need))
    small, large = size(need, known, TYPES, PRICES), size(more, known, TYPES, PRICES)
    assert small.storage.total <= large.storage.total
    assert small.kairosdb.total <= large.kairosdb.total
    assert data_bytes(need, known) <= data_bytes(more, known)


def _rest(need: Need) -> tuple[float, float, int]:
    return need.rate, need.retention_s, need.copies


@given(needs, engines)
def test_a_month_has_its_hours_and_every_line_its_arithmetic(need, known):
    found = size(need, known, TYPES, PRICES, zones=1)
    assert found.usd_per_month == pytest.approx(found.usd_per_hour * PRICES.hours_per_month)
    assert all(line.arithmetic and line.value for line in found.lines)
    assert size(need, known, TYPES, PRICES, zones=3).usd_per_month >= found.usd_per_month
    assert found.unknown


def test_the_published_cluster_comes_out_as_it_was():
    """150,000 points/s on three i3.8xlarge, at 85 %: the share that we leave is 80 %."""
    found = size(
        Need(150_000, 1, 86_400), SCYLLA, {"i3.8xlarge": TYPES["i3.8xlarge"], **DOORS}, PRICES
    )
    assert found.storage.count == 4
    assert any("measured in developer mode only" in text for text in found.unknown)


DOORS = {name: one for name, one in TYPES.items() if name.startswith("m5.")}


def test_bytes_of_a_known_case():
    # 1,000 points/s for a day, three copies of 33.3 bytes.
    assert data_bytes(Need(1_000, 1, 86_400), SCYLLA) == pytest.approx(8.63e9, rel=0.01)
    # 100,000 points/s on one of two: 4 h × 132 bytes.
    assert queue_gib(Need(100_000, 1, 86_400), 2) == 178


def test_a_run_takes_the_place_of_what_is_published(tmp_path: Path):
    (tmp_path / "plan.json").write_text(
        json.dumps({"engine": "cassandra", "storage": {"replication_factor": 3}})
    )
    document = {"cpu_us_per_point": {"storage": 30.0, "kairosdb": 6.0}, "bytes_per_point": None}
    (tmp_path / "measurements.json").write_text(json.dumps(document))
    found = figures.of_run(tmp_path)
    assert (found.cpu_us_per_copy.value, found.cpu_us_kairosdb.value) == (10.0, 6.0)
    assert tmp_path.name in found.cpu_us_per_copy.sure
    assert found.bytes_per_copy == CASSANDRA.bytes_per_copy


def call(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["size", *arguments])
    return done.exit_code, done.output


def test_the_command_prints_nodes_price_and_what_is_not_known():
    status, said = call("--sensors", "100,000,000", "--retention", "1y", "--for", "aws")
    assert status == 0, said
    for text in (
        "storage nodes",
        "USD",
        "how sure: published 2018",
        "not known",
        "is an assumption",
    ):
        assert text in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sensors", "many"], "--sensors many: a number"),
        (["--sensors", "0"], "from 1 to 100,000,000"),
        (["--sensors", "5", "--rate", "nan"], "--rate nan: a number"),
        (["--sensors", "5", "--rate", "99"], "from 0.00001 to 10"),
        (["--sensors", "5", "--retention", "long"], "such as 12h, 90d or 2y"),
        (["--sensors", "5", "--retention", "90y"], "from an hour (1h) to 20 years"),
        (["--sensors", "5", "--engine", "redis"], "cassandra or scylla"),
        (["--sensors", "5", "--for", "lab"], "only aws has machines with a price"),
        (["--sensors", "5", "--replication", "0"], "from 1 to 7"),
        (["--sensors", "5", "--run", "/nowhere"], "the file is missing"),
    ],
)
def test_what_cannot_be_sized_is_refused_in_a_sentence(arguments, says):
    status, said = call(*arguments)
    assert status == 2, said
    assert says in said
