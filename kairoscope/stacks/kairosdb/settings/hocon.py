"""KairosDB's configuration format: which keys it knows, and whether it took what we gave it.

KairosDB ignores unknown keys and anything outside `kairosdb { }` in silence. A misspelt setting
then looks as if it were in force. Both checks here turn that into an error.
"""

import difflib
import json
from pathlib import Path
from typing import Any

from pyhocon import ConfigFactory, ConfigTree
from pyhocon.exceptions import ConfigException
from pyparsing import ParseBaseException

from kairoscope import paths
from kairoscope.errors import UserError

DOCUMENTED_KEYS = paths.KAIROSDB_CONF / "documented-keys.txt"

# Parts of the keys of secrets, which KairosDB's plugin does not tell; its StatusResource has the
# same list.
SECRET = ("password", "secret", "credential", "token", "oauth")

# Everything below these is named by the user of KairosDB, not by KairosDB.
OPEN_MAPS = ("kairosdb.datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics",)


def flatten(tree: ConfigTree, prefix: str = "") -> dict[str, Any]:
    """Flat, dotted keys to plain values; lists stay lists."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else key
        path = path.replace('"', "")
        if isinstance(value, ConfigTree) and value:
            flat |= flatten(value, path)
        else:
            flat[path] = [] if isinstance(value, ConfigTree) else value
    return flat


def parse(text: str, name: str) -> dict[str, Any]:
    """Parse HOCON into flat keys. UserError with the place where it does not parse."""
    try:
        return flatten(ConfigFactory.parse_string(text))
    except (ParseBaseException, ConfigException) as error:
        raise UserError(f"{name}: not valid HOCON: {error}") from error


def known_keys(reference: str) -> set[str]:
    """Keys of KairosDB's own kairosdb.conf and those it documents without setting them."""
    documented = {
        line.strip()
        for line in DOCUMENTED_KEYS.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }
    return set(parse(reference, "kairosdb.conf of the jar")) | documented


def _known(key: str, known: set[str]) -> bool:
    if key in known or any(key == m or key.startswith(m + ".") for m in OPEN_MAPS):
        return True
    return any(k.endswith(".*") and key.startswith(k[:-1]) for k in known)


def problems(text: str, reference: str) -> list[str]:
    """What is wrong with a rendered kairosdb.conf, one line each; empty when nothing is."""
    known = known_keys(reference)
    found = []
    for key in parse(text, "kairosdb.conf"):
        if not key.startswith("kairosdb."):
            found.append(f"{key}: outside kairosdb {{ }}, KairosDB would ignore it")
        elif not _known(key, known):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            found.append(f"{key}: KairosDB knows no such key{hint}")
    return found


def check(text: str, reference_file: Path) -> None:
    """Stop the deploy (UserError) if the rendered configuration has a key KairosDB ignores."""
    if found := problems(text, reference_file.read_text()):
        raise UserError("kairosdb.conf is refused:\n  " + "\n  ".join(found))


def effective_differences(planned: dict[str, Any], effective: dict[str, Any]) -> list[str]:
    """Settings that KairosDB runs with other than planned, one line each.

    Values are compared as text: KairosDB's own loader binds them as text, and JSON has turned
    whole numbers into floats on the way.
    """

    def text(value: Any) -> str:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return json.dumps(value, sort_keys=True).strip('"').lower()

    lines = []
    for key, value in planned.items():
        if key not in effective:
            lines.append(f"{key}: planned {text(value)}, KairosDB does not have it")
        elif text(value) != text(effective[key]):
            lines.append(f"{key}: planned {text(value)}, effective {text(effective[key])}")
    return lines


def check_effective(text: str, status: dict[str, Any], where: str) -> int:
    """Compare a running KairosDB with its planned configuration; the number of settings compared.

    `status` is what its /api/v1/kairoscope/settings says, `where` names it in messages. UserError
    if it is in read-only mode or runs with anything else.
    """
    if status["read_only"]:
        raise UserError(
            f"{where}: KairosDB is in read-only mode: it could not create its schema. See its log."
        )
    planned = {
        key: value
        for key, value in parse(text, "kairosdb.conf").items()
        if not any(part in key for part in SECRET)
    }
    if wrong := effective_differences(planned, status["settings"]):
        raise UserError(f"{where}: not the planned settings:\n  " + "\n  ".join(wrong))
    return len(planned)
