"""What of a run was not captured, and why."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from test_nodetool import SIX

from kairoscope import run_folder
from kairoscope.experiment.schema.capture import Capture
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.kairosdb.captures import store
from kairoscope.verdict.completeness import Wanted, missing, phases

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
    wanted = Wanted(NODES, [*NODES, "kairosdb-1"], phases(120, 20))
    assert missing(wanted, captures, events, {*NODES, "kairosdb-1"}, (), WHOLE) == [
        "nodetool proxyhistograms of storage-2 not captured before and under and after the load: "
        "storage-2: refused",
        "nodetool proxyhistograms of storage-3 not captured under and after the load: no attempt "
        "is recorded",
    ]


def test_shards_that_did_not_tell_are_said_with_the_reason():
    events = [
        {"what": "shards not captured", "detail": "storage-1: no", "node": "storage-1"},
        {"what": "shards not captured", "detail": "storage-3: refused", "node": "storage-3"},
    ]
    wanted = Wanted((), (), (), NODES)
    assert missing(wanted, [], events, (), {"storage-1", "storage-2"}, WHOLE) == [
        "load and requests of the shards of storage-3 not captured while the load was measured: "
        "storage-3: refused"
    ]
    assert missing(wanted, [], [], (), {"storage-1", "storage-2"}, WHOLE)[0].endswith(
        "no two looks are recorded"
    )


def test_counts_of_the_measured_time_are_a_capture_like_any_other():
    """But of a node that was started again in it nobody knows them."""
    what = "store's own counts not captured"
    events = [
        {"what": what, "detail": "storage-1: no", "node": "storage-1", "started_again": True},
        {"what": what, "detail": "storage-3: refused", "node": "storage-3", "started_again": False},
    ]
    wanted = Wanted((), (), (), window=NODES)
    assert missing(wanted, [], events, (), (), WHOLE, window={"storage-2"}) == [
        "what storage-3 counted while the load was measured not captured: storage-3: refused"
    ]
    (none,) = missing(wanted, [], [], (), (), WHOLE)
    assert none.endswith("no two looks are recorded")


_PHASES = st.lists(st.sampled_from(["before", "during", "after"]), unique=True)
_CELLS = st.sets(st.tuples(st.sampled_from(NODES), st.sampled_from(["before", "during", "after"])))


@given(
    due=_PHASES,
    made=_CELLS,
    sampled=st.sets(st.sampled_from([*NODES, "kairosdb-1"])),
    shards=st.sets(st.sampled_from(NODES)),
    on_scylla=st.booleans(),
    disk=st.fixed_dictionaries(
        {name: st.one_of(st.none(), st.integers(0)) for name in ("before", "after")}
    ),
)
def test_nothing_is_said_exactly_if_nothing_is_missing(due, made, sampled, shards, on_scylla, disk):
    """Whatever lacks is named, and nothing else: an unknown never passes for a zero."""
    captures = [{"node": node, "phase": phase} for node, phase in made]
    wanted = Wanted(NODES, [*NODES, "kairosdb-1"], due, NODES if on_scylla else ())
    said = missing(wanted, captures, [], sampled, shards, disk)
    lacking = {node for node in NODES for phase in due if (node, phase) not in made}
    unseen = {*NODES, "kairosdb-1"} - sampled
    text = {
        kind: " ".join(line for line in said if kind in line)
        for kind in ("nodetool", "process of", "the shards of")
    }
    silent = set(NODES) - shards if on_scylla else set()
    assert {name for name in NODES if name in text["nodetool"]} == lacking
    assert {name for name in (*NODES, "kairosdb-1") if name in text["process of"]} == unseen
    assert {name for name in NODES if name in text["the shards of"]} == silent
    assert any("bytes per point" in line for line in said) == (None in disk.values())
    assert bool(said) == bool(lacking or unseen or silent or None in disk.values())


def test_a_long_load_s_captures_are_not_written_again_at_every_look(tmp_path, monkeypatch):
    monkeypatch.setattr(store.nodetool, "proxyhistograms_beside", lambda _: SIX)
    monkeypatch.setattr(store.nodetool, "run", lambda *_: SIX)
    written = []
    write_json = store.write_json

    def write(path: Path, document: list) -> None:
        written.append(len(document))
        write_json(path, document)

    monkeypatch.setattr(store, "write_json", write)
    events = JsonLines(tmp_path / "events.jsonl")
    hosts = [Host(name, "storage", {}) for name in NODES]
    monkeypatch.setattr(store.Captures, "_touch", lambda *_: None)
    hosts[0].vars["storage_engine"] = "cassandra"
    captures = store.Captures(hosts, None, tmp_path, events, Capture(), lambda _: False)
    captures.before()
    for _ in range(300):
        captures._histograms.capture("during")
    listed = tmp_path / run_folder.CAPTURES
    every = len(NODES) * 301
    assert len(json.loads(listed.read_text())) > 0.9 * every
    assert sum(written) < 15 * every
    captures.stop()
    assert len(json.loads(listed.read_text())) == every


def test_a_node_that_comes_back_in_time_is_captured(tmp_path, monkeypatch):
    """One that was killed near the end of a load answers again some seconds later."""
    monkeypatch.setattr(store, "_AGAIN_S", 0)
    (tmp_path / "text").write_text(SIX)
    tool = tmp_path / "nodetool"
    tool.write_text(
        "#!/bin/sh\n"
        f'echo x >> "{tmp_path}/calls"\n'
        f'[ "$(wc -l < "{tmp_path}/calls")" -gt 2 ] || {{ echo down >&2; exit 1; }}\n'
        f'cat "{tmp_path}/text"\n'
    )
    tool.chmod(0o755)
    vars_ = {"ansible_connection": "local", "nodetool": str(tool)}
    touched = []
    histograms = store.ProxyHistograms(
        [Host("storage-1", "storage", vars_)],
        tmp_path / "captures",
        JsonLines(tmp_path / "events.jsonl"),
        touched.append,
    )
    assert histograms.capture("before") == ["storage-1"], "at once or not at all"
    event = json.loads((tmp_path / "events.jsonl").read_text())
    assert (event["node"], event["phase"]) == ("storage-1", "before")
    assert histograms.capture("after", patience_s=60) == []
    assert [host.name for host in touched] == ["storage-1"]
    listed = json.loads((tmp_path / "captures" / "captures.json").read_text())
    assert [capture["phase"] for capture in listed] == ["after"]
    histograms.without({"storage-1"})
    assert histograms.capture("after") == []
