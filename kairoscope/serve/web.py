"""Serves pages over HTTP to this machine alone. Read-only: GET and HEAD.

A page of another site may have a browser ask here, under a name that it has made point at this
machine; so only requests for this machine's own name are answered.
"""

import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from kairoscope import __version__
from kairoscope.errors import UserError
from kairoscope.serve.pages import Page, Pages

HOST = "127.0.0.1"

PORT = 8989
"""Where a free one is looked for first, so that an address stays what it is from run to run."""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SILENT_S = 10.0
"""A connection on which nothing comes for so long is closed."""


def listen(port: int | None) -> socket.socket:
    """A socket on this machine's own address: on `port`, by default on the usual or a free one.

    Raises:
        UserError: `port` cannot be had.
        OSError: none can.
    """
    wanted = (port,) if port is not None else (PORT, 0)
    problem: OSError | None = None
    for each in wanted:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, each))
            listening.listen()
        except OSError as error:
            listening.close()
            problem = error
            continue
        return listening
    assert problem is not None
    if port is not None:
        raise UserError(
            f"--port {port}: cannot be listened on at {HOST} ({problem.strerror}). Give another "
            "one, or none for one that is free"
        )
    raise problem


def url(listening: socket.socket, address: str = "/") -> str:
    """What to type into a browser."""
    return f"http://{HOST}:{listening.getsockname()[1]}{address}"


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: "Server"
    server_version = f"Kairoscope/{__version__}"
    sys_version = ""
    timeout = _SILENT_S

    def do_GET(self) -> None:
        """A page, or why there is none."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"Not the name of this machine.\n")
            return
        path = unquote(urlsplit(self.path).path)
        try:
            body = self.server.page(path if path == "/" else path.rstrip("/"))
        except Exception as error:  # of whatever file; the other pages are served on
            said = f"This page could not be drawn: {error!r}\n".encode()
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, said)
            return
        if body is None:
            self._answer(HTTPStatus.NOT_FOUND, b"There is no such run. All of them are at /\n")
            return
        self._answer(HTTPStatus.OK, body, "text/html")

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self.close_connection = True
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"Read-only: GET and HEAD.\n")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", _POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            *((("Allow", "GET, HEAD"),) if status == HTTPStatus.METHOD_NOT_ALLOWED else ()),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the screen is the run's."""


class Server(ThreadingHTTPServer):
    """Answers on a socket that listens."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, pages: Pages) -> None:
        """Takes the socket over."""
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self._pages = pages
        self._drawing = threading.Lock()
        # Of the page of a run that goes on: until when a browser that has it will ask again, and
        # until when whoever asks gets what was drawn for another.
        self._watched: dict[str, float] = {}
        self._drawn: dict[str, tuple[float, Page]] = {}

    def page(self, address: str) -> bytes | None:
        """The page of an address; None if there is none.

        That of a run that goes on is drawn as seldom as one browser asks, however many do.
        """
        with self._drawing:
            now = time.monotonic()
            until, found = self._drawn.get(address, (now, None))
            if found is None or until <= now:
                found = self._pages.page(address)
                # Drawing may have taken a while.
                now = time.monotonic()
                self._drawn.pop(address, None)
                self._watched.pop(address, None)
            if found is None:
                return None
            if found.every_ms is not None:
                self._drawn.setdefault(address, (now + found.every_ms / 1000, found))
                # A browser that does not ask for so long is gone.
                self._watched[address] = now + 2 * found.every_ms / 1000
            return found.body

    def watched(self) -> bool:
        """Whether a browser is about to ask again for the page of a run, not knowing its end."""
        with self._drawing:
            return any(until > time.monotonic() for until in self._watched.values())
