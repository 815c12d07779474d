"""What is made of a flight recording."""

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kairoscope.deploy.operate import cpu_profile
from kairoscope.errors import UserError

# As `jfr print --events jdk.ExecutionSample` of JDK 17 prints it, of a Cassandra and a KairosDB.
PRINTED = """\
jdk.ExecutionSample {
  startTime = 21:13:31.848
  sampledThread = "MutationStage-7" (javaThreadId = 68)
  state = "STATE_RUNNABLE"
  stackTrace = [
    org.apache.cassandra.db.rows.NativeCell.hasPath() line: 206
    org.apache.cassandra.db.rows.BTreeRow.lambda$dataSize$13(ColumnData, long) line: 528
    org.apache.cassandra.utils.btree.BTree.accumulate(Object[], LongAccumulator, long) line: 1864
    org.apache.cassandra.utils.btree.BTree.accumulate(Object[], LongAccumulator) line: 1910
    org.apache.cassandra.concurrent.SEPWorker.run() line: 143
    java.lang.Thread.run() line: 840
    ...
  ]
}

jdk.ExecutionSample {
  startTime = 21:13:31.864
  sampledThread = "qtp1-\\"3" (javaThreadId = 62)
  state = "STATE_RUNNABLE"
  stackTrace = [
    java.util.TreeMap$PrivateEntryIterator.<init>(TreeMap, TreeMap$Entry) line: 1471
    org.kairosdb.core.Main.start() line: 1
    io.netty.util.concurrent.FastThreadLocalRunnable.run() line: 30
    org.apache.cassandra.utils.btree.BTree.accumulate(Object[]) line: -1
    ...
  ]
}
"""


def test_a_method_counts_once_a_sample_however_often_it_is_in_the_stack() -> None:
    found = cpu_profile.samples(PRINTED.splitlines())
    assert found.count == 2
    assert +found.own == {"NativeCell.hasPath": 1, "TreeMap$PrivateEntryIterator.<init>": 1}
    assert found.within == {
        "NativeCell.hasPath": 1,
        "BTreeRow.lambda$dataSize$13": 1,
        "BTree.accumulate": 2,
        "Main.start": 1,
    }


def test_shares_are_of_all_samples_and_of_all_cpu() -> None:
    found = cpu_profile.samples(PRINTED.splitlines())
    text = cpu_profile.render("storage-1 (storage)", 10, {"flush": 1.0, "mutations": 3.0}, found)
    assert "0.40 cores; 2 samples" in text
    assert "| mutations | 0.300 | 75.0% |\n| flush | 0.100 | 25.0% |" in text
    assert "| BTree.accumulate | 2 | 100.0% |" in text


def test_an_idle_server_has_a_profile_too() -> None:
    text = cpu_profile.render("kairosdb-1 (kairosdb)", 1, {"http": 0.0}, cpu_profile.samples([]))
    assert "0.00 cores; 0 samples" in text
    assert "| http | 0.000 | 0.0% |" in text


def of(what: str) -> Path:
    return cpu_profile.profile(what, 1, "local", Console(file=StringIO()))


def test_what_is_no_java_is_refused() -> None:
    with pytest.raises(UserError, match="only Java servers"):
        of(str(os.getpid()))


def test_what_does_not_run_is_refused() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    with pytest.raises(UserError, match=rf"process {gone.pid}: .*make status"):
        of(str(gone.pid))


def test_a_java_without_tools_is_told_apart(tmp_path: Path) -> None:
    """A copy of a program that sleeps, named as Java is, in a folder without jcmd."""
    java = tmp_path / "java"
    java.write_bytes(Path("/bin/sleep").read_bytes())
    java.chmod(0o755)
    with subprocess.Popen([java, "30"]) as process:
        try:
            with pytest.raises(UserError, match=r"jcmd is missing.*openjdk-17-jdk-headless"):
                of(str(process.pid))
        finally:
            process.kill()
