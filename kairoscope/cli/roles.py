"""What Ansible's roles call on the control machine: not in `kairoscope --help`, as nobody types it.

Secrets are read from their folder, not taken as arguments: those would stand in a process list.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import click

from kairoscope.cli.options import node_options
from kairoscope.errors import UserError

role_commands: list[click.Command] = []


def _command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    def made(function: Callable[..., Any]) -> click.Command:
        command = click.command(name, hidden=True)(function)
        role_commands.append(command)
        return command

    return made


@_command("schema")
@node_options
@click.option("--keyspace", required=True)
def schema(inventory: Path, node: str, keyspace: str) -> None:
    """Apply the CQL script on standard input through a storage node (called by its role)."""
    from kairoscope.hosts import inventory as inventories
    from kairoscope.stacks.kairosdb.servers import client, cql

    found = inventories.read(inventory)
    # The driver looks for every node that the ring names, so there are ways to all of them.
    with (
        client.connect(found, found.storage) as talk,
        talk.cql([found.host(node)]) as session,
    ):
        changed = cql.apply_schema(session, keyspace, sys.stdin.read())
    click.echo("schema changed" if changed else "schema as planned")


@_command("access")
@click.option("--inventory", type=click.Path(exists=True, path_type=Path), required=True)
@click.argument("step", type=click.Choice(["replicate", "roles", "grants", "drop-retired"]))
def access(inventory: Path, step: str) -> None:
    """Bring the database's roles to what the secrets say (called by the access role)."""
    from kairoscope.hosts import inventory as inventories
    from kairoscope.stacks.kairosdb.servers import database_roles

    changes = database_roles.apply(step, inventories.read(inventory))
    click.echo("\n".join(changes) or "as planned")


@_command("check-conf")
@click.option("--reference", type=click.Path(exists=True, path_type=Path), required=True)
@click.argument("conf", type=click.File())
def check_conf(reference: Path, conf: TextIO) -> None:
    """Check a rendered kairosdb.conf against KairosDB's own key list (called by its role)."""
    from kairoscope.stacks.kairosdb.settings import hocon

    hocon.check(conf.read(), reference)


@_command("check-effective")
@node_options
@click.option("--wait", "wait_s", type=float, default=0, help="Seconds for it to become healthy")
@click.argument("conf", type=click.File())
def check_effective(inventory: Path, node: str, wait_s: float, conf: TextIO) -> None:
    """Check that a KairosDB node is healthy and runs with CONF's settings (called by its role)."""
    from kairoscope.hosts import inventory as inventories
    from kairoscope.stacks.kairosdb.servers import client
    from kairoscope.stacks.kairosdb.settings import hocon

    found = inventories.read(inventory)
    host = found.host(node)
    with client.connect(found, [host]) as talk:
        talk.wait_until_healthy(host, wait_s)
        try:
            status = talk.get_json(host, "/api/v1/kairoscope/settings", timeout_s=10)
        except OSError as error:
            raise UserError(f"{node}: KairosDB does not tell its settings: {error}") from error
        count = hocon.check_effective(conf.read(), status, node)
    click.echo(f"{count} settings as planned")


@_command("certificate-metrics")
@click.argument("secrets_dir", type=click.Path(exists=True, path_type=Path))
@click.argument("node")
def certificate_metrics(secrets_dir: Path, node: str) -> None:
    """Print when NODE's certificate and the CA end, for Prometheus (called by its role)."""
    from kairoscope.deploy import monitoring

    click.echo(monitoring.certificate_metrics(secrets_dir, node))


@_command("scylla-superuser")
@click.argument("secrets_dir", type=click.Path(exists=True, path_type=Path))
def scylla_superuser(secrets_dir: Path) -> None:
    """Print as JSON the first superuser of SECRETS_DIR and its hash (called by the scylla role)."""
    from kairoscope.hosts import secret_files
    from kairoscope.stacks.kairosdb.scylla import options

    admin = secret_files.access(secrets_dir).admin
    click.echo(json.dumps({"name": admin.user, "hash": options.password_hash(admin)}))


@_command("scylla-release")
@click.argument("version")
def scylla_release(version: str) -> None:
    """Print as JSON what ScyllaDB VERSION uses and is shipped with (called by its role)."""
    from kairoscope.stacks.kairosdb.scylla import options

    known = options.release(version)
    told = {"described_by": known.described_by, "options": known.options}
    click.echo(json.dumps(told | {"shipped": known.shipped}))


@_command("check-scylla")
@click.option("--version", required=True, help="Release that is deployed, such as 2026.1.11.")
@click.option("--arguments", default="", help="Arguments of the server (SCYLLA_ARGS).")
@click.argument("scylla_yaml", type=click.File())
def check_scylla(version: str, arguments: str, scylla_yaml: TextIO) -> None:
    """Check a rendered SCYLLA_YAML and arguments against VERSION's options (called by its role)."""
    from kairoscope.stacks.kairosdb.scylla import options

    known = options.check(version, scylla_yaml.read(), arguments)
    click.echo(f"every option is used by ScyllaDB {version} (options of {known.described_by})")
