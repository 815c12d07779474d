"""CPU time by threads, of real processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kairoscope.stacks.kairosdb.captures import threads

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("role", "name", "group"),
    [
        ("storage", "MutationStage-1", "mutations"),
        ("storage", "Messaging-Event", "messages"),
        ("storage", "C2 CompilerThre", "compiler"),
        ("kairosdb", "C1 CompilerThre", "compiler"),
        ("kairosdb", "qtp1234-56", "http"),
        ("kairosdb", "MutationStage-1", "other"),
        ("storage", "GossipStage:1", "other"),
    ],
)
def test_groups(role: str, name: str, group: str) -> None:
    assert threads._group(role, name) == group
    assert group in threads.names(role)


def test_a_name_may_have_anything_in_it() -> None:
    fields = " ".join(str(n) for n in range(3, 53))
    assert threads._name_and_ticks(f"12 (a (b) c) {fields}") == ("a (b) c", 14 + 15)


def busy(pid: int, least_s: float) -> None:
    """Wait until a process has used so much CPU."""
    while _cpu_s(pid) < least_s:
        time.sleep(0.02)


def _cpu_s(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return threads._name_and_ticks(stat)[1] / os.sysconf("SC_CLK_TCK")


def test_what_a_process_uses_is_seen_and_kept_when_it_is_gone() -> None:
    start = time.time()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            watch = threads.Threads({process.pid: "kairosdb"})
            watch.look()
            busy(process.pid, _cpu_s(process.pid) + 0.3)
            watch.look()
        finally:
            process.kill()
    watch.look()
    found = watch.between(start, time.time())
    assert set(found) == {("kairosdb", group) for group in threads.names("kairosdb")}
    assert found["kairosdb", "other"] >= 0.25
    assert found["kairosdb", "http"] == 0


def test_one_look_is_not_enough() -> None:
    start = time.time()
    watch = threads.Threads({os.getpid(): "storage"})
    watch.look()
    assert watch.between(start, time.time()) == {}
    assert watch.between(start - 10, start) == {}
