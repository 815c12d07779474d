"""Questions to a server over HTTP, where it has no client of its own, and text that it answers."""

import contextlib
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kairoscope.hosts import direct

TIMEOUT_S = 60
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)")


class RefusedError(OSError):
    """An answer that is no success."""

    def __init__(self, status: int, said: str) -> None:
        """`status` of HTTP, and a line with what it said."""
        super().__init__(said)
        self.status = status


def get(url: str, given: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> bytes:
    """The answer to a GET with parameters. OSError, with what it said, if it is none or
    no success."""
    return _answer(f"{url}?{urllib.parse.urlencode(given)}" if given else url, timeout_s)


def send(method: str, url: str, document: Any = None) -> bytes:
    """The answer to another method, with JSON if it is given. OSError as of `get`."""
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(  # noqa: S310 (ours)
        url, body, {"Content-Type": "application/json"}, method=method
    )
    return _answer(request, TIMEOUT_S)


def _answer(request: str | urllib.request.Request, timeout_s: float) -> bytes:
    with whole():
        try:
            with direct.answer(request, timeout_s) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            said = " ".join(error.read(300).decode(errors="replace").split())
            raise RefusedError(error.code, f"{error.url}: HTTP {error.code}: {said}") from error


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Have an answer that ends in its middle, or is none of HTTP's, be an OSError as every other
    that did not come: `http.client` has errors of another kind for it."""
    try:
        yield
    except http.client.HTTPException as error:
        raise OSError(f"no whole answer: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def understood() -> Iterator[None]:
    """Take an answer's JSON apart in it: where that has another form than its makers document, for
    want of a key or a row, it is a ValueError as where it is no JSON at all."""
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"an answer of an unknown form: {type(error).__name__}: {error}"
        ) from error


def samples(text: str, begins: Sequence[str]) -> dict[str, float]:
    """Samples of a page in Prometheus' text format whose names begin with one of these."""
    found = {}
    for line in text.splitlines():
        if line.startswith(tuple(begins)) and (sample := _SAMPLE.match(line)):
            found[sample.group(1)] = float(sample.group(2))
    return found
