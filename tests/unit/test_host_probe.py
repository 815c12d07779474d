"""The probe that is sent to hosts, run here as it is run there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kairoscope.run import host_probe
from kairoscope.verdict.conditions import SAME_START_S


def test_it_tells_of_this_machine_and_ends_with_its_reader(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 100_000)
    options = {"units": {}, "home": str(tmp_path), "every_s": 0.05, "disk_every": 2}
    with subprocess.Popen(
        # As text: it must need nothing of ours.
        [
            sys.executable,
            "-I",
            "-u",
            "-c",
            Path(host_probe.__file__).read_text(),
            json.dumps(options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as probe:
        assert probe.stdout is not None
        first, second = (json.loads(probe.stdout.readline()) for _ in range(2))
        probe.stdout.close()
        assert probe.wait(30) == 0
        assert probe.stderr is not None
        assert probe.stderr.read() == ""
    assert first["disk_bytes"] >= 100_000
    assert "disk_bytes" not in second
    assert second["free_bytes"] > 0
    assert second["host"]["cpus"] == os.cpu_count()
    assert abs(second["host"]["booted"] - psutil.boot_time()) < SAME_START_S
    assert second["host"]["cpu_busy_s"] >= first["host"]["cpu_busy_s"]
    assert second["host"]["mem_available_bytes"] > 0
    # Of the whole machine: those of a test beside this one, if there are any.
    for worker in second["workers"].values():
        assert set(worker) == {"pid", "started_s", "cpu_s", "rss_bytes"}


def test_what_a_machine_was_busy_never_becomes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look, which found nothing but idle time more, gave 61492.82 after
    61492.82000000001."""

    def busy(idle: int) -> float:
        monkeypatch.setattr(
            host_probe, "text", lambda _: f"cpu  4501231 17 1648034 {idle} 1 0 0 0 0 0\n"
        )
        found: float = host_probe.machine_cpu({})["cpu_busy_s"]
        return found

    looks = [busy(idle) for idle in range(7_000_000, 7_000_300)]
    assert looks == sorted(looks)


def test_usage_of_a_process() -> None:
    own = host_probe.usage(os.getpid())
    assert own is not None
    assert own["pid"] == os.getpid()
    started = psutil.Process().create_time() - psutil.boot_time()
    assert abs(own["started_s"] - started) < SAME_START_S
    assert own["cpu_s"] > 0
    assert own["rss_bytes"] > 1_000_000
    assert host_probe.usage(2**22 + 1) is None
