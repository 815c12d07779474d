"""The end of a run: its verdict and its report, whatever has happened."""

import multiprocessing
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from kairoscope import interrupts, live, paths, report, run_folder
from kairoscope.compare import history
from kairoscope.errors import UserError
from kairoscope.run.current import CurrentRun
from kairoscope.run.show import show
from kairoscope.verdict import conclude


def finish(current: CurrentRun, console: Console) -> str:
    """Judge what there is, write it, and tell where it is; the verdict."""
    # A second Ctrl-C now would lose what the first one left; this takes seconds.
    interrupts.ignore()
    interrupts.let_go_of_deaf()
    current.at("judging")
    try:
        with live.stage(console, "judging, and drawing the report", usual="some seconds"):
            current.end()
            conclusion = _judge(current.folder)
            conclusion.write()
            manifest = run_folder.read_object(current.folder / run_folder.MANIFEST)
            manifest["ended"] = datetime.now(UTC).isoformat()
            manifest["load"] = conclusion.times
            run_folder.write_json(current.folder / run_folder.MANIFEST, manifest)
            forgotten = _remember(current)
            html = _draw(current.folder)
    except OSError as error:
        raise UserError(
            f"The run's results could not be written to {current.folder}: {error}. What was "
            "captured before stays there; the run is incomplete."
        ) from error
    show(conclusion.verdict, console)
    if forgotten:
        console.print(f"not in the history: {forgotten}", soft_wrap=True, markup=False)
    told = html or f"what draws it was killed; kairoscope report {current.folder} draws it"
    console.print(f"report: {told}", soft_wrap=True)
    return conclusion.verdict.verdict


def _judge(folder: Path) -> conclude.Conclusion:
    """Its verdict. UserError if a bug of ours is in the way: by a traceback alone its exit status
    would be that of a verdict that failed."""
    try:
        return conclude.judge(folder)
    except conclude.ODD as error:
        traceback.print_exc()
        raise UserError(
            f"The run could not be judged: {error!r}. That is a bug of Kairoscope; what was "
            f"captured stays in {folder}."
        ) from error


def _draw(folder: Path) -> Path | None:
    """Write the report, in a process of its own; its page, None if that process was killed.

    Charts take a library and memory that a load has no use for, nor a search, of which the next
    trial comes. OSError if it cannot be written.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        try:
            html, _ = alone.submit(report.write, folder, paths.REFERENCE).result()
        except BrokenProcessPool:
            return None
    return html


def _remember(current: CurrentRun) -> str:
    """Add the run to the history; why it cannot be, which does not end the run, and of which its
    folder, whose events have been judged, says nothing any more."""
    try:
        history.remember(current.folder, paths.results_dir() / history.NAME)
    except (UserError, OSError) as error:
        return str(error)
    return ""
