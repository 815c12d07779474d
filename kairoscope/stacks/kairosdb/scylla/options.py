"""ScyllaDB's configuration checked against what its release knows, before a host is touched.

ScyllaDB starts with an unknown, unused or deprecated option in scylla.yaml, and says so in its log
only. A misspelt setting, or one of another release, then looks as if it were in force.
"""

import ctypes
import difflib
import functools
import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import secret_files

TABLE = paths.ANSIBLE / "roles" / "scylla" / "files" / "options.yml"

USED, UNKNOWN = "U", "."
_WRONG = {
    "N": "is accepted and ignored by",
    "D": "is deprecated in",
    "I": "has no meaning in",
    UNKNOWN: "is not known to",
}

# Options of maps in scylla.yaml, which the table does not go into; ScyllaDB ignores any other. From
# the description of the options in the same source.
_TLS = {"certificate", "keyfile", "truststore", "require_client_auth", "priority_string"}
_MAPS: Mapping[str, frozenset[str]] = {
    "client_encryption_options": frozenset(_TLS | {"enabled"}),
    "server_encryption_options": frozenset(_TLS | {"internode_encryption"}),
}

# Arguments of the server that are not ScyllaDB's but of Seastar, below it; an unknown one stops the
# start. Those that the package's own sysconfig file gives, that its scripts write, and that
# `variables.scylla_of_shared_cores` has.
_SEASTAR = frozenset(
    {
        "blocked-reactor-notify-ms",
        "cpuset",
        "default-log-level",
        "io-properties-file",
        "lock-memory",
        "log-to-stdout",
        "log-to-syslog",
        "max-networking-io-control-blocks",
        "logger-log-level",
        "memory",
        "network-stack",
        "overprovisioned",
        "reserve-memory",
        "smp",
        "task-quota-ms",
    }
)


@dataclass(frozen=True)
class Release:
    """What one release knows.

    Attributes:
        described_by: the release of its line that the table has.
        statuses: of each option.
        shipped: what its own scylla.yaml sets otherwise than the server does by itself, and the
            role does not decide.
    """

    version: str
    described_by: str
    statuses: Mapping[str, str]
    shipped: Mapping[str, Any]

    @property
    def options(self) -> list[str]:
        return [name for name, status in self.statuses.items() if status == USED]


@functools.cache
def _table() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(TABLE.read_text())
    return data


def line(version: str) -> str:
    """The release line of a version: 2026.1 of 2026.1.11."""
    return version.rpartition(".")[0]


def release(version: str) -> Release:
    """What a release such as 2026.1.11 knows. UserError if its line is not in the table."""
    known = _table()["releases"]
    lines = {line(name): place for place, name in enumerate(known)}
    if not re.fullmatch(r"\d{1,4}\.\d{1,2}\.\d{1,3}", version) or line(version) not in lines:
        raise UserError(
            f"ScyllaDB {version}: which options it knows is not recorded; there are "
            f"{', '.join(f'{name}.x' for name in lines)}. Choose one of these "
            "(storage.scylla_version), or add the line to ansible/roles/scylla/files/options.yml."
        )
    place = lines[line(version)]
    statuses = {name: letters[place] for name, letters in _table()["options"].items()}
    shipped = {
        name: values[line(version)]
        for name, values in _table()["shipped"].items()
        if line(version) in values
    }
    return Release(version, known[place], statuses, shipped)


def _wrong(name: str, shown: str, of: Release) -> str | None:
    """What is wrong with an option, None if the release uses it."""
    status = of.statuses.get(name, UNKNOWN)
    if status == USED:
        return None
    text = f"{shown} {_WRONG[status]} ScyllaDB {of.version}"
    near = difflib.get_close_matches(name, of.options, n=1) if status == UNKNOWN else []
    return text + (f"; did you mean {near[0]}?" if near else "")


def yaml_problems(text: str, of: Release) -> list[str]:
    """What is wrong with a rendered scylla.yaml, one line each; empty when nothing is.

    Values are not shown: there is a password's hash among them.
    """
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        return [f"scylla.yaml: not valid YAML{where}"]
    if not isinstance(settings, dict):
        return ["scylla.yaml: not a map of options"]
    found = [_wrong(str(name), f"scylla.yaml: {name}", of) for name in settings]
    # YAML's readers differ in which of them they take.
    names = re.findall(r"(?m)^([\w-]+):", text)
    found += [f"scylla.yaml: {name} is given twice" for name in settings if names.count(name) > 1]
    for name, known in _MAPS.items():
        inner = settings.get(name)
        if inner is not None and not isinstance(inner, dict):
            found.append(f"scylla.yaml: {name}: not a map of options")
            continue
        found += [
            f"scylla.yaml: {name}.{key} is not known to ScyllaDB {of.version}"
            for key in (inner or {})
            if key not in known
        ]
    return [problem for problem in found if problem]


def argument_problems(arguments: str, of: Release) -> list[str]:
    """What is wrong with the server's arguments (SCYLLA_ARGS), one line each."""
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        return [f"arguments: {error}"]
    found: list[str | None] = []
    after_option = False
    for word in words:
        if word.startswith("--"):
            option = word[2:].partition("=")[0]
            after_option = "=" not in word
            if option not in _SEASTAR:
                found.append(_wrong(option.replace("-", "_"), f"argument --{option}", of))
        elif after_option:
            after_option = False
        else:
            found.append(f"argument {word}: belongs to no option")
    return [problem for problem in found if problem]


def check(version: str, scylla_yaml: str, arguments: str) -> Release:
    """Stop the deploy (UserError) if a release would not use everything that it is given."""
    known = release(version)
    if found := yaml_problems(scylla_yaml, known) + argument_problems(arguments, known):
        raise UserError(
            f"ScyllaDB {version} would not use all of its configuration (options of "
            f"{known.described_by}):\n  " + "\n  ".join(found)
        )
    return known


def password_hash(login: secret_files.Login) -> str:
    """The SHA-512 crypt hash of a password, as `auth_superuser_salted_password` has it.

    The same at each call: the salt, which only has to differ between logins, is derived. By the
    system's libcrypt, as Python has had none of its own since 3.13. UserError where there is none.
    """
    for name in ("libcrypt.so.1", "libcrypt.so.2"):
        try:
            crypt = ctypes.CDLL(name).crypt
            break
        except OSError:
            continue
    else:
        raise UserError("No libcrypt on this machine; on Debian: apt-get install libcrypt1")
    crypt.restype = ctypes.c_char_p
    salt = hashlib.sha256(f"{login.user}\0{login.password}".encode()).hexdigest()[:16]
    made: bytes = crypt(login.password.encode(), f"$6${salt}$".encode())
    return made.decode()
