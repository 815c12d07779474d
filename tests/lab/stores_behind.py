"""Three Cassandras in a lab's network: stand-ins for ScyllaDB keep in them what they are told.

Not a part of what is tested: each says of itself that it has the address of the stand-in before it
(scylla_stand_in/files/store.py), and neither has TLS.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from harness import wait_for

from kairoscope import paths
from kairoscope.deploy import bundles
from kairoscope.hosts.java import java17
from kairoscope.targets.lab import Lab

PORT = 9042
_SUPERUSER = "behind"
"""See SUPERUSER in scylla_stand_in/files/store.py."""

_YAML = """
cluster_name: behind
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 1
initial_token: "{token}"
auto_bootstrap: false
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "{seed}"}}]
listen_address: {address}
rpc_address: {address}
broadcast_rpc_address: {told}
start_native_transport: true
endpoint_snitch: GossipingPropertyFileSnitch
data_file_directories: ["{home}/data"]
commitlog_directory: "{home}/commitlog"
hints_directory: "{home}/hints"
saved_caches_directory: "{home}/saved_caches"
cdc_raw_directory: "{home}/cdc"
commitlog_sync: periodic
commitlog_sync_period: 100ms
batch_size_fail_threshold: 4096KiB
batch_size_warn_threshold: 4096KiB
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
role_manager: CassandraRoleManager
"""
_LOGBACK = """
<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{home}/system.log</file>
    <encoder><pattern>%-5level %date{{ISO8601}} %logger{{0}} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""
# Who connects as the administrator of a stand-in is this one; ScyllaDB's have no role `cassandra`.
_ROLES = """
import sys
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster
dc, name, *pairs = sys.argv[1:]
listens = dict(pair.split("=") for pair in pairs)

class Here:
    # Where they say that they are nobody is yet.
    def translate(self, told):
        return listens[told]

def session(user):
    login = PlainTextAuthProvider(user, user)
    return Cluster(list(listens.values()), auth_provider=login, address_translator=Here(),
                   protocol_version=4, connect_timeout=30)

with session("cassandra") as cluster:
    db = cluster.connect()
    db.execute("ALTER KEYSPACE system_auth WITH replication = "
               f"{{'class': 'NetworkTopologyStrategy', '{dc}': 3}}")
    db.execute(f"CREATE ROLE IF NOT EXISTS {name} "
               f"WITH PASSWORD = '{name}' AND LOGIN = true AND SUPERUSER = true")
with session(name) as cluster:
    cluster.connect().execute("DROP ROLE cassandra")
"""


class Stores:
    """The three of them; they end with `close`, or with the lab's network."""

    def __init__(self, lab: Lab, folder: Path, datacenter: str, told: Mapping[str, str]) -> None:
        """`told`: the addresses that they listen on, each with that which it says to have."""
        self._lab, self._folder, self._dc = lab, folder, datacenter
        self._told = dict(told)
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start them and wait until they take connections and have their roles."""
        with tarfile.open(bundles.bundle("cassandra").archive) as archive:
            archive.extractall(self._folder / "bundle", filter="data")
        try:
            for number, address in enumerate(self._told):
                words = ("address", "add", f"{address}/24", "dev", self._lab.network.switch)
                subprocess.run(["ip", "-n", self._lab.network.name, *words], check=True)
                self._running.append(self._start(number, address))
            for address in self._told:
                wait_for(f"the store {address}", lambda a=address: self._listens(a), 300)  # type: ignore[misc]
            pairs = [f"{told}={listens}" for listens, told in self._told.items()]
            roles = [sys.executable, "-c", _ROLES, self._dc, _SUPERUSER, *pairs]
            said = ""

            def made() -> bool:
                nonlocal said
                done = self._inside(*roles)
                said = done.stderr
                return not done.returncode

            wait_for("the stores' roles", made, 180, lambda: said)
        except BaseException:
            self.close()
            raise

    def _inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._lab.network.inside(*command), capture_output=True, text=True, check=False
        )

    def _listens(self, address: str) -> bool:
        assert all(process.poll() is None for process in self._running), self._log()
        return bool(self._inside("ss", "-Hltn", "src", f"{address}:{PORT}").stdout.strip())

    def _log(self) -> str:
        logs = (self._folder / str(i) / "output.txt" for i in range(len(self._told)))
        return "\n".join(log.read_text()[-2000:] for log in logs if log.exists())

    def _start(self, number: int, address: str) -> subprocess.Popen[bytes]:
        home = self._folder / str(number)
        conf = home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "cassandra.yaml").write_text(
            _YAML.format(
                token=number * (2**64 // len(self._told)) - 2**63,
                seed=next(iter(self._told)),
                address=address,
                told=self._told[address],
                home=home,
            )
        )
        (conf / "cassandra-rackdc.properties").write_text(f"dc={self._dc}\nrack=rack{number + 1}\n")
        (conf / "logback.xml").write_text(_LOGBACK.format(home=home))
        role = paths.ANSIBLE / "roles" / "cassandra" / "templates" / "java-modules.args.j2"
        modules = [line for line in role.read_text().splitlines() if line.startswith("-")]
        command = [
            *(java17(), *modules, "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            f"-Dcassandra.config=file://{conf}/cassandra.yaml",
            f"-Dcassandra-rackdc.properties=file://{conf}/cassandra-rackdc.properties",
            f"-Dcassandra.storagedir={home}",
            f"-Dcassandra.logdir={home}",
            "-Dcassandra.foreground=yes",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.superuser_setup_delay_ms=1000",
            f"-Djava.io.tmpdir={home}",
            *("-cp", f"{conf}:{self._folder / 'bundle'}/lib/*"),
            "org.apache.cassandra.service.CassandraDaemon",
        ]
        with (home / "output.txt").open("w") as output:
            return subprocess.Popen(
                self._lab.network.inside(*command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def moved(self, was: str, now: str) -> None:
        """One says to have another address from now on, with all that it has stored."""
        (number,) = (i for i, told in enumerate(self._told.values()) if told == was)
        listens = list(self._told)[number]
        self._told[listens] = now
        self._running[number].kill()
        self._running[number].wait()
        self._running[number] = self._start(number, listens)
        wait_for(f"the store {listens}", lambda: self._listens(listens), 300)

    def close(self) -> None:
        """End them."""
        for process in self._running:
            process.kill()
            process.wait()
