"""A deployment with `security: {enabled: true}`: it works as one without, and lets nobody else in.

It is watched as well: Prometheus is one whom it lets in. On loopback addresses here; hosts of their
own have the same roles (tests/lab).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import drawing
import psutil
import pytest
from boards import KAIROSDBS, empty, panels
from cassandra import Unauthorized
from cassandra.cluster import NoHostAvailable
from deployment import ALL, Deployment, standing, variant
from harness import wait_for

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import secret_files
from kairoscope.hosts.secret_files import Access, Login
from kairoscope.stacks.kairosdb.servers import cql
from kairoscope.stacks.kairosdb.servers.cql import LoginError
from kairoscope.stacks.kairosdb.settings.ports import (
    NATIVE_TRANSPORT_PORT,
    STORAGE_PORT,
    TELNET_PORT,
)

pytestmark = pytest.mark.secured

OPEN = ("/api/v1/health/check", "/api/v1/health/status")
CLOSED = (
    "/",
    "/api/v1/version",
    "/api/v1/kairoscope/settings",
    "/api/v1/metricnames",
    # Other spellings of what is open, or of what is not.
    "/api/v1/health/../version",
    "/api/v1/health/check/../../version",
    "/api/v1/health/check;/../../version",
    "/api/v1/health/%2e%2e/version",
    "//api/v1/version",
)


class Secured(Deployment):
    """A secured deployment, with secrets of its own, that is watched."""

    options = ("--monitoring",)

    def __init__(self) -> None:
        super().__init__()
        self.experiment = self.write("secured", variant(security={"enabled": True}))

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"KAIROSCOPE_SECRETS": str(self.scratch / "secrets")}

    @property
    def url(self) -> str:
        return super().url.replace("http:", "https:")

    @property
    def access(self) -> Access:
        """What the secrets are now."""
        (where,) = (self.scratch / "secrets").glob("local-*")
        return secret_files.access(where)

    @property
    def hosts(self) -> list[str]:
        return [f"{self.net}.{n}" for n in (1, 2, 3)]

    def all_up(self) -> bool:
        """Whether everybody whom it asks answers."""
        targets = self.watched("targets?state=active")["activeTargets"]
        # Loaders answer under a load only.
        health = {t["health"] for t in targets if t["labels"]["job"] != "loader"}
        return health == {"up"}

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body of a GET by somebody who checks the server's name, with our CA."""
        asked = urllib.request.Request(self.url + path, headers=headers or {})  # noqa: S310 (ours)
        tls = ssl.create_default_context(cadata=self.access.ca)
        try:
            with urllib.request.urlopen(asked, timeout=20, context=tls) as answer:  # noqa: S310
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def secured(needed: None) -> Iterator[Secured]:
    with standing(Secured()) as secured:
        yield secured


def load(secured: Secured) -> None:
    """A whole load, which must pass."""
    with secured.loading() as run:
        assert run.end() == 0, run.output
        assert run.json("verdict.json")["verdict"] == "pass"
        assert all(url.startswith("https:") for url in run.json("load/spec.json")["nodes"])


def points(secured: Secured) -> int:
    """Data points in the store."""
    with cql.session(secured.hosts, NATIVE_TRANSPORT_PORT, access=secured.access) as db:
        return int(db.execute("SELECT count(*) FROM kairosdb.data_points", timeout=60).one()[0])


def test_a_load_passes_and_no_secret_is_seen(secured: Secured) -> None:
    told: list[str] = []
    with secured.loading() as run:
        while run.process.poll() is None:
            for process in psutil.process_iter():
                try:
                    told += [*process.cmdline(), *process.environ().values()]
                except psutil.Error:
                    continue
            time.sleep(0.5)
        assert run.end() == 0, run.output
        assert run.json("verdict.json")["verdict"] == "pass"
        told.append(run.output)
    access = secured.access
    hidden = [login.password for login in (access.admin, access.kairosdb, access.rest)]
    hidden.append(access.authorization.removeprefix("Basic "))
    assert not any(secret in text for secret in hidden for text in told)
    holders = {
        path.relative_to(secured.path).as_posix()
        for path in secured.path.rglob("*")
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in hidden)
    }
    # KairosDB has to know one; of the REST interface's it knows a hash, Prometheus itself.
    kairosdb = "local/kairosdb-1/conf/kairosdb-secret.conf"
    assert holders == {kairosdb, "local/monitoring-1/conf/rest-secret"}
    assert access.rest.password.encode() not in (secured.path / kairosdb).read_bytes()


def test_nothing_secret_can_be_read_by_others(secured: Secured) -> None:
    private = [*secured.state.glob("*/pki/node.*"), *secured.state.glob("*/conf/*secret*")]
    assert len(private) == 3 * len(ALL) + 2
    for path in private:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("port", [NATIVE_TRANSPORT_PORT, STORAGE_PORT])
def test_a_storage_node_hears_nobody_without_a_certificate(secured: Secured, port: int) -> None:
    # OPTIONS, the first thing a CQL client says.
    hello = bytes.fromhex("040000000500000000")
    with socket.create_connection((secured.hosts[0], port), timeout=20) as plain:
        plain.sendall(hello)
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
    tls = ssl.create_default_context(cadata=secured.access.ca)
    with socket.create_connection((secured.hosts[0], port), timeout=20) as plain:

        def talk() -> bytes:
            with tls.wrap_socket(plain, server_hostname=secured.hosts[0]) as wrapped:
                wrapped.sendall(hello)
                return wrapped.recv(100)

        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            talk()


def test_cql_without_tls_is_refused(secured: Secured) -> None:
    with (
        pytest.raises(UserError, match="No storage node answers CQL"),
        cql.session(secured.hosts, NATIVE_TRANSPORT_PORT),
    ):
        pass


@pytest.mark.parametrize(
    "login", [Login("cassandra", "cassandra"), Login("kairoscope_a", "guess")], ids=lambda u: u.user
)
def test_a_wrong_login_is_refused(secured: Secured, login: Login) -> None:
    with (
        pytest.raises(LoginError, match=login.user),
        cql.session(secured.hosts, NATIVE_TRANSPORT_PORT, access=secured.access, login=login),
    ):
        pass


def test_roles_may_what_they_need(secured: Secured) -> None:
    access = secured.access
    with cql.session(secured.hosts, NATIVE_TRANSPORT_PORT, access=access) as db:
        roles = {row.role: (row.super, row.login) for row in db.execute("LIST ROLES")}
        replication = db.execute(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'system_auth'"
        ).one()[0]
    assert roles == {
        "cassandra": (False, False),
        access.admin.user: (True, True),
        access.kairosdb.user: (False, True),
    }
    assert replication["dc1"] == "3"
    with cql.session(
        secured.hosts, NATIVE_TRANSPORT_PORT, access=access, login=access.kairosdb
    ) as db:
        assert db.execute("SELECT name FROM kairosdb.spec").one()
        for statement in (
            "SELECT * FROM system_auth.roles",
            "DROP TABLE kairosdb.data_points",
            "ALTER TABLE kairosdb.spec WITH comment = 'mine'",
            "CREATE ROLE another",
        ):
            with pytest.raises((Unauthorized, NoHostAvailable)):
                db.execute(statement)


def test_rest_wants_the_password_but_for_its_health(secured: Secured) -> None:
    headers = secured.access.headers
    for path in OPEN:
        assert secured.get(path)[0] in (200, 204)
    for path in CLOSED:
        assert secured.get(path)[0] == 401, path
    assert secured.get("/api/v1/version", {"Authorization": "Basic a2Fpcm9zY29wZTp4"})[0] == 401
    assert secured.get("/api/v1/version", headers)[0] == 200
    # It gets a TLS alert, which is not HTTP.
    with pytest.raises((OSError, http.client.HTTPException)):
        urllib.request.urlopen(f"http://{secured.net}.1:8080/api/v1/version", timeout=20)
    with pytest.raises(OSError), socket.create_connection((f"{secured.net}.1", TELNET_PORT), 5):
        pass


def test_settings_that_kairosdb_tells_have_no_secret(secured: Secured) -> None:
    status, body = secured.get("/api/v1/kairoscope/settings", secured.access.headers)
    settings = json.loads(body)["settings"]
    assert status == 200
    assert settings["kairosdb.datastore.cassandra.write_cluster.use_ssl"] is True
    assert secured.access.kairosdb.password not in body.decode()
    assert not any("password" in key or "credential" in key for key in settings)


def test_everybody_is_watched(secured: Secured) -> None:
    said = secured.well("verify")
    assert ", 0 FAIL" in said
    assert re.search(r"monitoring .* targets .* 7 as wanted .*ok", said)
    assert "Prometheus http://" in secured.status().stdout


def test_rules_find_what_they_ask_for(secured: Secured) -> None:
    load(secured)
    rules = "".join(
        (paths.DASHBOARDS / "prometheus" / name).read_text()
        for name in ("alerts.yml", "recording.yml")
    )
    # ScyllaDB's are another engine's.
    names = set(re.findall(r"\b(?:kairosdb|cassandra|node|kairoscope)_[a-z0-9_]+", rules))
    names |= set(re.findall(r"kairoscope:[a-z0-9_:]+", rules))
    # Backups and repairs are for hosts.
    names -= {f"kairoscope_last_{verb}_timestamp_seconds" for verb in ("backup", "repair")}

    def seen(name: str) -> bool:
        # The loaders' are gone with the load.
        asked = urllib.parse.urlencode({"query": f"last_over_time({name}[10m])"})
        return bool(secured.watched(f"query?{asked}")["result"])

    def missing() -> set[str]:
        return {name for name in names if not seen(name)}

    wait_for("a series of each metric", lambda: not missing(), 120, lambda: str(missing()))
    groups = secured.watched("rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
    fires = {alert["labels"]["alertname"] for alert in secured.watched("alerts")["alerts"]}
    # This machine's own disk and clock are not ours.
    assert fires - {"DiskFilling", "DiskAlmostFull", "ClockOff"} == {"Watchdog"}


def test_panels_of_the_dashboards_find_what_they_ask_for(secured: Secured) -> None:
    # Loaders are asked every 15 s, while they load: one load may be seen once, and has no rate.
    load(secured)
    load(secured)
    wanted = [
        (name, panel)
        for name, panel in panels()
        if name in KAIROSDBS.values()
        if panel.get("only") != "scylla" and "may_be_empty" not in panel
    ]
    assert not empty(wanted, secured.watched, "5m", 1200)


def test_grafanas_own_components_draw_them(secured: Secured, tmp_path: Path) -> None:
    drawing.ready()
    load(secured)
    now = int(time.time())
    files = sorted(KAIROSDBS)
    drawn = drawing.draw(tmp_path, secured.prometheus, now - 1200, now, files)
    may_be_empty = {
        (name, panel["title"])
        for name, panel in panels()
        if panel.get("only") == "scylla" or "may_be_empty" in panel
    }
    for name, picture in drawn.items():
        assert not picture.troubles
        for panel in picture.panels:
            if (name, panel["title"]) not in may_be_empty:
                assert not drawing.wrong(panel), name


def test_new_passwords_and_certificates_lose_nothing(secured: Secured) -> None:
    load(secured)
    before = secured.access
    stored = points(secured)
    assert stored > 0
    done = secured.cli("rotate", "passwords", timeout_s=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    after = secured.access
    assert not after.retired
    for old in (before.admin, before.kairosdb):
        with (
            pytest.raises(LoginError),
            cql.session(secured.hosts, NATIVE_TRANSPORT_PORT, access=after, login=old),
        ):
            pass
    done = secured.cli("rotate", "rest", timeout_s=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert secured.get("/api/v1/version", before.headers)[0] == 401
    assert secured.get("/api/v1/version", secured.access.headers)[0] == 200
    done = secured.cli("rotate", "certificates", timeout_s=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    wait_for("Prometheus let in again", secured.all_up, 60)
    assert points(secured) == stored
    load(secured)


def test_a_new_ca_loses_nothing(secured: Secured) -> None:
    stored = points(secured)
    old = secured.access.ca
    done = secured.cli("rotate", "ca", timeout_s=1500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    new = secured.access.ca
    assert new.count("BEGIN CERTIFICATE") == old.count("BEGIN CERTIFICATE") == 1
    assert new != old
    with pytest.raises(ssl.SSLError), socket.create_connection((f"{secured.net}.1", 8080)) as plain:
        ssl.create_default_context(cadata=old).wrap_socket(
            plain, server_hostname=f"{secured.net}.1"
        )
    wait_for("Prometheus let in again", secured.all_up, 60)
    assert points(secured) == stored
    load(secured)


def test_a_new_password_waits_for_the_end_of_a_load(secured: Secured) -> None:
    with secured.loading() as run:
        wait_for("the load's start", lambda: run.acknowledged() > 0)
        assert "A load runs on target local" in secured.refused("rotate", "rest")
        assert run.end() == 0, run.output
