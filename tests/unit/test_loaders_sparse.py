"""A sparse histogram is the standard one, bucket by bucket."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from loaders.record import histograms
from loaders.record.histograms import HIGHEST_US, LogWriter, Sparse, new_histogram, record

VALUES = st.one_of(
    st.integers(-5, 5000), st.integers(0, 2 * HIGHEST_US), st.integers(0, 37).map(lambda n: 2**n)
)


@given(st.lists(st.tuples(VALUES, st.integers(1, 1000)), min_size=1, max_size=40))
def test_it_has_the_buckets_and_percentiles_of_the_standard_one(found):
    sparse, standard, filled = Sparse(), new_histogram(), new_histogram()
    for value_us, count in found:
        sparse.record(value_us, count)
        record(standard, value_us, count)
    sparse.fill(filled)
    assert list(filled.counts) == list(standard.counts)
    assert filled.get_total_count() == standard.get_total_count() == sparse.count
    assert filled.get_max_value() == standard.get_max_value()
    for percent in (1, 50, 99, 99.9, 100):
        assert sparse.percentile(percent) == standard.get_value_at_percentile(percent)
    sparse.wipe(filled)
    assert not any(filled.counts)
    assert filled.encode() == new_histogram().encode()


def test_an_empty_one_has_no_percentile() -> None:
    assert Sparse().percentile(99) == Sparse().count == 0


def test_intervals_of_several_tags_in_one_log(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.hlog"
    with path.open("w") as file:
        log = LogWriter(file, 1_700_000_000_000)
        for second in range(3):
            for tag, value_us in (("warmup", 9_000_000), ("node-0", 1000), ("node-1", 50_000)):
                sparse = Sparse()
                sparse.record(value_us, 10)
                log.write_sparse(sparse, second, 1.0, tag)
        log.write_sparse(Sparse(), 3, 1.0, "node-0")
    found = histograms.by_tag(path)
    assert {tag: each.get_total_count() for tag, each in found.items()} == {
        "warmup": 30,
        "node-0": 30,
        "node-1": 30,
    }
    assert found["node-1"].get_max_value() // 100 == 500
    assert histograms.count(path) == 90
    assert histograms.merged([path]).get_total_count() == 60
    assert len(path.read_text().splitlines()) == 5 + 9
