"""python -m kairoscope.serve FD FOLDER [TARGET]: serves the runs in FOLDER on a socket that
listens, and what is deployed and loaded on TARGET from now on.

Until its standard input ends: for `beside`, whose process holds the other end, and lets go of it by
dying.
"""

import os
import socket
import sys
import threading
import time
from pathlib import Path

from kairoscope import paths
from kairoscope.serve import web
from kairoscope.serve.now import Now
from kairoscope.serve.pages import Pages
from kairoscope.serve.shelf import Shelf

_LINGER_S = 8.0
"""So long it goes on after its parent, for a browser that has not seen the report yet."""


def main(fd: int, folder: Path, target: str | None = None) -> None:
    """Serve until the parent is gone, or lets go."""
    os.nice(19)
    shelf = Shelf(lambda: [folder])
    pages = Pages(shelf, paths.REFERENCE, Now(target, shelf) if target else None)
    server = web.Server(socket.socket(fileno=fd), pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()
    until = time.monotonic() + _LINGER_S
    while server.watched() and time.monotonic() < until:
        time.sleep(0.1)
    # What is drawn now nobody waits for.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
