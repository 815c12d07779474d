"""Questions to a server over HTTP, where it has no client of its own, and text that it answers."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

TIMEOUT_S = 60
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)")


def get(url: str, given: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> bytes:
    """The answer to a GET with parameters. OSError, with what it said, if it is no success."""
    return _answer(f"{url}?{urllib.parse.urlencode(given)}" if given else url, timeout_s)


def send(method: str, url: str, document: Any = None) -> bytes:
    """The answer to another method, with JSON if it is given. OSError as of `get`."""
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(  # noqa: S310 (ours)
        url, body, {"Content-Type": "application/json"}, method=method
    )
    return _answer(request, TIMEOUT_S)


def _answer(request: str | urllib.request.Request, timeout_s: float) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310 (ours)
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        said = " ".join(error.read(300).decode(errors="replace").split())
        raise OSError(f"{error.url}: HTTP {error.code}: {said}") from error


def samples(text: str, begins: Sequence[str]) -> dict[str, float]:
    """Samples of a page in Prometheus' text format whose names begin with one of these."""
    found = {}
    for line in text.splitlines():
        if line.startswith(tuple(begins)) and (sample := _SAMPLE.match(line)):
            found[sample.group(1)] = float(sample.group(2))
    return found
