"""The quickest attack of the queue, on the shared deployment; test_attacks has the others."""

from attacks import now_ms, point, post
from deployment import Deployment


def test_what_was_acknowledged_is_found_at_once(cluster: Deployment) -> None:
    """By queries on its node, long before its window is over."""
    names = [f"fresh.{i}" for i in range(20)]
    for times in (1, 2, 3):
        assert post(cluster.url, [point(name, now_ms(), 1) for name in names]).status == 204
        assert cluster.counts(names) == dict.fromkeys(names, times)


def test_a_point_that_the_store_refuses_is_a_dead_letter_and_no_other(cluster: Deployment) -> None:
    """An index of Cassandra's takes no value of 64 KiB: a text which the door takes."""
    before = len(cluster.dead())
    beside = [f"dead.beside.{i}" for i in range(20)]
    cluster.execute("CREATE INDEX attacks ON kairosdb.data_points (value)")
    try:
        now = now_ms()
        points = [point(name, now, 1) for name in beside]
        points.insert(7, point("dead.letter", now, "x" * 65_535, type="string"))
        assert post(cluster.url, points).status == 204
        cluster.wait_until_stored()
    finally:
        cluster.execute("DROP INDEX kairosdb.attacks")
    (letter,) = cluster.dead()[before:]
    assert letter
    assert letter.metric == "dead.letter"
    assert "maximum allowed size" in letter.reason
    assert cluster.counts(beside) == dict.fromkeys(beside, 1)
    assert f"{before + 1} dead letters" in cluster.well("queue", "inspect")
