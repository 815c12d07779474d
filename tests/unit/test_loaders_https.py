"""The loaders over HTTPS: whom they trust, how they say who they are, and where it is not written.

The server is one that wants what KairosDB's plugin wants, with certificates of a CA as a deploy
makes it.
"""

import asyncio
import dataclasses
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from kairoscope.hosts import secret_files
from kairoscope.hosts.inventory import Host
from kairoscope.run import fleet as loader_hosts
from kairoscope.stacks.kairosdb.readback import queries
from loaders.credentials import Credentials
from loaders.query.reader import Reader
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Queries, Step
from loaders.send.connection import Address
from loaders.send.worker import Worker

pytestmark = pytest.mark.timeout(120)

ADDRESS = "127.0.0.1"


class Server:
    """An HTTPS server in a thread, with the certificate of one host of a target."""

    def __init__(self, access: secret_files.Access, host: str) -> None:
        self.access = access
        self.requests: list[str] = []
        self.points = 0
        self.refused = 0
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(access.folder / "pki" / host / "node.pem")
        self._loop = asyncio.new_event_loop()
        self._runner = web.AppRunner(self._app())
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Authorization") != self.access.authorization:
            self.refused += 1
            return web.Response(status=401)
        self.requests.append(request.path)
        if request.path == "/api/v1/datapoints":
            self.points += len(json.loads(body))
            return web.Response(status=204)
        if request.path == "/api/v1/kairoscope/queue":
            return web.json_response({"waiting": 0})
        return web.json_response(
            {"queries": [{"results": []} for _ in json.loads(body)["metrics"]]}
        )

    def __enter__(self) -> "Server":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._runner.setup(), self._loop).result(30)

        async def listen() -> int:
            site = web.TCPSite(self._runner, ADDRESS, 0, ssl_context=self._tls)
            await site.start()
            port: int = self._runner.addresses[0][1]
            return port

        port = asyncio.run_coroutine_threadsafe(listen(), self._loop).result(30)
        self.url = f"https://{ADDRESS}:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> secret_files.Access:
    folder = tmp_path_factory.mktemp("secrets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAIROSCOPE_SECRETS", str(folder))
        where = secret_files.ensure("test", {"kairosdb-1": [ADDRESS], "elsewhere": ["10.0.0.9"]})
    return secret_files.access(where)


@pytest.fixture
def server(access: secret_files.Access) -> Iterator[Server]:
    with Server(access, "kairosdb-1") as server:
        yield server


def load(*nodes: str, **more: Any) -> LoadSpec:
    return LoadSpec(
        **{
            "sensors": 20,
            "steps": [Step(50, 10)],
            "warmup_ticks": 2,
            "start_ms": int(time.time() * 1000),
            "nodes": list(nodes),
            "metric": "SENSOR_{n}",
            "tags": {"status": "good"},
            "sensors_per_request": 5,
            "request_timeout_s": 30,
            "retry_for_s": 0.2,
            "latency_limit_ms": 60_000,
            "connections_per_node": 4,
            **more,
        }
    )


async def test_points_arrive_with_the_password(server, access, tmp_path):
    worker = Worker(load(server.url), 0, tmp_path, credentials=access.loader_credentials)
    result = await worker.run()
    assert result["acknowledged"] == result["scheduled"] == server.points == 200
    assert server.refused == 0


async def test_without_the_password_every_point_is_rejected(server, access, tmp_path):
    worker = Worker(load(server.url), 0, tmp_path, credentials=Credentials(access.ca))
    result = await worker.run()
    assert result["rejected"] == result["scheduled"]
    assert server.points == 0
    assert set(result["errors"]) == {"http_401"}


@pytest.mark.parametrize("reason", ["another host's certificate", "another CA"])
async def test_nothing_is_said_to_a_server_that_is_not_the_one(
    access, tmp_path, monkeypatch, reason
):
    ca, host = access.ca, "elsewhere"
    if reason == "another CA":
        monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "other"))
        ca, host = secret_files.access(secret_files.ensure("other", {})).ca, "kairosdb-1"
    with Server(access, host) as server:
        worker = Worker(
            load(server.url), 0, tmp_path, credentials=Credentials(ca, access.authorization)
        )
        result = await worker.run()
        assert not server.requests
        assert not server.refused
    # The password, and the points, were kept back.
    assert result["not_sent"] == result["scheduled"]
    assert "CERTIFICATE_VERIFY_FAILED" in result["first_errors"][0]


async def test_queries_and_the_read_back_go_the_same_way(server, access, tmp_path):
    # Points are looked for that are long there, to have something to ask for.
    spec = load(server.url, steps=[Step(1000, 20)], queries=Queries(50, 5, 1, 2, 1))
    spec = dataclasses.replace(spec, start_ms=spec.start_ms - 18_000)
    result = await Reader(spec, 0, tmp_path, credentials=access.loader_credentials).run()
    assert result["sent"] > 0
    assert result["failed"] == 0, result["first_errors"]
    here = await queries.already_there(Schedule(spec), nodes=[server.url], access=access)
    assert here == 0
    assert server.refused == 0


def test_an_agent_hands_them_on_and_writes_them_nowhere(server, access, tmp_path):
    """To workers and a reader, over pipes: not in an argument, an environment or a file."""
    host = Host(
        "loader-1",
        "loader",
        {
            "ansible_connection": "local",
            "address": ADDRESS,
            "home": str(tmp_path / "loader-1"),
            "loader_venv": sys.prefix,
        },
    )
    told: list[str] = []

    def look(_: object) -> None:
        for process in psutil.process_iter():
            try:
                command = process.cmdline()
                if any(part.startswith("loaders.") for part in command):
                    told.extend([*command, *process.environ().values()])
            except psutil.Error:
                continue

    spec = load(server.url, steps=[Step(100, 50)], queries=Queries(10, 1, 1, 1, 1))
    with loader_hosts.connect([host], 5000) as fleet:
        results = fleet.run(spec, tmp_path / "run", look, credentials=access.loader_credentials)
    assert [result["acknowledged"] for result in results] == [server.points] == [1000]
    assert "/api/v1/datapoints/query" in server.requests
    assert any("loaders.send.worker" in text for text in told)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for secret in (access.rest.password, access.authorization.removeprefix("Basic ")):
        assert not any(secret in text for text in told)
        assert not any(secret.encode() in content for content in files)


def test_over_plain_http_no_password_is_sent(access):
    address = Address.of("http://127.0.0.1:8080", access.loader_credentials)
    assert "Authorization" not in address.prefix
    assert address.credentials == Credentials()


@pytest.mark.parametrize("what", ["hunter2", '{"hunter2": 1}', '{"ca": 2}', '{"ca": "hunter2"}'])
def test_bad_credentials_are_refused_and_not_quoted(tmp_path, what):
    (tmp_path / "spec.json").write_text(load("https://127.0.0.1:9").to_json())
    done = subprocess.run(
        [sys.executable, "-P", "-m", "loaders.send.worker", tmp_path / "spec.json", "0", tmp_path],
        input=what,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("worker 0: credentials: ")
    assert "hunter2" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
