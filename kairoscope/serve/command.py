"""`kairoscope report --serve`: all runs in a browser, until Ctrl-C."""

import contextlib
import os
from pathlib import Path

from rich.console import Console

from kairoscope import paths, run_folder
from kairoscope.errors import UserError
from kairoscope.serve import shelf, web
from kairoscope.serve.pages import Pages


def serve(run: Path | None, port: int | None, console: Console) -> None:
    """Serve all runs of this checkout, or with `run` those beside it, until Ctrl-C.

    Raises:
        UserError: `run` is no run folder, or there is no port to be had.
    """
    places: shelf.Places = shelf.everywhere
    address = "/"
    if run is not None:
        run_folder.check(run)
        places = lambda: [run.parent]  # noqa: E731
        address = shelf.address(run)
    try:
        listening = web.listen(port)
    except OSError as error:
        raise UserError(f"No port can be listened on: {error}") from error
    # A load may go on beside it.
    os.nice(19)
    server = web.Server(listening, Pages(shelf.Shelf(places), paths.REFERENCE))
    where = web.url(listening, address)
    console.print(f"in a browser on this machine, until Ctrl-C: {where}", soft_wrap=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
