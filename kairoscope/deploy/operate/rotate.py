"""`make rotate`: new certificates or passwords for a deployed target, which goes on serving.

A change is made in the target's secrets, in steps between which old and new both work, and each
step is brought to the hosts by a deploy: that restarts what runs with something else, one node
after another. What was interrupted goes on where it was when it is asked for again.
"""

import contextlib
from pathlib import Path

from kairoscope.deploy import deploy
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, secret_files
from kairoscope.hosts.deployed import deployed_plan
from kairoscope.stacks.kairosdb.servers import database_roles
from kairoscope.stacks.stack import Stack

CERTIFICATES, CA, PASSWORDS, REST = "certificates", "ca", "passwords", "rest"
WHAT = (CERTIFICATES, CA, PASSWORDS, REST)
"""Certificates of the same CA; the CA too; passwords of the database; that of KairosDB's REST."""

# Of these a running load would not know the new one.
_NOT_UNDER_LOAD = (CA, REST)


def rotate(target: str, stack: Stack, what: str) -> None:
    """Replace `what` (one of WHAT) and bring it to the hosts of a target with this stack.

    Raises:
        UserError: there is no such thing to rotate, the target is not deployed or not secured,
            something else changes it, a load runs that could not go on, or a deploy on the way
            failed.
    """
    if what not in WHAT:
        raise UserError(f"Rotate {what}? It is one of {', '.join(WHAT)} (make: WHAT=).")
    hosts = inventory.load(target)
    if not hosts.storage[0].vars["secured"]:
        raise UserError(f"Target {target} is not secured: it has no certificates and no passwords.")
    where = Path(hosts.storage[0].vars["secrets_dir"])
    idle: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if what in _NOT_UNDER_LOAD:
        idle = operation.without_load(target, "it goes on with what it was given at its start")
    with operation.alone(target), idle:
        operation.check_none_unfinished(target)
        if what == CA:
            _ca(target, stack, where)
        elif what == PASSWORDS:
            # Some that were retired before: that change was interrupted, and is what goes on here.
            if not secret_files.access(where).retired:
                secret_files.rotate_roles(where)
            _bring(target, stack)
            database_roles.apply("drop-retired", hosts)
        elif what == REST:
            secret_files.rotate_rest(where)
            _bring(target, stack)
        else:
            secret_files.rotate_certificates(where)
            _bring(target, stack)


def _ca(target: str, stack: Stack, where: Path) -> None:
    """Trust both, be of the next one, trust that one alone; each on all hosts before the next."""
    if not secret_files.ca_change(where):
        secret_files.trust_next_ca(where, target)
    if secret_files.ca_change(where) == "trusted":
        _bring(target, stack)
        secret_files.rotate_certificates(where)
    _bring(target, stack)
    secret_files.trust_only_issuer(where)
    _bring(target, stack)


def _bring(target: str, stack: Stack) -> None:
    deploy.apply(deployed_plan(target), stack, "deploy")
