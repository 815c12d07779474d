"""The bench of two releases: their configuration, and what a round makes of what was seen."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
from pyhocon import ConfigFactory

from kairoscope import bundles, hocon, java
from kairoscope.bench import releases
from kairoscope.bench.harness import BenchError
from kairoscope.bench.releases import Loaded, Watch, Window
from kairoscope.experiment import Experiment
from kairoscope.inventory import Host


def kairosdb(folder: Path) -> Host:
    return Host(
        "kairosdb-1",
        "kairosdb",
        {
            "address": "127.0.0.1",
            "http_port": 8080,
            "home": str(folder),
            "kairosdb_keyspace": "kairosdb",
            "kairosdb_bundle_dir": str(folder / "opt"),
        },
    )


STORAGE = [
    Host(f"storage-{n}", "storage", {"address": f"127.0.0.{n}", "native_transport_port": 9042})
    for n in (1, 2)
]


def test_both_formats_say_the_same() -> None:
    settings = {"a.b": "x", "a.c": 5, "a.d": ["1.1.1.1:9", "1.1.1.2:9"], "a.e": "<disabled>"}
    assert ConfigFactory.parse_string(releases.hocon(settings)).as_plain_ordered_dict() == {
        "a": {"b": "x", "c": 5, "d": ["1.1.1.1:9", "1.1.1.2:9"], "e": "<disabled>"}
    }
    assert releases.properties(settings) == (
        "a.b=x\na.c=5\na.d=1.1.1.1:9,1.1.1.2:9\na.e=<disabled>\n"
    )


@pytest.mark.parametrize("tuned", [True, False])
def test_both_releases_get_the_same_settings(tmp_path: Path, tuned: bool) -> None:
    found = []
    for release in (releases.NEWER, releases.OLDER):
        settings = dict(release.settings(kairosdb(tmp_path), STORAGE, tuned))
        assert settings.pop(release.store + release.datacenter) == "dc1"
        found.append({key.replace(release.store, "store."): v for key, v in settings.items()})
    newer, older = found
    assert newer == older
    assert newer["store.cql_host_list"] == ["127.0.0.1:9042", "127.0.0.2:9042"]
    assert ("store.write_consistency_level" in newer) is tuned
    assert (newer.get("kairosdb.queue_processor.batch_size") == 50) is tuned


def test_the_newer_release_knows_all_of_them(tmp_path: Path) -> None:
    """As KairosDB ignores without a word what it does not know."""
    release = releases.NEWER
    settings = release.settings(kairosdb(tmp_path), STORAGE, tuned=True)
    assert not hocon.problems(release.text(settings), bundles.reference_conf().read_text())


def test_the_datacenter_is_that_of_an_experiment_that_names_none() -> None:
    document = releases.queue.EXPERIMENT | {
        "load": releases.queue.EXPERIMENT["load"] | {"sensors": 10},
        "kairosdb": releases.queue.PUBLISHED_2018,
    }
    experiment = Experiment.model_validate(document)
    assert experiment.cluster.datacenter == releases._DATACENTER


def test_the_newer_release_comes_without_our_plugin_and_with_its_own_driver(
    tmp_path: Path,
) -> None:
    names = ["lib/a.jar", f"lib/{bundles.OWN}", "driver-datastax/d.jar", "driver-scylla/s.jar"]
    for name in names:
        path = tmp_path / "opt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    jars = releases.NEWER.jars(kairosdb(tmp_path))
    assert sorted(jar.name for jar in jars) == ["a.jar", "d.jar"]


def test_what_counts_nothing_goes_before_what_it_replaces(tmp_path: Path) -> None:
    """Compiled against a metrics4j of four empty classes, where KairosDB's would be."""
    package = tmp_path / "src" / "org" / "kairosdb" / "metrics4j"
    for name, text in {
        "internal/DevNullCollector": "public class DevNullCollector {}",
        "internal/MethodArgKey": "public class MethodArgKey {}",
        "collectors/MetricCollector": "public interface MetricCollector {}",
        "configuration/MetricConfig": "public class MetricConfig {}",
    }.items():
        file = package / f"{name}.java"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"package org.kairosdb.metrics4j.{name.split('/')[0]};\n{text}\n")
    lib = tmp_path / "opt" / "lib"
    lib.mkdir(parents=True)
    bin_ = java.java_home(java.java17()) / "bin"
    sources = sorted(package.rglob("*.java"))
    subprocess.run([bin_ / "javac", "-d", tmp_path / "classes", *sources], check=True)
    subprocess.run([bin_ / "jar", "cf", lib / "m.jar", "-C", tmp_path / "classes", "."], check=True)

    host = kairosdb(tmp_path / "kairosdb-1")
    host.vars["kairosdb_bundle_dir"] = str(tmp_path / "opt")
    first, *others = releases.UNCOUNTED.jars(host)
    assert (first / "org/kairosdb/metrics4j/internal/SourceInvocationHandler.class").exists()
    assert others == releases.NEWER.jars(host) == [lib / "m.jar"]
    # Not found again by what it is laid over: a bench of another version ends, and says why.
    (lib / "m.jar").unlink()
    with pytest.raises(BenchError, match="does not compile"):
        releases.UNCOUNTED.jars(host)


def test_the_older_release_is_pinned_and_in_no_other_bundle() -> None:
    item = bundles.bundle(bundles.OLDER)
    pinned = bundles.read_manifest(item.manifest)
    assert f"lib/kairosdb-{item.version}.jar" in pinned
    assert sum("cassandra-driver-core" in name for name in pinned) == 1
    assert bundles.OLDER not in bundles.NAMES
    assert not [path for path in bundles._sources() if bundles.OLDER in str(path)]


def test_what_maven_does_not_bring_as_pinned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles.paths, "KAIROSDB_CONF", tmp_path)
    (tmp_path / "bundles").mkdir()
    manifest = tmp_path / "bundles" / f"{bundles.OLDER}.sha256"
    jar = tmp_path / "bundles" / bundles.OLDER / "target" / "bundle" / "lib" / "a.jar"

    def build(_: Path) -> None:
        jar.parent.mkdir(parents=True)
        jar.write_text("what came")

    monkeypatch.setattr(bundles, "_maven", build)
    manifest.write_text("00  lib/a.jar\n")
    with pytest.raises(bundles.UserError, match=r"other content: lib/a\.jar"):
        bundles.older_kairosdb()
    bundles.write_manifest(manifest, bundles.checksums(jar.parents[1]))
    # There, and as pinned: nothing is built.
    assert bundles.older_kairosdb() == jar.parent


def test_it_runs_with_the_options_of_the_deployed_one(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "java.args").write_text(
        "# why\n-Xmx768m\n-XX:+UseSerialGC\n-Djava.io.tmpdir=/deployed\n"
        "-Dlogback.configurationFile=/deployed/logback.xml\n"
        "--add-opens=java.base/java.nio=ALL-UNNAMED\n-cp /deployed/*\n"
        "org.kairosdb.core.Main\n-c run\n-p /deployed/kairosdb.conf\n"
    )
    release = replace(releases.OLDER, jars=lambda _: [Path("/a.jar"), Path("/b.jar")])
    assert releases.command_line(release, kairosdb(tmp_path), Path("/own")) == [
        "-Xmx768m",
        "-XX:+UseSerialGC",
        "-Dlogback.configurationFile=/deployed/logback.xml",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "-Djava.io.tmpdir=/own/tmp",
        "-Duser.timezone=UTC",
        "-cp",
        "/a.jar:/b.jar",
        "org.kairosdb.core.Main",
        "-c",
        "run",
        "-p",
        "/own/conf/kairosdb.properties",
    ]


def test_a_point_counts_by_when_it_was_written() -> None:
    window = Window(begin_s=100, end_s=110, kairosdb_cpu_s=0, storage_cpu_s=0)
    times = np.array([99_999, 100_000, 105_000, 109_999, 110_000])
    assert window.stored(times) == 3


def test_a_round_charges_what_was_stored() -> None:
    steady = Loaded(Window(100, 110, 0.5, 2.0), 1.0, 99.0, 12.0)
    flood = Loaded(Window(200, 220, 10.0, 30.0), 0.75, 2_900.0, 4_000.0)
    rushed = Loaded(Window(230, 240, 12.0, 6.0), 0.01, 50_000.0, 30.0)
    # 1,000 points while it was steady; of the flood 40,000 in time, 500 before and after it.
    written = np.concatenate(
        [
            np.linspace(100_000, 109_999, 1_000),
            np.linspace(200_000, 219_999, 40_000),
            np.linspace(190_000, 199_999, 500),
            np.linspace(220_000, 230_000, 500),
        ]
    ).astype(np.int64)
    found = releases.figures(steady, flood, rushed, written)
    assert found.cost == pytest.approx(500)
    assert found.figures == pytest.approx(
        {
            "storage_us_per_point": 2_000,
            "stored_per_s": 100,
            "acknowledged_share": 1.0,
            "p99_ms": 12.0,
            "flood_stored_per_s": 2_000,
            "flood_kairosdb_cores": 0.5,
            "flood_storage_cores": 1.5,
            "flood_acknowledged_share": 0.75,
            "rush_acknowledged_per_s": 50_000,
            "rush_kairosdb_cores": 1.2,
            "rush_storage_cores": 0.6,
            "rush_p99_ms": 30.0,
        }
    )


def test_a_release_that_stores_nothing_has_no_cost() -> None:
    loaded = Loaded(Window(100, 110, 1, 1), 1.0, 1.0, 1.0)
    with pytest.raises(BenchError, match="stored no point"):
        releases.figures(loaded, loaded, loaded, np.array([], dtype=np.int64))


def test_the_loads_write_different_points_of_the_same_series() -> None:
    steady = releases.paced("http://127.0.0.1:1", releases.STEADY, releases.STEADY_WARMUP_S, 30)
    flood = releases.paced("http://127.0.0.1:1", releases.FLOOD, releases.FLOOD_WARMUP_S, 5)
    rushed = releases.rush("http://127.0.0.1:1")
    assert steady.sensors == flood.sensors == rushed.sensors
    assert steady.metric == flood.metric == rushed.metric
    # What is written again would count as stored anew, when it is not.
    assert rushed.end_ms < steady.start_ms
    assert 0 < flood.warmup_ticks < flood.ticks


class Times(NamedTuple):
    user: float
    system: float


class Server:
    """A process that uses a second of CPU between two looks, until it is gone."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def cpu_times(self) -> Times:
        if not self.left:
            raise psutil.NoSuchProcess(1)
        self.left -= 1
        return Times(user=-self.left, system=1.0)


def watch(monkeypatch: pytest.MonkeyPatch, times: list[float], looks: int = 9) -> Watch:
    servers: list[Any] = [Server(looks) for _ in range(3)]
    made = Watch(servers[0], servers[1:])
    clock = iter(times)
    monkeypatch.setattr(releases.time, "time", lambda: next(clock))
    for _ in times:
        made.look()
    return made


def test_the_window_is_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watch(monkeypatch, [9.5, 10.5, 11.5, 12.5, 13.5])
    assert seen.window(10, 13) == Window(10.5, 12.5, 2.0, 4.0)


def test_one_look_is_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match="too short"):
        watch(monkeypatch, [9.5, 10.5, 11.5]).window(10, 11)


def test_a_server_that_ends_ends_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match="has ended"):
        watch(monkeypatch, [1.0, 2.0, 3.0], looks=2)
