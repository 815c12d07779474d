"""What of a run was not captured, and why."""

from hypothesis import given
from hypothesis import strategies as st

from kairoscope.capture.completeness import Wanted, missing, phases

NODES = ("storage-1", "storage-2", "storage-3")
WHOLE = {"before": 1, "after": 2}


def test_a_capture_under_load_is_due_after_a_period():
    assert phases(120, 20) == ["before", "during", "after"]
    assert phases(20, 20) == phases(25, 20) == ["before", "after"]


def test_what_is_alike_is_one_sentence_and_says_why():
    captures = [{"node": "storage-1", "phase": p} for p in ("before", "during", "after")]
    captures.append({"node": "storage-3", "phase": "before"})
    events = [
        {
            "what": "capture failed",
            "detail": "storage-2: refused",
            "node": "storage-2",
            "phase": "before",
        },
        {"what": "process ended", "detail": "storage-2: pid 7"},
    ]
    wanted = Wanted(NODES, ["kairosdb-1"], phases(120, 20))
    assert missing(wanted, captures, events, {*NODES, "kairosdb-1"}, WHOLE) == [
        "nodetool proxyhistograms of storage-2 not captured before and under and after the load: "
        "storage-2: refused",
        "nodetool proxyhistograms of storage-3 not captured under and after the load: no attempt "
        "is recorded",
    ]


_PHASES = st.lists(st.sampled_from(["before", "during", "after"]), unique=True)
_CELLS = st.sets(st.tuples(st.sampled_from(NODES), st.sampled_from(["before", "during", "after"])))


@given(
    due=_PHASES,
    made=_CELLS,
    sampled=st.sets(st.sampled_from([*NODES, "kairosdb-1"])),
    disk=st.fixed_dictionaries(
        {name: st.one_of(st.none(), st.integers(0)) for name in ("before", "after")}
    ),
)
def test_nothing_is_said_exactly_if_nothing_is_missing(due, made, sampled, disk):
    """Whatever lacks is named, and nothing else: an unknown never passes for a zero."""
    captures = [{"node": node, "phase": phase} for node, phase in made]
    said = missing(Wanted(NODES, ["kairosdb-1"], due), captures, [], sampled, disk)
    lacking = {node for node in NODES for phase in due if (node, phase) not in made}
    unseen = {*NODES, "kairosdb-1"} - sampled
    text = {
        kind: " ".join(line for line in said if kind in line) for kind in ("nodetool", "process of")
    }
    assert {name for name in NODES if name in text["nodetool"]} == lacking
    assert {name for name in (*NODES, "kairosdb-1") if name in text["process of"]} == unseen
    assert any("bytes per point" in line for line in said) == (None in disk.values())
    assert bool(said) == bool(lacking or unseen or None in disk.values())
