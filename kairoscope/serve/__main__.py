"""python -m kairoscope.serve FD FOLDER: serves the runs in FOLDER on a socket that listens.

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
from kairoscope.serve.pages import Pages
from kairoscope.serve.shelf import Shelf

_LINGER_S = 8.0
"""So long it goes on after its parent, for a browser that has not seen the report yet."""


def main(fd: int, folder: Path) -> None:
    """Serve until the parent is gone, or lets go."""
    os.nice(19)
    shelf = Shelf(lambda: [folder])
    server = web.Server(socket.socket(fileno=fd), Pages(shelf, paths.REFERENCE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()
    until = time.monotonic() + _LINGER_S
    while server.watched() and time.monotonic() < until:
        time.sleep(0.1)
    # What is drawn now nobody waits for.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
