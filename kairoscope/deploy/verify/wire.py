"""Requests as a stranger would make them, byte by byte: no driver tries anything else instead."""

import socket
import ssl
import struct
from dataclasses import dataclass

from kairoscope.deploy.verify import probe
from kairoscope.hosts.sockets import exactly

# CQL native protocol, version 4: every store that KairosDB runs on speaks it.
_VERSION = 4
_HEADER = struct.Struct(">BBHBi")  # version, flags, stream, opcode, length
_ERROR, _STARTUP, _READY, _AUTHENTICATE = 0x00, 0x01, 0x02, 0x03
_OPTIONS, _SUPPORTED = 0x05, 0x06
_AUTH_RESPONSE, _AUTH_SUCCESS = 0x0F, 0x10
_BAD_CREDENTIALS = 0x0100

NO_LOGIN = "asks for no login"
LET_IN = "let in"
LOGIN_REFUSED = "refused"

# Not TLS, so a server that speaks TLS alone ends the connection. One that speaks plain waits for
# more: it begins as Cassandra's own greeting does, and is too short for any.
INTERNODE_PLAIN = b"\xca\x55\x2d\xfa\x00\x00"

HTTP_PLAIN = b"GET /api/v1/version HTTP/1.0\r\n\r\n"


def _frame(opcode: int, body: bytes = b"") -> bytes:
    return _HEADER.pack(_VERSION, 0, 0, opcode, len(body)) + body


CQL_OPTIONS = _frame(_OPTIONS)
"""Asks what a node supports, which needs no login."""


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def _startup() -> bytes:
    return _frame(_STARTUP, struct.pack(">H", 1) + _text("CQL_VERSION") + _text("3.0.0"))


def _sasl_plain(user: str, password: str) -> bytes:
    token = f"\0{user}\0{password}".encode()
    return _frame(_AUTH_RESPONSE, struct.pack(">i", len(token)) + token)


def _receive(sock: socket.socket) -> tuple[int, bytes]:
    """Opcode and body of the next frame."""
    header = exactly(sock, _HEADER.size)
    _, _, _, opcode, length = _HEADER.unpack(header)
    return opcode, exactly(sock, length)


def cql_supported(
    endpoint: tuple[str, int], context: ssl.SSLContext | None
) -> dict[str, list[str]]:
    """What a storage node says it supports, over TLS if `context` is given: values by option.

    OSError if there is no connection, or it ends; or what comes back is no such answer.
    """
    with socket.create_connection(endpoint, timeout=probe.CONNECT_S) as raw:
        raw.settimeout(probe.REFUSE_S)
        with context.wrap_socket(raw) if context else raw as sock:
            sock.sendall(CQL_OPTIONS)
            opcode, body = _receive(sock)
    if opcode != _SUPPORTED:
        raise OSError(f"opcode {opcode} in answer to a question of CQL's")
    at = 0

    def number() -> int:
        nonlocal at
        (value,) = struct.unpack_from(">H", body, at)
        at += 2
        return int(value)

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        if at > len(body):
            raise ValueError("its end is missing")
        return body[at - length : at].decode()

    try:
        return {text(): [text() for _ in range(number())] for _ in range(number())}
    except (struct.error, ValueError) as error:
        raise OSError(f"no whole answer to a question of CQL's: {error}") from None


def cql_login(endpoint: tuple[str, int], context: ssl.SSLContext, user: str, password: str) -> str:
    """Log in to a storage node over TLS: LET_IN, LOGIN_REFUSED, NO_LOGIN, or what else it said.

    OSError if there is no connection, or it ends.
    """
    with (
        socket.create_connection(endpoint, timeout=probe.CONNECT_S) as raw,
        context.wrap_socket(raw) as sock,
    ):
        sock.settimeout(probe.REFUSE_S)
        sock.sendall(_startup())
        opcode, body = _receive(sock)
        if opcode == _READY:
            return NO_LOGIN
        if opcode == _AUTHENTICATE:
            sock.sendall(_sasl_plain(user, password))
            opcode, body = _receive(sock)
            if opcode == _AUTH_SUCCESS:
                return LET_IN
        if opcode == _ERROR:
            code, length = struct.unpack_from(">iH", body)
            if code == _BAD_CREDENTIALS:
                return LOGIN_REFUSED
            return body[6 : 6 + length].decode(errors="replace")
        return f"opcode {opcode}"


@dataclass(frozen=True)
class Certificate:
    """When a server's certificate ends (epoch seconds), and the names and addresses it is for."""

    expires: float
    names: frozenset[str]


def certificate(endpoint: tuple[str, int], context: ssl.SSLContext) -> Certificate:
    """The certificate that a server shows, checked against our CA. OSError if there is none."""
    with (
        socket.create_connection(endpoint, timeout=probe.CONNECT_S) as raw,
        context.wrap_socket(raw) as sock,
    ):
        shown = sock.getpeercert() or {}
    names = {str(value) for _, value in shown.get("subjectAltName", ())}  # type: ignore[str-unpack]
    return Certificate(ssl.cert_time_to_seconds(str(shown["notAfter"])), frozenset(names))
