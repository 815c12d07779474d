"""How this machine talks with the servers of a deployed target: ways to them, and the right to."""

import http.client
import json
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import Session

from kairoscope.errors import UserError
from kairoscope.hosts import direct, secret_files
from kairoscope.hosts.forwards import Ways, open_ways
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.secret_files import Access
from kairoscope.stacks.kairosdb.servers import cql, engine
from kairoscope.stacks.kairosdb.servers.engine import Server

DIRECT = Ways()
NUDGE_EVERY_S = 5
"""How often to call `Client.nudge`, in s, where the queue is KairosDB's own."""

_NUDGE_METRIC = "kairoscope.drain"
_QUEUE = "/api/v1/kairoscope/queue"
_OF_OUR_QUEUE = ("oldest_ms", "disk_bytes", "dead_letters", "unreadable")
_KAIROSDBS_OWN = "org.kairosdb."
# The points of nudges are of no use to anybody a while later.
_NUDGE_TTL_S = 3600


@dataclass(frozen=True)
class KairosDBStatus:
    """Health of a KairosDB node; depths in data points, None where it did not tell.

    Fields with a default are those of the coalescing queue: the stock queue does not tell them.
    """

    healthy: bool
    """By its own health check, which asks the store, and by what its queue says of itself."""
    waiting: int | None
    since_checkpoint: int | None
    read_only: bool | None
    stock_queue: bool | None
    """Whether points leave it by KairosDB's own queue; see `Client.nudge`."""
    oldest_ms: int | None = None
    """Age of the oldest point that the store does not have."""
    disk_bytes: int | None = None
    """Of the queue's files."""
    dead_letters: int | None = None
    """Points since its start that the store refused for good."""
    unreadable: int | None = None
    """Records since its start that its file had, but torn."""
    troubles: tuple[str, ...] = ()
    """What is wrong with its queue, a sentence each."""

    @property
    def answers(self) -> bool:
        """Whether it told of its queue; a node that is not healthy may."""
        return self.waiting is not None


NO_ANSWER = KairosDBStatus(False, None, None, None, None)


@dataclass(frozen=True)
class Client:
    """Requests to the servers of a target. Fields: ways to them; what proves us, if secured."""

    ways: Ways = DIRECT
    access: Access | None = None

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The client side of TLS, where the target is secured."""
        return self.access.tls if self.access else None

    @property
    def headers(self) -> dict[str, str]:
        return self.access.headers if self.access else {}

    def url(self, host: Host) -> str:
        """Base URL of a KairosDB node, as seen from here."""
        return self.ways.url(host)

    def get(self, host: Host, path: str, timeout_s: float = 5) -> bytes:
        """GET from a KairosDB node. OSError if it does not answer, or not with 2xx."""
        return self._ask(host, path, None, timeout_s)

    def post(self, host: Host, path: str, document: Any, timeout_s: float = 10) -> bytes:
        """POST a document as JSON to a KairosDB node. OSError as for `get`."""
        return self._ask(host, path, json.dumps(document).encode(), timeout_s)

    def _ask(self, host: Host, path: str, body: bytes | None, timeout_s: float) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = urllib.request.Request(self.url(host) + path, body, headers | self.headers)  # noqa: S310
        try:
            with direct.answer(request, timeout_s, self.tls) as answer:
                return answer.read()
        except http.client.HTTPException as error:  # one that died while it answered; no OSError
            raise OSError(f"{host.name}: {path}: {error!r}") from error

    def get_json(self, host: Host, path: str, timeout_s: float = 5) -> Any:
        """The same for a JSON document. OSError also if it is none."""
        try:
            return json.loads(self.get(host, path, timeout_s))
        except ValueError as error:
            raise OSError(f"{host.name}: {path} is not JSON: {error}") from error

    def kairosdb(self, host: Host) -> KairosDBStatus:
        """Ask one KairosDB node. Never raises: a node that does not answer is not healthy.

        One whose health check fails is asked all the same: what its queue says is why.
        """
        try:
            queue = self.get_json(host, _QUEUE)
            settings = self.get_json(host, "/api/v1/kairoscope/settings")
        except OSError:
            return NO_ANSWER
        try:
            self.get(host, "/api/v1/health/check", timeout_s=10)
            healthy = bool(queue.get("healthy", True))
        except OSError:
            healthy = False
        queue_class = settings["settings"]["kairosdb.queue_processor.class"]
        return KairosDBStatus(
            healthy,
            queue["waiting"],
            queue["since_checkpoint"],
            settings["read_only"],
            queue_class.startswith(_KAIROSDBS_OWN),
            **{key: queue.get(key) for key in _OF_OUR_QUEUE},
            troubles=tuple(queue.get("troubles", ())),
        )

    def nudge(self, host: Host) -> int:
        """Give a KairosDB node one point; how many it has taken for sure, 0 or 1.

        The stock queue looks at its clock for a checkpoint, and after a restart at what waits on
        its disk, only when points come (QueueProcessor of 1.3.0: it counts what is in memory). The
        coalescing queue does both by itself, and would keep the point for its window.
        """
        point = {
            "name": _NUDGE_METRIC,
            "datapoints": [[int(time.time() * 1000), 0]],
            "tags": {"node": host.name},
            "ttl": _NUDGE_TTL_S,
        }
        try:
            self.post(host, "/api/v1/datapoints", [point])
        except OSError:
            return 0
        return 1

    def wait_until_healthy(self, host: Host, limit_s: float) -> None:
        """Wait until a KairosDB node is healthy. UserError if it is not after `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self.get(host, "/api/v1/health/check", timeout_s=5)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise UserError(
                        f"{host.name} ({host.address}:{host.vars['http_port']}) is not healthy "
                        f"after {limit_s:.0f} s: {error}. Its log: {host.home}/log/kairosdb.log"
                    ) from error
                time.sleep(1)
            else:
                return

    @contextmanager
    def cql(
        self, hosts: list[Host], consistency: int = ConsistencyLevel.LOCAL_QUORUM
    ) -> Iterator[Session]:
        """A session to the storage nodes; see `cql.session`."""
        port = int(hosts[0].vars["native_transport_port"])
        addresses = [host.address for host in hosts]
        with cql.session(addresses, port, consistency, self._access(), self.ways.endpoints) as db:
            yield db

    def _access(self) -> Access | None:
        """What the database asks for now: a load outlives a change of its passwords."""
        return secret_files.access(self.access.folder) if self.access else None

    @contextmanager
    def one_node(self, host: Host) -> Iterator[Session]:
        """A session to one storage node alone; see `cql.one_node`."""
        port = int(host.vars["native_transport_port"])
        with cql.one_node(host.address, port, self._access(), self.ways.endpoints) as db:
            yield db

    def touch(self, host: Host) -> None:
        """Have one storage node coordinate one read; see `cql.touch`."""
        with self.one_node(host) as db:
            cql.touch(db, str(host.vars["kairosdb_keyspace"]))

    def server(self, host: Host) -> Server:
        """What a storage node says it is. Never raises: one that does not tell is unknown."""
        try:
            with self.one_node(host) as db:
                return engine.ask(db)
        except (*cql.SAID, OSError, UserError) as error:
            return Server.silent(" ".join(str(error).split()) or type(error).__name__)


def access_of(inventory: Inventory) -> Access | None:
    """What proves us to a target's servers; None where they ask for nothing."""
    given = inventory.storage[0].vars
    return secret_files.access(Path(given["secrets_dir"])) if given.get("secured") else None


@contextmanager
def connect(inventory: Inventory, hosts: list[Host] | None = None) -> Iterator[Client]:
    """A client for a target's servers, or only some of them, to the end of the block.

    Raises:
        UserError: a host cannot be reached, or the secrets are not there.
    """
    access = access_of(inventory)
    with open_ways(inventory.hosts if hosts is None else hosts) as ways:
        yield Client(ways, access)
