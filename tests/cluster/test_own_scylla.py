"""A ScyllaDB server of the user's on target `local`, with TLS and passwords and without.

`SCYLLA=`: its maker's archive, or a folder with a server; none comes with the project.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deployment import STORAGE, Deployment, standing, variant
from harness import SCYLLA, STORE, changed

from kairoscope.stacks.kairosdb.scylla.brought import Server, find, unpack

pytestmark = [
    pytest.mark.scylla,
    pytest.mark.skipif(not SCYLLA, reason="SCYLLA= names no ScyllaDB server"),
]


class Scylla(Deployment):
    """A deployment of its own, whose store is the server that SCYLLA= names."""

    PATIENCE_S = 600.0

    def __init__(self, *, secured: bool) -> None:
        super().__init__()
        self.secured = secured
        self.given = Path(SCYLLA).absolute()
        self.experiment = self.write("scylla", self.variant())

    def variant(self, **storage: object) -> dict[str, object]:
        return variant(
            storage=STORE | storage,
            security={"enabled": self.secured},
        )

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"KAIROSCOPE_SECRETS": str(self.scratch / "secrets")}

    @property
    def server(self) -> Server:
        """The server itself, as it is found in what was given."""
        return find(self.given if self.given.is_dir() else unpack(self.given, self.scratch / "opt"))


@pytest.fixture(scope="module", params=["plain", "secured"])
def scylla(needed: None, request: pytest.FixtureRequest) -> Iterator[Scylla]:
    given = Scylla(secured=request.param == "secured")
    with standing(given, "--scylla", given.given, timeout_s=1800) as scylla:
        yield scylla


def test_deploy_again_keeps_the_server_and_changes_nothing(scylla: Scylla) -> None:
    recap = changed(scylla.well("deploy", scylla.experiment, timeout_s=1800))
    assert set(recap.values()) == {0}, recap


def test_a_load_passes_on_what_the_servers_say_they_are(scylla: Scylla) -> None:
    with scylla.loading() as run:
        assert run.end(900) == 0, run.output
        assert run.json("verdict.json")["verdict"] == "pass"
        versions = run.json("manifest.json")["versions"]
        assert (versions["engine"], versions["engine_version"]) == ("scylla", scylla.server.version)
        assert "developer mode" in (run.folder / "report.html").read_text()
        window = run.json("proxyhistograms/window.json")
        assert set(STORAGE) <= set(window["nodes"]), window


def test_all_of_it_is_as_it_should_be(scylla: Scylla) -> None:
    scylla.wait_until_well()
    scylla.well("verify")


def test_other_settings_restart_each_node_by_itself(scylla: Scylla) -> None:
    before = scylla.pids()
    file = scylla.write("changed", scylla.variant(batch_size_fail_kib=2048))
    recap = changed(scylla.well("deploy", file, timeout_s=1800))
    after = scylla.pids()
    for name in STORAGE:
        assert recap[name] > 0
        assert after[name] not in (0, before[name])
        conf = scylla.state / name / "conf" / "scylla.yaml"
        assert "batch_size_fail_threshold_in_kb: 2048" in conf.read_text()
    scylla.wait_until_well()
