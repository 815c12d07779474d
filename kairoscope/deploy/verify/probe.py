"""What a host looks like from inside, and what others look like from it.

Imported here, and sent as text to hosts whose own Python runs it as root: standard library only,
Python 3.10. There its arguments are a verb and its arguments in JSON, its output is JSON.
"""

import json
import shutil
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Hosts of a cluster answer within milliseconds; a busy one may take a second.
CONNECT_S = 3.0
# A server that refuses says so at once; one that is content waits for more.
REFUSE_S = 5.0
_AT_ONCE = 64
_TLS_ALERT = b"\x15\x03"
"""How an alert of TLS begins: its type, and the first half of any version."""
_LISTEN = "0A"

OPEN = "open"
REFUSED = "refused"
SILENT = "no answer"
CLOSED = "closed"


def connect(address: str, port: int) -> str:
    """OPEN, REFUSED, SILENT (packets are dropped), or another error's text."""
    try:
        with socket.create_connection((address, port), timeout=CONNECT_S):
            return OPEN
    except OSError as error:
        return _why(error)


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return SILENT
    return REFUSED if isinstance(error, ConnectionRefusedError) else str(error)


def connect_all(endpoints: list[list[Any]]) -> list[str]:
    """`connect` for each [address, port], side by side, in their order."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda endpoint: connect(*endpoint), endpoints))


def anonymous() -> ssl.SSLContext:
    """A client's side of TLS that has no certificate and asks for no name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # What is asked is whether the server lets anyone in, whoever it is itself.
    context.verify_mode = ssl.CERT_NONE
    return context


def say(
    address: str, port: int, message: bytes, context: "ssl.SSLContext | None" = None
) -> tuple[str, bytes]:
    """Say something to a server, over TLS if `context` is given.

    Returns:
        (how, answer): how it ended, and the first bytes that came back. OPEN: it answered, or
        waits for more; CLOSED: it ended the connection, or refused TLS, without an answer;
        REFUSED, SILENT or an error's text: there was no connection.
    """
    try:
        raw = socket.create_connection((address, port), timeout=CONNECT_S)
    except OSError as error:
        return _why(error), b""
    with raw:
        raw.settimeout(REFUSE_S)
        try:
            sock = context.wrap_socket(raw) if context else raw
            sock.sendall(message)
            answer = sock.recv(4096)
        except TimeoutError:
            return OPEN, b""
        except OSError:  # ssl.SSLError is one
            return CLOSED, b""
        # Before it ends the connection to one who does not speak TLS, GnuTLS says so in TLS's terms
        # (ScyllaDB 5.2.19): nobody was let in.
        refused = context is None and answer.startswith(_TLS_ALERT)
        return (CLOSED, b"") if refused or not answer else (OPEN, answer)


def say_all(requests: list[list[Any]]) -> list[str]:
    """How each of [address, port, message in hex, whether over TLS] ended, in their order."""

    def one(request: list[Any]) -> str:
        address, port, message, tls = request
        how, _ = say(address, port, bytes.fromhex(message), anonymous() if tls else None)
        return how

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(one, requests))


def listening(net: str = "/proc/net") -> list[list[Any]]:
    """[address, port] of every TCP listener that is not on loopback alone, sorted."""
    found = set()
    for name in ("tcp", "tcp6"):
        path = Path(net, name)
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            _, local, _, state, *_ = line.split()
            if state != _LISTEN:
                continue
            digits, _, port = local.partition(":")
            address = _address(digits)
            if not address.startswith("127.") and address != "::1":
                found.add((address, int(port, 16)))
    return sorted(map(list, found))


def _address(digits: str) -> str:
    """An address of /proc/net: 32-bit words in the machine's order."""
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    text = socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)
    return text.removeprefix("::ffff:") if "." in text else text


def _said(*command: str) -> str:
    """What a command prints; "" where there is no such command."""
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _unit(name: str) -> list[str]:
    lines = _said("systemctl", "show", "-p", "ActiveState,UnitFileState", name).splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    return [found.get("ActiveState", ""), found.get("UnitFileState", "")]


def _firewall(file: str) -> bool:
    """Whether the rules that are loaded are those of the file, as the kernel lists both."""
    listing = "nft --stateless list table inet kairoscope"
    wanted = _said("unshare", "--net", "sh", "-euc", f'nft --file "$1" && {listing}', "sh", file)
    return bool(wanted) and wanted == _said(*listing.split())


def facts(folders: list[str], units: list[str], firewall: str) -> dict[str, Any]:
    """Disks of folders (free and total bytes), units (state, at boot), listeners, the firewall."""
    disks = {}
    for folder in folders:
        if Path(folder).is_dir():
            usage = shutil.disk_usage(folder)
            disks[folder] = [usage.free, usage.total]
    return {
        "disks": disks,
        "units": {unit: _unit(unit) for unit in units},
        "listening": listening(),
        "firewall": _firewall(firewall),
    }


VERBS: dict[str, Callable[..., Any]] = {
    "connect_all": connect_all,
    "say_all": say_all,
    "facts": facts,
}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](*json.loads(sys.argv[2]))))
