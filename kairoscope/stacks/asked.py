"""Questions to a server over HTTP, where it has no client of its own, and text that it answers."""

import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence

TIMEOUT_S = 60
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)")


def get(url: str, given: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> bytes:
    """The answer to a GET with parameters. OSError, with what it said, if it is no success."""
    whole = f"{url}?{urllib.parse.urlencode(given)}" if given else url
    try:
        with urllib.request.urlopen(whole, timeout=timeout_s) as answer:  # noqa: S310 (ours)
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        said = " ".join(error.read(300).decode(errors="replace").split())
        raise OSError(f"{url}: HTTP {error.code}: {said}") from error


def samples(text: str, begins: Sequence[str]) -> dict[str, float]:
    """Samples of a page in Prometheus' text format whose names begin with one of these."""
    found = {}
    for line in text.splitlines():
        if line.startswith(tuple(begins)) and (sample := _SAMPLE.match(line)):
            found[sample.group(1)] = float(sample.group(2))
    return found
