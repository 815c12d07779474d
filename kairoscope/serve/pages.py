"""The pages that are served, and how often a browser is to ask for one again.

What draws them is imported by the first that is asked for: it takes a while, and beside a load
nobody may ever ask.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kairoscope import run_folder
from kairoscope.serve.now import ADDRESS, FAILED, Now
from kairoscope.serve.shelf import Shelf, leads_out
from kairoscope.serve.tails import Tails

if TYPE_CHECKING:
    from kairoscope.serve.standing import Standing

LEAST_MS, MOST_MS = 2000, 5000
"""After so long, in ms, a browser asks again for the page of a run that goes on. A run's files have
a line a second; and whoever watches is to see the end."""

SHARE = 20
"""Between these so seldom that reading and drawing take one in so many seconds of a core: what is
measured beside it must not see it, however long the run is."""


@dataclass(frozen=True)
class Page:
    """A page as bytes; `every_ms`: of a run that goes on, when to ask for it again."""

    body: bytes
    every_ms: int | None = None


class Pages:
    """The pages of the runs of a shelf. Not for several threads at once."""

    def __init__(self, shelf: Shelf, reference: Path, now: Now | None = None) -> None:
        """`reference`: folder of published figures. `now`: what is at its address."""
        self._shelf = shelf
        self._reference = reference
        self._now = now
        self._tails = Tails()
        self._standing: dict[Path, Standing] = {}
        self._drawn: set[Path] = set()
        self._every_ms = LEAST_MS

    def page(self, address: str) -> Page | None:
        """The page of an address; None if there is none."""
        if address == "/":
            return Page(self._list())
        if self._now is not None and address == ADDRESS:
            run = self._now.run()
            if run is None:
                return self._deploying(self._now)
            address = run
        folder = self._shelf.folders().get(address)
        if folder is None or leads_out(folder):
            return None
        if run_folder.goes_on(folder):
            return self._growing(folder)
        self._standing.pop(folder, None)
        return Page(self._report(folder))

    def _report(self, folder: Path) -> bytes:
        """As it was written; drawn now if the run did not come to that."""
        try:
            return (folder / run_folder.REPORT_HTML).read_bytes()
        except FileNotFoundError:
            from kairoscope.report import html  # noqa: PLC0415

            return html(folder, self._reference).encode()

    def _growing(self, folder: Path) -> Page:
        from kairoscope.report import data, watched  # noqa: PLC0415
        from kairoscope.serve.standing import Standing  # noqa: PLC0415

        standing = self._standing.setdefault(folder, Standing(folder, self._tails))
        run = standing.of(data.read(folder, self._tails.lines))
        began = time.process_time()
        text = watched(run, self._reference, self._every_ms)
        spent_ms = (time.process_time() - began) * 1000
        # The first one has what is imported for it, too.
        if folder in self._drawn:
            self._every_ms = round(min(MOST_MS, max(LEAST_MS, SHARE * spent_ms)))
        self._drawn.add(folder)
        return Page(text.encode(), self._every_ms)

    def _deploying(self, now: Now) -> Page:
        from kairoscope.report import pages  # noqa: PLC0415

        deploy = now.deploying()
        every_ms = None if deploy.word == FAILED else LEAST_MS
        return Page(pages.deploying(deploy, every_ms).encode(), every_ms)

    def _list(self) -> bytes:
        from kairoscope.report import pages  # noqa: PLC0415

        return pages.runs(self._shelf.shown()).encode()
