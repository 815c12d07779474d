"""What is sampled of the servers of this machine."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest

from kairoscope.hosts import supervisor
from kairoscope.hosts.inventory import Host
from kairoscope.run import host_probe, samplers
from kairoscope.run_folder import JsonLines


def test_a_servers_children_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = "n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done; echo done; read line"
    with subprocess.Popen(
        ["sh", "-c", f"sh -c '{spent}'; true"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "done\n"
        told = supervisor.Process("pool", "RUNNING", server.pid, 0.0)
        monkeypatch.setattr(supervisor, "processes", lambda _: [told])
        home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
        home.mkdir()
        elsewhere.write_bytes(b"x" * 1_000_000)
        (home / "link").symlink_to(elsewhere)
        host = Host("x-1", "kairosdb", {"home": str(home), "processes": {"pool": "pool"}})
        files = [JsonLines(tmp_path / name) for name in ("processes.jsonl", "events.jsonl")]
        samplers.Processes([host], tmp_path, *files, lambda _: None).sample()
        (child,) = psutil.Process(server.pid).children()
        alone = [host_probe.usage(pid) for pid in (server.pid, child.pid)]
        server.communicate("\n", timeout=60)
    seen = [json.loads(line) for line in (tmp_path / "processes.jsonl").read_text().splitlines()]
    (of_pool,) = [record for record in seen if record["name"] == "pool"]
    assert all(alone)
    assert of_pool["cpu_s"] >= sum(usage["cpu_s"] for usage in alone if usage) > 0
    # Counted as on hosts: a link is not what it leads to.
    assert of_pool["disk_bytes"] < 1_000_000
    assert of_pool["rss_bytes"] == sum(usage["rss_bytes"] for usage in alone if usage)
