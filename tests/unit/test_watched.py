"""What a run says of those who watch its target."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from kairoscope.hosts import prometheus, ssh
from kairoscope.hosts.inventory import Host
from kairoscope.run import watched


def looked(
    monkeypatch: pytest.MonkeyPatch,
    found: Any,
    hosts: int = 1,
    *,
    loaded: bool = True,
    **rules: str,
) -> tuple[list[str], str]:
    """Events and output of a look at a target with so many monitoring hosts."""

    def known(_: Host) -> prometheus.Known:
        if isinstance(found, Exception):
            raise found
        return prometheus.Known(found, rules, [])

    monkeypatch.setattr(prometheus, "known", known)
    there = [Host(f"monitoring-{n}", "monitoring", {}) for n in range(1, hosts + 1)]
    events: list[str] = []
    state: Any = SimpleNamespace(
        inventory=SimpleNamespace(monitoring=there),
        note=lambda what, detail: events.append(f"{what}: {detail}"),
        folder=Path("/nowhere"),
    )
    out = io.StringIO()
    watched.look(state, Console(file=out, width=30), loaded=loaded)
    return events, out.getvalue()


def test_a_target_that_nobody_watches_has_nobody_to_ask(monkeypatch):
    assert looked(monkeypatch, AssertionError("asked"), hosts=0) == ([], "")


def test_whom_it_does_not_hear_is_named(monkeypatch):
    found = {
        ("storage", "storage-2"): "connection refused",
        ("storage", "storage-1"): "up",
        ("node", "storage-2"): "connection refused",
        # Not asked yet; and no load yet.
        ("kairosdb", "kairosdb-1"): "unknown",
        ("loader", "loader-1"): "connection refused",
    }
    (event,), said = looked(monkeypatch, found)
    wanted = "Prometheus on monitoring-1 does not hear node of storage-2, storage of storage-2"
    assert event == f"monitoring: {wanted}"
    assert said == f"{wanted}; the run goes on\n"


def test_a_full_disk_shows_in_its_rules(monkeypatch):
    up, full = {("storage", "storage-1"): "up"}, "write to WAL: no space left on device"
    (event,), _ = looked(monkeypatch, up, NodeDown="ok", a=full, b=full, c="unknown")
    assert event == f"monitoring: Prometheus on monitoring-1 fails at 2 of its rules: {full}"


@pytest.mark.parametrize("found", [{}, {("storage", "storage-1"): "unknown"}])
def test_one_that_starts_again_and_again_has_asked_nobody(monkeypatch, found):
    (event,), _ = looked(monkeypatch, found, NodeDown="unknown")
    assert event == (
        "monitoring: Prometheus on monitoring-1 has asked nobody yet: it was started a moment ago, "
        "perhaps again and again"
    )
    # Before a load it may be that its deploy has just ended.
    assert looked(monkeypatch, found, loaded=False) == ([], "")


def test_all_is_well(monkeypatch):
    assert looked(monkeypatch, {("storage", "storage-1"): "up"}) == ([], "")


@pytest.mark.parametrize(
    "error", [ssh.RemoteError("no [answer]"), ValueError("not JSON"), KeyError("data")]
)
def test_one_that_does_not_answer_is_no_reason_to_end(monkeypatch, error):
    (event,), said = looked(monkeypatch, error)
    assert event.startswith("monitoring: Prometheus on monitoring-1 does not answer: ")
    assert said.endswith("; the run goes on\n")
