"""Roles and permissions in the database of a secured target, kept as its secrets say.

Each function can be called again at any time, also after an interruption, and returns what it
changed. The same statements serve Cassandra and ScyllaDB; what the latter does without (replicas of
roles, from 6.0) is looked at, not assumed.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cassandra.cluster import Session

from kairoscope.errors import UserError
from kairoscope.hosts import secret_files
from kairoscope.hosts.inventory import Inventory
from kairoscope.hosts.secret_files import Access, Login
from kairoscope.stacks.kairosdb.servers import client, cql
from kairoscope.stacks.kairosdb.servers.cql import Endpoints, LoginError, UndecidedLoginError

REPAIR = "system_auth is to be repaired"
"""What `apply` says where copies of roles are not yet where they belong."""

# What a fresh cluster begins with.
_DEFAULT = Login("cassandra", "cassandra")

# A fresh node makes the default role some ten seconds after its start, and tries again every ten
# while not all nodes are up.
_FRESH_S = 180
_AGAIN_S = 2.0
AUTH_KEYSPACE = "system_auth"
# So many replicas of the roles let a node be down, or two of five; more only cost.
_AUTH_REPLICAS = 3


@dataclass(frozen=True)
class Database:
    """A secured cluster: `hosts` are addresses of its nodes, the rest is as of `cql.session`."""

    hosts: list[str]
    port: int
    access: Access
    endpoints: Endpoints | None = None

    @contextmanager
    def session(self, login: Login | None = None) -> Iterator[Session]:
        """A session as the administrator, or as `login`; errors as of `cql.session`."""
        with cql.session(
            self.hosts, self.port, access=self.access, endpoints=self.endpoints, login=login
        ) as session:
            yield session

    def accepts(self, login: Login) -> bool:
        """Whether the login works. UndecidedLoginError if the nodes cannot tell."""
        try:
            with self.session(login):
                return True
        except LoginError:
            return False


def apply(step: str, inventory: Inventory) -> list[str]:
    """Take one step on a secured target; what was changed, a line each.

    Steps: "replicate" (then repair the keyspace if it says REPAIR), "roles", "grants" (once the
    keyspace is there), "drop-retired" (once nothing uses the roles that were replaced).

    Raises:
        UserError: the target is not secured, cannot be reached, or does not take our login.
    """
    with client.connect(inventory, inventory.storage) as talk:
        if talk.access is None:
            raise UserError(f"{inventory.path}: the target is not secured; it has no roles.")
        first = inventory.storage[0].vars
        database = Database(
            [host.address for host in inventory.storage],
            int(first["native_transport_port"]),
            talk.access,
            talk.ways.endpoints,
        )
        if step == "replicate":
            return [REPAIR] if replicate(database) else []
        if step == "roles":
            return prepare(database)
        if step == "grants":
            return grant(database, str(first["kairosdb_keyspace"]))
        dropped = drop_retired(database)
        secret_files.forget_retired(talk.access.folder)
        return dropped


def replicate(database: Database) -> bool:
    """Have the roles' keyspace replicated; True if it must be repaired before `prepare`.

    That is so until `prepare` was through: what had fewer replicas is not yet on all of them.

    Raises:
        UserError: no node answers, or none takes a login that we know.
    """
    login = _working_login(database)
    with database.session(login) as session:
        replication = replication_of_roles(session)
        if replication is None:
            return False
        datacenters: dict[str, int] = {}
        for host in session.cluster.metadata.all_hosts():
            datacenters[host.datacenter] = datacenters.get(host.datacenter, 0) + 1
        wanted = {
            "class": "org.apache.cassandra.locator.NetworkTopologyStrategy",
            **{name: str(min(nodes, _AUTH_REPLICAS)) for name, nodes in datacenters.items()},
        }
        if replication != wanted:
            copies = "".join(f", '{n}': {c}" for n, c in wanted.items() if n != "class")
            session.execute(
                f"ALTER KEYSPACE {AUTH_KEYSPACE} WITH replication = "
                f"{{'class': 'NetworkTopologyStrategy'{copies}}}"
            )
            return True
    return login is not database.access.admin


def replication_of_roles(session: Session) -> dict[str, str] | None:
    """The replication of the keyspace that has the roles; None where they are on every node.

    So they are on ScyllaDB from 6.0 on, where `system_auth` is there for cqlsh alone: one copy, and
    no tables (create_legacy_keyspace_if_missing in auth/service.cc, 6.0.4 to 2026.2.5; met: 6.2.3).
    """
    tables = session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [AUTH_KEYSPACE]
    )
    return cql.replication(session, AUTH_KEYSPACE) if tables.one() else None


def prepare(database: Database) -> list[str]:
    """Have the roles that the secrets name, with their passwords, and the default one disabled.

    The default role stays, without a login and without rights: a node that finds no role at all
    would make it again.

    Raises:
        UserError: no node answers, or none takes a login that we know.
    """
    admin, kairosdb = database.access.admin, database.access.kairosdb
    changes = []
    login = _working_login(database)
    if login is not admin:
        with database.session(login) as session:
            _have_role(session, admin, superuser=True)
        changes.append(f"role {admin.user} made")
    with database.session() as session:
        roles = {row.role: row for row in session.execute("LIST ROLES")}
        default = roles.get(_DEFAULT.user)
        if default is not None and (default.super or default.login):
            session.execute(f"ALTER ROLE {_DEFAULT.user} WITH SUPERUSER = false AND LOGIN = false")
            changes.append(f"role {_DEFAULT.user} disabled")
        if not database.accepts(kairosdb):
            _have_role(session, kairosdb, superuser=False)
            changes.append(f"role {kairosdb.user} made")
    return changes


def grant(database: Database, keyspace: str) -> list[str]:
    """Let KairosDB's role read and write its keyspace, which must be there.

    And create: at every start KairosDB says CREATE KEYSPACE and CREATE TABLE … IF NOT EXISTS, for
    which the store wants the permission even where nothing is to be done. On all keyspaces, since
    one that is to be created has no permissions of its own.

    Raises:
        UserError: no node answers.
    """
    user = database.access.kairosdb.user
    with database.session() as session:

        def permissions() -> set[tuple[str, str]]:
            rows = session.execute(f"LIST ALL PERMISSIONS OF {user}")
            return {(row.resource, row.permission) for row in rows}

        before = permissions()
        for permission, resource in (
            ("CREATE", "ALL KEYSPACES"),
            ("SELECT", f"KEYSPACE {keyspace}"),
            ("MODIFY", f"KEYSPACE {keyspace}"),
        ):
            session.execute(f"GRANT {permission} ON {resource} TO {user}")
        new = sorted(permissions() - before)
    return [f"{permission} on {resource} granted to {user}" for resource, permission in new]


def drop_retired(database: Database) -> list[str]:
    """Drop the roles that were replaced. Nothing may use them any more.

    Raises:
        UserError: no node answers, or the roles in use do not work yet.
    """
    access = database.access
    if not database.accepts(access.kairosdb):
        raise UserError(f"Role {access.kairosdb.user} does not work yet: nothing was dropped.")
    with database.session() as session:
        roles = {row.role for row in session.execute("LIST ROLES")}
        gone = [login.user for login in access.retired if login.user in roles]
        for user in gone:
            session.execute(f"DROP ROLE {user}")
    return [f"role {user} dropped" for user in gone]


def _working_login(database: Database) -> Login:
    """The administrator, or who came before; waits for the first role of a fresh cluster."""
    access = database.access
    # The default one last: each failure takes the store a while on purpose.
    before = [login for login in access.retired if login.user != access.kairosdb.user]
    deadline = time.monotonic() + _FRESH_S
    while True:
        undecided = None
        for login in (access.admin, *before, _DEFAULT):
            try:
                if database.accepts(login):
                    return login
            except UndecidedLoginError as error:
                undecided = error
        if time.monotonic() > deadline:
            if undecided:
                raise undecided
            raise UserError(
                f"The storage nodes accept neither {access.admin.user} nor the default role: they "
                f"were not set up with the secrets in {access.folder}. Bring those back, or start "
                "with an empty store: make destroy deploy"
            )
        time.sleep(_AGAIN_S)


def _have_role(session: Session, login: Login, *, superuser: bool) -> None:
    options = f"PASSWORD = '{login.password}' AND LOGIN = true AND SUPERUSER = "
    options += "true" if superuser else "false"
    # One or the other: a store may refuse to change a password that it has just been given.
    there = any(row.role == login.user for row in session.execute("LIST ROLES"))
    session.execute(f"{'ALTER' if there else 'CREATE'} ROLE {login.user} WITH {options}")
