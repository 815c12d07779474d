"""What the CPU time of Java servers goes into, by their threads' names, from /proc."""

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

EVERY_S = 1.0
OTHER = "other"

# By what a thread's name begins with; the kernel keeps 15 characters of it. The first that fits.
JVM = (
    ("C1 Compiler", "compiler"),
    ("C2 Compiler", "compiler"),
    ("VM Thread", "collector"),  # of the serial collector
    ("GC Thread", "collector"),
    ("G1 ", "collector"),
)
CASSANDRA = (
    *JVM,
    ("epollEventLoop", "requests"),
    ("Native-Transpo", "requests"),
    ("Messaging-Even", "messages"),
    ("MutationStage", "mutations"),
    ("RequestRespons", "answers"),
    ("PERIODIC-COMMI", "commitlog"),
    ("COMMIT-LOG", "commitlog"),
    ("MemtableFlush", "flush"),
    ("PerDiskMemtabl", "flush"),
    ("CompactionExec", "compaction"),
    ("ReadStage", "reads"),
)
KAIROSDB = (
    *JVM,
    ("qtp", "http"),
    ("QueueProcessor", "queue"),
    ("Ingest worker", "batches"),
    ("cluster", "driver"),
    ("write_cluster", "driver"),
)
GROUPS: Mapping[str, Sequence[tuple[str, str]]] = {"storage": CASSANDRA, "kairosdb": KAIROSDB}


def names(role: str) -> list[str]:
    """All groups of a role's threads."""
    return [*dict.fromkeys(group for _, group in GROUPS[role]), OTHER]


class Threads:
    """CPU time of servers by group of threads, looked at again and again.

    What a thread used from one look to the next counts for the name that it has then: Cassandra's
    are called after what they do just now.
    """

    def __init__(self, roles: Mapping[int, str]) -> None:
        """`roles`: "storage" or "kairosdb" by process id."""
        self._roles = roles
        self._last: dict[tuple[int, str], int] = {}
        self._total: Counter[tuple[str, str]] = Counter()
        self._seen: list[tuple[float, Counter[tuple[str, str]]]] = []

    def look(self) -> None:
        """Look once; of a process that is gone nothing more is seen."""
        for pid, role in self._roles.items():
            for task in Path(f"/proc/{pid}/task").glob("*"):
                with contextlib.suppress(OSError):
                    name, ticks = _name_and_ticks((task / "stat").read_text())
                    before = self._last.get((pid, task.name), 0)
                    self._last[pid, task.name] = ticks
                    self._total[role, _group(role, name)] += ticks - before
        self._seen.append((time.time(), self._total.copy()))

    def between(self, start_s: float, end_s: float) -> dict[tuple[str, str], float]:
        """CPU seconds of each (role, group) from the first to the last look between these times.

        Empty without two looks.
        """
        seen = [total for t, total in self._seen if start_s <= t <= end_s]
        if len(seen) < 2:
            return {}
        per_s = os.sysconf("SC_CLK_TCK")
        return {
            (role, group): (seen[-1][role, group] - seen[0][role, group]) / per_s
            for role in set(self._roles.values())
            for group in names(role)
        }


@contextlib.contextmanager
def watching(roles: Mapping[int, str]) -> Iterator[Threads]:
    """Look every EVERY_S seconds while the block runs."""
    watch, done = Threads(roles), threading.Event()

    def look_again() -> None:
        while not done.wait(EVERY_S):
            watch.look()

    looking = threading.Thread(target=look_again, daemon=True)
    looking.start()
    try:
        yield watch
    finally:
        done.set()
        looking.join()


def _name_and_ticks(stat: str) -> tuple[str, int]:
    """Name and CPU time, in clock ticks, of a line of /proc/<pid>/task/<tid>/stat (proc(5))."""
    before, _, after = stat.rpartition(")")
    fields = after.split()
    return before.partition("(")[2], int(fields[11]) + int(fields[12])


def _group(role: str, name: str) -> str:
    return next((group for begin, group in GROUPS[role] if name.startswith(begin)), OTHER)
