"""The head of an HTTP request as the sink reads it, and the bytes of an answer."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of an HTTP request says."""

    target: tuple[str, str]  # method, path
    query: str
    length: int
    gzip: bool
    close: bool
    awaits_continue: bool
    refusal: tuple[HTTPStatus, str] | None


def parse(head: bytes) -> Head:
    """Read the head of a request; one that cannot be served has a refusal."""
    lines = head.decode("latin-1").split("\r\n")
    method, _, rest = lines[0].partition(" ")
    url, _, protocol = rest.partition(" ")
    path, _, query = url.partition("?")
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    length = fields.get("content-length", "" if method == "POST" else "0")
    refusal: tuple[HTTPStatus, str] | None = None
    if protocol not in ("HTTP/1.1", "HTTP/1.0"):
        refusal = HTTPStatus.BAD_REQUEST, "not HTTP/1.1"
    elif "transfer-encoding" in fields or (not length and path != "/stall"):
        refusal = HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed"
    elif length and not (length.isascii() and length.isdecimal()):
        refusal = HTTPStatus.BAD_REQUEST, "Content-Length is no number"
    connection = fields.get("connection", "").lower()
    close = "close" in connection or (protocol == "HTTP/1.0" and connection != "keep-alive")
    return Head(
        target=(method, path),
        query=query,
        length=0 if refusal else int(length or 0),
        gzip=fields.get("content-type", "") == "application/gzip",
        close=close or refusal is not None,
        awaits_continue=fields.get("expect", "").lower() == "100-continue",
        refusal=refusal,
    )


def response(status: HTTPStatus, document: Any = None, *, close: bool = False) -> bytes:
    """An answer, with a document as its body where there is one."""
    body = b"" if document is None else json.dumps(document).encode()
    head = [f"HTTP/1.1 {status.value} {status.phrase}"]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if close:
        head.append("Connection: close")
    return "\r\n".join(head).encode() + HEAD_END + body
