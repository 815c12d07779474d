"""What a target's servers and this machine prove themselves with: a private CA and passwords.

Made at the first deploy, in a folder of the target outside the checkout, and never overwritten:

    <folder>/secrets.yml    logins, read by Ansible and here (see `create`)
    <folder>/pki/           CA and certificates (`kairoscope.hosts.pki`)

The folder has mode 700, every file in it 600. Nothing of it ever stands in a command line, an
environment, a log, a run folder or the repository.
"""

import base64
import contextlib
import fcntl
import functools
import hashlib
import os
import secrets
import shutil
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kairoscope import paths, whole
from kairoscope.errors import UserError
from kairoscope.hosts import pki
from loaders.credentials import Credentials

_FILE = "secrets.yml"
_PKI = "pki"
# The roles of the database have two names each, used in turn: while one is in use the next is made.
_NAMES = {
    "cql_admin": ("kairoscope_a", "kairoscope_b"),
    "cql_kairosdb": ("kairosdb_a", "kairosdb_b"),
}
_REST_USER = "kairoscope"
_PASSWORD_BYTES = 32


@dataclass(frozen=True)
class Login:
    """A user or database role, and its password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Access:
    """How this machine gets at a secured target.

    Fields:
        folder: the target's secrets.
        admin: database role with all permissions.
        kairosdb: database role of KairosDB.
        retired: roles that have been replaced and may still be there, the newest first.
        rest: user of KairosDB's REST interface.
    """

    folder: Path
    admin: Login
    kairosdb: Login
    retired: tuple[Login, ...]
    rest: Login

    @functools.cached_property
    def tls(self) -> ssl.SSLContext:
        """Client side of TLS: our CA only, with this machine's certificate.

        The chain is checked, the name is not: this machine goes through forwards that end on hosts
        whose SSH host keys were verified, so the address it talks to is its own.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(cadata=self.ca)
        own = self.folder / _PKI / pki.CONTROL
        context.load_cert_chain(own / "node.crt", own / "node.key")
        return context

    @property
    def ca(self) -> str:
        """The certificates that are trusted, PEM."""
        return pki.trusted(self.folder / _PKI).decode()

    @property
    def authorization(self) -> str:
        """Value of the Authorization header for KairosDB's REST interface."""
        pair = f"{self.rest.user}:{self.rest.password}"
        return "Basic " + base64.b64encode(pair.encode()).decode()

    @property
    def loader_credentials(self) -> Credentials:
        """What loaders need to talk to KairosDB; they check names."""
        return Credentials(self.ca, self.authorization)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a request to KairosDB's REST interface."""
        return {"Authorization": self.authorization}


def folder(target: str) -> Path:
    """Where a target's secrets are, or will be.

    Outside the checkout: below `KAIROSCOPE_SECRETS`, or where the target was deployed with them, or
    the user's folder for data. The hash tells targets of the same name apart, as of two checkouts.

    Raises:
        UserError: that is in the checkout.
    """
    known = _remembered(target)
    if given := os.environ.get("KAIROSCOPE_SECRETS"):
        parent = Path(given).absolute()
    elif known:
        parent = known.parent
    else:
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        parent = Path(data).absolute() / "kairoscope"
    if parent.is_relative_to(paths.CHECKOUT):
        raise UserError(f"{parent}: secrets belong outside the checkout. Set KAIROSCOPE_SECRETS.")
    if known:
        return parent / known.name
    where = str(paths.target_dir(target).resolve())
    return parent / f"{target}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def remember(target: str, where: Path) -> None:
    """Note beside a target's state where its secrets are: the checkout may move."""
    whole.record(_note(target), f"{where}\n")


def _note(target: str) -> Path:
    return paths.target_dir(target) / "secrets"


def _remembered(target: str) -> Path | None:
    return Path(_note(target).read_text().strip()) if _note(target).exists() else None


def ensure(
    target: str, hosts: Mapping[str, list[str]], trusting: Callable[[], list[str]] = list
) -> Path:
    """Make what is missing of a target's secrets: all at first, later certificates of new hosts.

    Args:
        target: its name.
        hosts: by name of every host with a server, the addresses that clients know it by.
        trusting: names of hosts that have a CA to trust; asked where there are no secrets here.

    Returns:
        The folder.

    Raises:
        UserError: the folder is open to others or cannot be made, a host's name will not do, or the
            target was deployed with secrets that are not there any more, or never were.
    """
    where = folder(target)
    known = _remembered(target)
    if known and not where.exists():
        raise UserError(
            f"Target {target} was deployed with the secrets in {known}, and there is no {where}. "
            "Others would lock its servers out, so none were made. Bring them back, from a backup "
            "or the machine that deployed it, or set KAIROSCOPE_SECRETS to the folder above them. "
            f"If nothing of the target is left: make destroy TARGET={target}"
        )
    try:
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(where):
            if not where.exists():
                _check_nobody_s(target, where, trusting())
                with pki.replaced(where) as partial:
                    create(partial, target)
            _check_closed(where)
            pki.issue(where / _PKI, hosts)
    except OSError as error:
        raise UserError(
            f"The secrets of target {target} cannot be made at {where}: {error.strerror or error}. "
            "Set KAIROSCOPE_SECRETS to a folder that can be written."
        ) from error
    return where


def _check_nobody_s(target: str, where: Path, trusting: list[str]) -> None:
    """UserError if hosts trust a CA already: what is made here would be in the way of theirs."""
    if trusting:
        raise UserError(
            f"Target {target} is deployed already, and from elsewhere: {', '.join(trusting)} trust "
            "a CA that is not here. Another one would shut its servers out, so none was made, and "
            "nothing was changed on the hosts. Copy the folder of its secrets from where it was "
            f"deployed (there: cat .kairoscope/{target}/secrets), as it is, under exactly this "
            f"name: scp -rp …:… {where}\nThen the same command again (docs/security.md). Or end "
            "that deployment first, from there"
        )


def create(where: Path, target: str) -> None:
    """Fill an empty folder with a CA and passwords.

    secrets.yml: {cql_admin, cql_kairosdb, rest}: {user, password}, and `retired`, a list of the
    same, of database roles that are no longer used.
    """
    (where / _PKI).mkdir(mode=0o700)
    pki.create(where / _PKI, target)
    _write(
        where,
        {
            **{role: _login(names[0]) for role, names in _NAMES.items()},
            "rest": _login(_REST_USER),
            "retired": [],
        },
    )


def access(where: Path) -> Access:
    """What is in a folder of secrets. UserError if it is not one."""
    content = _read(where)

    def login(given: dict[str, str]) -> Login:
        return Login(given["user"], given["password"])

    try:
        return Access(
            where,
            login(content["cql_admin"]),
            login(content["cql_kairosdb"]),
            tuple(map(login, content["retired"])),
            login(content["rest"]),
        )
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{where / _FILE} is not whole ({type(error).__name__}); bring back a copy of it"
        ) from None


def remove(where: Path) -> None:
    """Remove a folder of secrets, if it is there. What they are for must be gone already."""
    shutil.rmtree(where, ignore_errors=True)
    _lock_file(where).unlink(missing_ok=True)
    if where.exists():
        raise UserError(f"Could not remove {where}, which holds passwords: remove it by hand.")


def ends(where: Path) -> dict[str, float]:
    """When each certificate ends (epoch s), by host; "CA" and "_control" are this machine's."""
    return pki.ends(where / _PKI)


def certificate(where: Path, host: str, *, expired: bool = False) -> dict[str, str]:
    """A host's files with its certificate in them, or with one of the same CA that has expired.

    By their names in the host's `pki_host_dir`. One of them has its key in it, too.
    """
    if expired:
        return pki.expired(where / _PKI, host)
    return {name: (where / _PKI / host / name).read_text() for name in ("node.crt", "node.pem")}


# Rotation. Each is a step that can be made again after an interruption; what the hosts must do
# between them is in docs/security.md and in kairoscope/deploy/operate/rotate.py.


def rotate_certificates(where: Path) -> list[str]:
    """Issue all certificates anew (from the next CA, if there is one); the hosts' names."""
    with _locked(where):
        return pki.reissue(where / _PKI)


def ca_change(where: Path) -> str:
    """How far a change of the CA is: "" none, "trusted" both are, "issued" all is of the next."""
    if pki.trusted(where / _PKI).count(b"BEGIN CERTIFICATE") == 1:
        return ""
    return "trusted" if (where / _PKI / pki.NEXT).exists() else "issued"


def trust_next_ca(where: Path, target: str) -> None:
    """First step of a change of the CA: from now on both are trusted."""
    with _locked(where):
        pki.trust_next_ca(where / _PKI, target)


def trust_only_issuer(where: Path) -> None:
    """Last step of a change of the CA: the old one is no longer trusted."""
    with _locked(where):
        pki.trust_only_issuer(where / _PKI)


def rotate_roles(where: Path) -> None:
    """Name new database roles, for this machine and for KairosDB; the old ones are retired.

    Raises:
        UserError: roles that were retired before have not been dropped yet: the next names are
            theirs.
    """
    with _locked(where):
        content = _read(where)
        if content["retired"]:
            raise UserError(
                f"{where / _FILE}: the last change of passwords did not end. First: go on with it"
            )
        for role, names in _NAMES.items():
            old = content[role]
            content["retired"].append(old)
            content[role] = _login(names[1 - names.index(old["user"])])
        _write(where, content)


def forget_retired(where: Path) -> None:
    """Forget retired roles, which the database no longer has."""
    with _locked(where):
        _write(where, _read(where) | {"retired": []})


def rotate_rest(where: Path) -> None:
    """Make a new password for KairosDB's REST interface. No load may be running."""
    with _locked(where):
        _write(where, _read(where) | {"rest": _login(_REST_USER)})


def _login(user: str) -> dict[str, str]:
    # URL-safe: no character that YAML, HOCON, CQL or a header would want quoted.
    return {"user": user, "password": secrets.token_urlsafe(_PASSWORD_BYTES)}


def _read(where: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load((where / _FILE).read_text())
    except OSError as error:
        raise UserError(
            f"{where / _FILE} cannot be read ({error.strerror}). It was made by the first deploy; "
            "KAIROSCOPE_SECRETS must be what it was then."
        ) from error
    except yaml.YAMLError:  # its message quotes the file
        raise UserError(f"{where / _FILE} is not YAML; bring back a copy of it") from None
    if not isinstance(content, dict):
        raise UserError(f"{where / _FILE} is not whole; bring back a copy of it")
    return content


def _write(where: Path, content: dict[str, Any]) -> None:
    pki.write_private(where / _FILE, yaml.safe_dump(content, sort_keys=False).encode())


def _check_closed(where: Path) -> None:
    if where.stat().st_mode & 0o077 or where.stat().st_uid != os.getuid():
        raise UserError(
            f"{where} holds passwords and keys, and is not this user's alone. First: "
            f"chown -R {os.getuid()} {where} && chmod -R go= {where}"
        )


def _lock_file(where: Path) -> Path:
    return where.with_name(f".{where.name}.lock")


@contextlib.contextmanager
def _locked(where: Path) -> Iterator[None]:
    """One at a time: two deploys at once must not make two CAs."""
    descriptor = os.open(_lock_file(where), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
