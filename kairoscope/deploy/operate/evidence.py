"""Evidence: what hosts, servers and this machine know of a target, without its secrets."""

import io
import re
import tarfile
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kairoscope import __version__, paths
from kairoscope.deploy.operate.deployed import Deployed
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.hosts.secret_files import Access
from kairoscope.run_folder import stamp
from kairoscope.stacks.kairosdb.servers import client

REMOVED = b"(removed)"
# Of a PEM file, so that no line of its frame or end is taken for a secret.
_LINE = 40
# What looks like a secret, whoever's it is: private keys, hashes of passwords, logins.
_PATTERNS = (
    re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S),
    re.compile(rb"\$[0-9a-z]{1,3}\$[./0-9A-Za-z,=$-]{20,}"),
    re.compile(rb"(?<=Basic )[A-Za-z0-9+/=]{8,}"),
)
# Variables of an inventory that are secrets of the user's, by their names.
_SECRET_NAME = re.compile("pass|secret|token", re.IGNORECASE)
# A key may be in a file, which is worth knowing; a password may begin as a path does.
_KEY_NAME = re.compile("key", re.IGNORECASE)
_OF_PATH = ("_file", "_dir", "_path")
# What takes a password among the arguments of ssh, by whatever name those are given.
_SECRET_VALUE = re.compile("sshpass|proxy-auth", re.IGNORECASE)


def secrets_of(access: Access | None) -> list[bytes]:
    """Every text that must not be in the archive, the longest first."""
    if access is None:
        return []
    logins = (access.admin, access.kairosdb, access.rest, *access.retired)
    texts = {login.password for login in logins} | {access.authorization.removeprefix("Basic ")}
    for key in access.folder.rglob("*.key"):
        # Line by line: a log may have wrapped it otherwise than the file.
        texts |= {line for line in key.read_text().splitlines() if len(line) >= _LINE}
    return sorted((text.encode() for text in texts), key=len, reverse=True)


def redact(content: bytes, secrets: Iterable[bytes]) -> bytes:
    """The content without the secrets, and without what looks like one."""
    for secret in secrets:
        content = content.replace(secret, REMOVED)
    for pattern in _PATTERNS:
        content = pattern.sub(REMOVED, content)
    return content


def of_inventory(text: str) -> bytes:
    """An inventory without what looks like a secret of the user's: a password of sudo, say.

    That is told by the variable's name, if the variable is not one of ours, and of a key if it is
    no path; or the variable is only there as another's value names it; or the value has a program
    that is told a password.
    """
    try:
        data = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        # What is in it cannot be told apart.
        return REMOVED
    known = inventory.known_variables()
    named = inventory.named_in_templates(data)

    def cleared(value: Any) -> Any:
        if isinstance(value, list):
            return [cleared(each) for each in value]
        if not isinstance(value, dict):
            return REMOVED.decode() if _SECRET_VALUE.search(str(value)) else value
        return {k: REMOVED.decode() if secret(str(k), v) else cleared(v) for k, v in value.items()}

    def secret(name: str, value: Any) -> bool:
        if name in known or not value:
            return False
        if name in named:
            return True
        if name.endswith(_OF_PATH):
            return False
        of_path = str(value).startswith(("/", "~", "."))
        return bool(_SECRET_NAME.search(name) or (_KEY_NAME.search(name) and not of_path))

    return yaml.safe_dump(cleared(data), sort_keys=False).encode()


def pack(to: Path, archives: Iterable[Path], files: dict[str, bytes], secrets: list[bytes]) -> None:
    """Write the archive: what each host's archive holds, and some files, all of it redacted."""
    top = to.name.removesuffix(".tar.gz")
    with tarfile.open(to, "w:gz") as out:
        to.chmod(0o600)
        for name, content in files.items():
            _add(out, f"{top}/{name}", redact(content, secrets))
        for archive in archives:
            host = archive.name.removesuffix(".tar.gz")
            with tarfile.open(archive, "r:gz") as found:
                for member in found:
                    content_of = found.extractfile(member) if member.isfile() else None
                    if content_of:
                        name = member.name.removeprefix("evidence/").lstrip("/")
                        content = redact(content_of.read(), secrets)
                        _add(out, f"{top}/{host}/{name}", content, member.mtime)


def _add(out: tarfile.TarFile, name: str, content: bytes, mtime: float = 0) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(content), mtime, 0o600
    out.addfile(member, io.BytesIO(content))


def collect(target: Deployed, to: Path | None) -> Path:
    """Collect what all hosts and servers know, without secrets; the archive's path."""
    here = target.inventory
    name = f"evidence-{target.name}-{stamp(time.time())}.tar.gz"
    archive = to.absolute() if to else paths.home() / "evidence" / name
    if archive.exists():
        raise UserError(f"{archive} is there already.")
    archive.parent.mkdir(parents=True, exist_ok=True)
    files = _known_here(target)
    with tempfile.TemporaryDirectory(prefix="kairoscope-evidence-") as folder:
        if here.managed:
            try:
                target.playbook("evidence", operate_folder=folder)
            except UserError as error:
                files["not-collected.txt"] = error.message.encode()
        try:
            access = client.access_of(here)
        except UserError as error:
            raise UserError(
                f"Without the secrets it is not known what to take out: {error}"
            ) from error
        found = sorted(Path(folder).glob("*.tar.gz"))
        pack(archive, found, files, secrets_of(access))
    missing = {host.name for host in here.all} - {f.name.removesuffix(".tar.gz") for f in found}
    if missing:
        target.say(f"nothing from: {', '.join(sorted(missing))}")
    target.say(f"evidence: {archive}")
    return archive


def _known_here(target: Deployed) -> dict[str, bytes]:
    """What this machine has, and what KairosDB says over REST."""
    here = target.inventory
    folder = paths.target_dir(target.name)
    files = {
        name: (folder / name).read_bytes()
        for name in ("plan.json", "operation.json")
        if (folder / name).exists()
    }
    for name in ("inventory.yml", "before-upgrade.yml"):
        if (folder / name).exists():
            files[name] = of_inventory((folder / name).read_text())
    files["version.txt"] = f"kairoscope {__version__}\n".encode()
    for host in here.kairosdb:
        for path in (
            "/api/v1/kairoscope/settings",
            "/api/v1/kairoscope/queue",
            "/api/v1/health/status",
        ):
            file = f"{host.name}/rest{path.replace('/', '-').removeprefix('-api-v1')}.json"
            try:
                with client.connect(here, [host]) as talk:
                    files[file] = talk.get(host, path)
            except (OSError, UserError) as error:
                files[file] = str(error).encode()
    return files
