"""HTTP to servers of ours: whatever proxy the environment names is for what is outside, and may
know no way to this machine or its hosts."""

import functools
import ssl
import urllib.request
from http.client import HTTPResponse


def answer(
    request: str | urllib.request.Request, timeout_s: float, tls: ssl.SSLContext | None = None
) -> HTTPResponse:
    """The answer to a request (a URL: GET), to be closed. OSError if none comes, or no success."""
    found: HTTPResponse = _opener(tls).open(request, timeout=timeout_s)
    return found


# To make one reads all certificates that this machine trusts, and some are asked each second.
@functools.lru_cache(maxsize=8)
def _opener(tls: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if tls:
        handlers.append(urllib.request.HTTPSHandler(context=tls))
    return urllib.request.build_opener(*handlers)
