"""Questions beside a load (`kairoscope.stacks.questions`): how long a system takes to answer while
points come in.

Each kind has one client, which asks at set times and waits for its answer, as a dashboard that is
drawn anew does. A latency counts from when the question was due. What is due while the one before
is not answered is left out, and counted: a slow system is asked less often, and not more at once.

They are asked from a process of their own, so that what captures and leads the load holds up no
answer. It is a child of the run, whose CPU is ours.
"""

import asyncio
import contextlib
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.plan import Plan
from kairoscope.run.current import CurrentRun
from kairoscope.run.loading import Beside
from kairoscope.stacks import questions
from kairoscope.stacks.questions import Asks, Question, Request
from kairoscope.stacks.stack import Session

TIMEOUT_S = 30
_LEAD_S = 1
"""So long before the first question they are put into the system's words, for which it may have to
be asked under what names it has the sensors."""
_GRACE_S = 10
_OK = 200
_EXCERPT_CHARS = 300


def of_plan(plan: Plan) -> Beside:
    """What asks beside a plan's load. UserError for one that these questions do not fit."""
    load = plan.load
    if load["replay"]:
        raise UserError("--ask: a replay is over before an hour of it could be asked for again")
    if "{n}" in load["metric"] or load["lifetime_ticks"]:
        raise UserError("--ask: is for loads of one metric (load.metric) whose sensors stay")
    if plan.security["enabled"]:
        raise UserError("--ask: is for servers that ask for no password (security.enabled false)")
    return _under


@contextlib.contextmanager
def _under(current: CurrentRun, session: Session) -> Iterator[None]:
    """Ask while the block runs and until the last question is answered; all of it is written to
    the run folder."""
    assert current.schedule is not None  # the load is about to start
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        pickle.dump((session.asks(), questions.of_load(current.schedule)), given)
        given.seek(0)
        with subprocess.Popen(
            # -P: a folder named "kairoscope" where the user happens to be is not ours.
            [
                sys.executable,
                "-P",
                "-m",
                "kairoscope.run.asking",
                current.folder / run_folder.ASKED,
            ],
            stdin=given,
            stderr=said,
            # Ctrl-C is for the run, which ends this.
            start_new_session=True,
        ) as process:
            try:
                yield
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(TIMEOUT_S + _GRACE_S)
            finally:
                process.kill()
        if process.returncode:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
            current.note(questions.ENDED_EARLY, last or f"exit status {process.returncode}")


async def _ask_all(asks: Asks, wanted: Sequence[Question], file: Path) -> None:
    await asyncio.sleep(wanted[0].until_ms / 1000 - _LEAD_S - time.time())
    put = list(zip(wanted, asks(wanted), strict=True))
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    # Packed answers would be of the packing's cost.
    headers = {"Accept-Encoding": "identity"}
    with file.open("w", buffering=1, encoding="utf-8") as out:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as http:
            await asyncio.gather(
                *(
                    _in_turn(http, [(q, r) for q, r in put if q.kind == kind], out.write)
                    for kind in questions.KINDS
                )
            )


async def _in_turn(
    http: aiohttp.ClientSession,
    mine: Sequence[tuple[Question, Request | str]],
    write: Callable[[str], Any],
) -> None:
    """Ask the questions of a kind one after the other, each when it is due."""
    free_s = time.time()
    for question, request in mine:
        due_s = question.until_ms / 1000
        record: dict[str, Any] = {"t": due_s, "kind": question.kind}
        if isinstance(request, str):
            write(json.dumps({"kind": question.kind, "why": request}) + "\n")
            return
        if free_s > due_s:
            record["left_out"] = True
        else:
            await asyncio.sleep(due_s - time.time())
            record |= await _answer(http, request, due_s)
            free_s = time.time()
        write(json.dumps(record) + "\n")


async def _answer(http: aiohttp.ClientSession, request: Request, due_s: float) -> dict[str, Any]:
    """Ask once: the latency (ms) of an answer, its bytes and what was found in it, or an error."""
    method = "GET" if request.document is None else "POST"
    try:
        async with http.request(
            method, request.url, params=request.given, json=request.document
        ) as answer:
            said = await answer.read()
    except TimeoutError:
        return {"error": f"no answer within {TIMEOUT_S} s"}
    except (aiohttp.ClientError, OSError) as error:
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:_EXCERPT_CHARS]}
    latency_ms = round((time.time() - due_s) * 1000, 3)
    if answer.status != _OK:
        text = " ".join(said[:_EXCERPT_CHARS].decode(errors="replace").split())
        return {"error": f"HTTP {answer.status}: {text}"}
    try:
        found = request.found(said)
    except (ValueError, LookupError, TypeError) as error:
        return {"error": " ".join(f"not an answer: {error}".split())[:_EXCERPT_CHARS]}
    return {"latency_ms": latency_ms, "bytes": len(said), "found": found}


if __name__ == "__main__":
    # By the run, which made it a moment ago.
    _asks, _wanted = pickle.load(sys.stdin.buffer)  # noqa: S301
    asyncio.run(_ask_all(_asks, _wanted, Path(sys.argv[1])))
