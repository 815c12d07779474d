"""Another target and another stack, from experiment to verdict: all of them is in stub/."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from harness import SMALL
from stub.stack import Server, StubStack
from stub.target import StubTarget

from kairoscope.cli import known
from kairoscope.cli.main import main
from kairoscope.deploy.building import run_time

EXPERIMENT = """\
name: stubbed
description: A load on a system under test that is no KairosDB.
stack: stub
cluster: {storage_nodes: 1, replication_factor: 1, kairosdb_nodes: 1}
load: {sensors: 20, rate: 1.0, duration_s: 12, warmup_s: 2, retry_for_s: 120}
"""
# Other tests run beside it, so no limit is one of time.
EXPERIMENT += yaml.safe_dump({"limits": SMALL["limits"]})


@pytest.fixture
def home(no_bundles: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "secrets"))
    # The run-time bundles are KairosDB's and the loaders'; neither is built for this.
    monkeypatch.setattr(run_time, "build", lambda *_, **__: False)
    return tmp_path / "home"


def call(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("loses", "word", "status", "untold"),
    [(0, "pass", 0, {}), (50, "fail", 1, dict.fromkeys(("queue", "drain"), "it tells no queue"))],
)
def test_a_stub_runs_from_experiment_to_verdict(
    home, tmp_path, monkeypatch, loses, word, status, untold
):
    (tmp_path / "stubbed.yml").write_text(EXPERIMENT)
    experiment = str(tmp_path / "stubbed.yml")
    target = StubTarget(tmp_path / "hosts")
    with Server(loses=loses).serving() as server:
        monkeypatch.setattr(known, "TARGETS", (*known.TARGETS, target))
        monkeypatch.setattr(known, "STACKS", (*known.STACKS, StubStack(server, untold)))
        said = call("plan", experiment, "--target", "stub")
        assert "The stub forgets everything." in said[1]
        code, output = call("demo", experiment, "--target", "stub")
        assert (home / "stub" / "deployed").exists()
    assert (code, f"verdict: {word}" in output) == (status, True), output
    assert output.count(f"exit status {status}: the verdict is {word}") == bool(status)
    # Before there is a run folder, and at the end, it says what takes a while.
    said = re.findall(r"^(.*) …$", output, re.MULTILINE)
    assert "servers, loader hosts, and how fast the machines are" in said
    assert said[-1] == "judging, and drawing the report"
    run = home / "runs" / "latest"
    told = [json.loads(line)["stage"] for line in (run / "progress.jsonl").open()]
    stages = ["before", "starting", "load", "drain", "after", "read-back", "judging"]
    if untold:
        stages.remove("drain")
    assert list(dict.fromkeys(told)) == stages
    assert re.match("live, .*: http://127.0.0.1:[0-9]+/now\n", output)
    judged = json.loads((run / "verdict.json").read_text())
    assert judged["verdict"] == word
    # What such servers cannot tell is neither a pass nor a fail, and says why.
    spared = {k: p["text"] for k, p in judged["parts"].items() if p["outcome"] == "not judged"}
    assert spared == untold
    assert call("judge", str(run))[0] == status
    assert json.loads((run / "verdict.json").read_text()) == judged
    assert "stub" in (run / "report.md").read_text()
    assert call("destroy", "--target", "stub")[0] == 0
    assert target.destroyed
    assert not (home / "stub").exists()
