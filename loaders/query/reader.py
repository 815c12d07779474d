"""One reader process: asks queries beside the load of a loader host, on schedule, and judges each.

Run as `python -m loaders.query.reader SPEC.json HOST OUTDIR`.

The loop is open, as a worker's is: a query is sent when it is due, whatever became of earlier ones,
and its latency counts from then until the whole answer has been read. A KairosDB node that is down
is not avoided: the queries meant for it fail. At most `MAX_IN_FLIGHT` queries wait for an answer or
for being judged; one that is due beyond that is not sent, and counted.

Beside those a few sensors are followed (`loaders.query.following`): every second one KairosDB node
is asked for all of their latest points, and none again before it has answered. These reads are in
no count and no latency of the queries.

It is stopped as a worker is (`loaders.send.worker`), and has the same exit statuses.
"""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from loaders import process
from loaders.credentials import Credentials
from loaders.query.answers import FAILED, LATE, RIGHT, WRONG, AnswerError, Checked, check
from loaders.query.following import Following
from loaders.query.queries import KINDS, TAGS, Query, QueryLoad
from loaders.query.query_files import QueryFiles
from loaders.record.recorder import Recorder
from loaders.schedule import cut, shard
from loaders.schedule.clock import Clock
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec

MAX_IN_FLIGHT = 32

VERDICTS = (RIGHT, LATE, WRONG, FAILED)

_OK = 200
_GRACE_S = 2.0
# After so long a sleep looks whether the schedule was cut.
_LONGEST_SLEEP_S = 1.0
_EXAMPLES = 10
_MOST_NAMED = 20  # metrics and series in a record of an answer
_EXCERPT_CHARS = 300
_SWITCH_S = 0.0005


@dataclass(frozen=True)
class _Reply:
    """The body of an answer with status 200; or None, with the kind of failure and its text."""

    body: bytes | None
    failure: str = ""
    text: str = ""


class Reader:
    """The open loop of one loader host's queries. Must be created inside a running event loop."""

    def __init__(
        self, spec: LoadSpec, host: int, outdir: Path, credentials: Credentials | None = None
    ) -> None:
        """Prepare everything; nothing is sent before `run`.

        Args:
            spec: the load of all hosts.
            host: which loader host this is, 0-based.
            outdir: existing folder for its files.
            credentials: for nodes that are reached over HTTPS.

        Raises:
            FilesError: a file cannot be created.
            ValueError: the spec has no queries, or there is no such host.
        """
        shard.host_workers(spec.hosts, spec.workers_per_host, host)
        self._spec = spec
        self._host = host
        self._load = QueryLoad(Schedule(spec))
        self._end_us = spec.end_ms * 1000
        self._outdir = outdir
        self._credentials = credentials or Credentials()
        self._clock = Clock()
        self._tally = _Tally()
        self._recorder = Recorder(spec, self._clock.now_us())
        self._files = QueryFiles(outdir, host, spec.start_ms)
        self._following = Following(self._load, host)

        self._due_us: int | None = None  # of the query that is to be sent next
        self._asking: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        # One thread: judging must neither hold up the pace nor take another core from the load.
        self._judges = ThreadPoolExecutor(1)

    def stop(self) -> None:
        """Send no more queries, and give those in flight two seconds. May be called again."""
        self._stopping.set()

    async def run(self) -> dict[str, Any]:
        """Ask until the end of the schedule or `stop`, write all files, return the final figures.

        Raises:
            FilesError: a file could not be written; the queries were stopped at once.
        """
        started_ms = self._clock.now_us() // 1000
        cpu_start_s = time.process_time()
        gc.freeze()  # what exists by now stays: the collector need not walk through it
        timeout = aiohttp.ClientTimeout(total=self._spec.request_timeout_s)
        connector = aiohttp.TCPConnector(limit=MAX_IN_FLIGHT + len(self._spec.nodes))
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            nodes = range(len(self._spec.nodes)) if self._following else ()
            askers = {self._watched(self._follow(http, node)) for node in nodes}
            askers.add(self._watched(self._pace(http)))
            reporter = self._watched(
                process.every_second(self._clock, self._spec.start_ms, self._report, self.stop)
            )
            try:
                await self._until_stop(askers)
                while self._asking and not self._stopping.is_set():
                    await self._until_stop(set(self._asking))
                stopped_early = self._stopping.is_set()
                for asker in askers:
                    asker.cancel()
                if self._asking and not self._failure:
                    await asyncio.wait(self._asking, timeout=_GRACE_S)
            finally:
                # Cancelled queries settle themselves, as stopped.
                rest = [*askers, reporter, *self._asking]
                for task in rest:
                    task.cancel()
                await asyncio.gather(*rest, return_exceptions=True)
                self._judges.shutdown(wait=False, cancel_futures=True)
        try:
            if self._failure:
                raise self._failure
            self._report()
            result = {
                "host": self._host,
                # Before it knew of an earlier end it may have gone beyond.
                "scheduled": max(self._due(self._end_us - 1), self._tally.begun()),
                **self._tally.result(),
                "followed": self._following.to_json(),
                "send_error_us": self._recorder.send_error_us(),
                "cpu_s": round(time.process_time() - cpu_start_s, 3),
                "stopped_early": stopped_early,
                "started_ms": started_ms,
                "ended_ms": self._clock.now_us() // 1000,
            }
            self._files.finish(result)
        except BaseException:
            self._files.abandon()
            raise
        return result

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in the background; if it fails, the reader stops."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._failure = self._failure or error
            self._stopping.set()

    async def _until_stop(self, work: set[asyncio.Task[None]]) -> None:
        """Wait until all of `work` is done or a stop was asked for."""
        done: asyncio.Task[object] = asyncio.create_task(asyncio.wait(work))
        stop: asyncio.Task[object] = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({done, stop}, return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        stop.cancel()

    async def _pace(self, http: aiohttp.ClientSession) -> None:
        """Send every query at its planned time; if that is past, at once."""
        for number in self._load.of_host(self._host):
            # Made before it is due, as that takes time.
            query = self._load.query(number)
            body = json.dumps(self._load.body(query)).encode()
            self._due_us = query.planned_us
            wait_s = (query.planned_us - self._clock.now_us()) / 1e6
            while wait_s > _LONGEST_SLEEP_S and query.planned_us < self._end_us:
                await asyncio.sleep(_LONGEST_SLEEP_S)
                wait_s = (query.planned_us - self._clock.now_us()) / 1e6
            await asyncio.sleep(max(0, wait_s) if query.planned_us < self._end_us else 0)
            self._due_us = None
            if query.planned_us >= self._end_us:  # the schedule was cut meanwhile
                return
            if len(self._asking) >= MAX_IN_FLIGHT:
                self._tally.not_sent[query.kind] += 1
            else:
                self._tally.sent[query.kind] += 1
                self._asking.add(self._watched(self._ask(http, query, body)))

    async def _ask(self, http: aiohttp.ClientSession, query: Query, body: bytes) -> None:
        # The recorder tells warm-up by ticks.
        tick = self._spec.warmup_ticks - self._load.is_warmup(query)
        self._recorder.started(tick, max(0, self._clock.now_us() - query.planned_us), 1)
        checked, latency_us = None, None
        failure, text = "stopped", "stopped before it was answered and judged"
        try:
            reply = await self._answer(http, query, body)
            now_us = self._clock.now_us()
            latency_us = now_us - query.planned_us
            if reply.body is not None or reply.failure == "timeout":
                # What was given up took longer than that. A refusal is left out: a quick one must
                # not look like a fast answer.
                answered = reply.body is not None
                self._recorder.ended(tick, latency_us, 1, done=answered)
            if reply.body is None:
                failure, text = reply.failure, reply.text
            else:
                loop = asyncio.get_running_loop()
                checked = await loop.run_in_executor(
                    self._judges, check, self._load, query, reply.body, now_us // 1000
                )
        except AnswerError as error:
            failure, text = "answer", f"HTTP 200, but {error}"
        finally:
            verdict = self._tally.settle(query.kind, checked, failure, text)
            if verdict != RIGHT:
                self._files.answer(
                    self._asked(query)
                    | {
                        "latency_ms": None if latency_us is None else latency_us / 1000,
                        "verdict": verdict,
                        "reason": "" if checked else text,
                    }
                    | _off(checked or Checked())
                )

    async def _follow(self, http: aiohttp.ClientSession, node: int) -> None:
        """Ask one node for the followed sensors in its turn; a turn that comes before it has
        answered is left out."""
        while True:
            due_us = self._following.due_us(node, self._clock.now_us())
            while (wait_us := due_us - self._clock.now_us()) > 0 and due_us < self._end_us:
                await asyncio.sleep(min(wait_us / 1e6, _LONGEST_SLEEP_S))
            if due_us >= self._end_us:
                return
            query = self._following.query(node, self._clock.now_us())
            if query is not None:
                self._files.followed(await self._look(http, query))

    async def _look(self, http: aiohttp.ClientSession, query: Query) -> dict[str, Any]:
        """Ask for the followed sensors; what to write down of it."""
        reply = await self._answer(http, query, json.dumps(self._load.body(query)).encode())
        ended_us = self._clock.now_us()
        if reply.body is None:
            return self._following.unanswered(query, ended_us, reply.text)
        try:
            checked = await asyncio.get_running_loop().run_in_executor(
                self._judges, check, self._load, query, reply.body, ended_us // 1000
            )
        except AnswerError as error:
            return self._following.unanswered(query, ended_us, f"HTTP 200, but {error}")
        return self._following.answered(query, ended_us, checked)

    async def _answer(self, http: aiohttp.ClientSession, query: Query, body: bytes) -> _Reply:
        url = self._spec.nodes[query.node].rstrip("/") + self._load.path(query)
        headers = {"Content-Type": "application/json"}
        tls: ssl.SSLContext | bool = True
        if url.startswith("https:"):
            headers |= self._credentials.headers
            tls = self._credentials.tls
        try:
            async with http.post(url, data=body, headers=headers, ssl=tls) as response:
                answer = await response.read()
        except TimeoutError:
            limit = f"no answer within {self._spec.request_timeout_s:g} s"
            return _Reply(None, "timeout", limit)
        except (aiohttp.ClientError, OSError) as error:
            line = " ".join(f"{type(error).__name__}: {error}".split())
            return _Reply(None, "connection", line[:_EXCERPT_CHARS])
        if response.status != _OK:
            excerpt = " ".join(answer[:_EXCERPT_CHARS].decode(errors="replace").split())
            status = f"HTTP {response.status}: {excerpt}".rstrip(": ")
            return _Reply(None, f"http_{response.status}", status)
        return _Reply(answer)

    def _asked(self, query: Query) -> dict[str, Any]:
        """What a query asked for, for the file of answers; series null: all that the filter lets
        pass."""
        entries = query.entries[:_MOST_NAMED]
        series = [number for entry in query.entries for number in entry.numbers or ()]
        return {
            "t": query.planned_us / 1e6,
            "number": query.number,
            "kind": query.kind,
            "node": self._spec.nodes[query.node],
            "from_ms": query.from_ms,
            "until_ms": query.until_ms,
            "metrics": [{"name": entry.metric, "tags": entry.tags} for entry in entries],
            "series": series[:_MOST_NAMED] or None,
        }

    def _due(self, now_us: int) -> int:
        """How many queries of this host are due by then (epoch µs)."""
        return len(range(self._host, self._load.due(now_us), self._spec.hosts))

    def _report(self) -> None:
        if ticks := cut.read(self._outdir):
            self._end_us = self._spec.cut_to(ticks).end_ms * 1000
        now_us = self._clock.now_us()
        overdue_us = now_us - self._due_us if self._due_us and not self._stopping.is_set() else 0
        figures = self._recorder.flush(self._files, now_us, overdue_us)
        self._files.progress(
            {
                "t": round(now_us / 1e6, 3),
                "host": self._host,
                "due": self._due(min(now_us, self._end_us - 1)),
                **self._tally.counters(),
                "in_flight": len(self._asking),
                **figures,
            }
        )


def _off(checked: Checked) -> dict[str, Any]:
    return {
        "checked": checked.checked,
        "missing": checked.missing,
        "wrong": checked.wrong,
        "first_missing": checked.first_missing,
        "first_wrong": checked.first_wrong,
    }


class _Tally:
    """Queries by kind and verdict; when all is settled, sent = right + late + wrong + failed."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.not_sent: Counter[str] = Counter()
        self._verdicts: Counter[tuple[str, str]] = Counter()
        self._checked: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        self._extra = 0
        self._first_extra: list[dict[str, Any]] = []
        self._errors: Counter[str] = Counter()
        self._first_errors: list[str] = []

    def settle(self, kind: str, checked: Checked | None, failure: str, text: str) -> str:
        """Count what became of a query, a failure if it was not checked; return the verdict."""
        verdict = checked.verdict if checked else FAILED
        self._verdicts[kind, verdict] += 1
        if checked:
            self._checked[kind] += checked.checked
            self._missing[kind] += checked.missing
            self._extra += checked.extra
            self._first_extra = (self._first_extra + checked.first_extra)[:_EXAMPLES]
        else:
            self._errors[failure] += 1
            self._first_errors = [*self._first_errors, text][:_EXAMPLES]
        return verdict

    def begun(self) -> int:
        """Queries whose time came."""
        return self.sent.total() + self.not_sent.total()

    def counters(self) -> dict[str, int]:
        """Queries of all kinds, under the names used in files."""
        return {
            "sent": self.sent.total(),
            "not_sent": self.not_sent.total(),
            **{
                verdict: sum(self._verdicts[kind, verdict] for kind in KINDS)
                for verdict in VERDICTS
            },
        }

    def result(self) -> dict[str, Any]:
        kinds = {
            kind: {
                "sent": self.sent[kind],
                "not_sent": self.not_sent[kind],
                **{verdict: self._verdicts[kind, verdict] for verdict in VERDICTS},
                "checked": self._checked[kind],
                "missing": self._missing[kind],
            }
            for kind in KINDS
        }
        return {
            **self.counters(),
            "kinds": kinds,
            "points_checked": self._checked.total() - self._checked[TAGS],
            "points_late": self._missing.total() - self._missing[TAGS],
            "extra_tag_values": self._extra,
            "first_extra_tag_values": self._first_extra,
            "errors": dict(self._errors),
            "first_errors": self._first_errors,
        }


def _check(spec: LoadSpec, host: int) -> None:
    shard.host_workers(spec.hosts, spec.workers_per_host, host)
    if spec.queries is None:
        raise ValueError("queries: there are none, so no reader is needed")


def main(arguments: list[str]) -> int:
    """Run a reader from command line arguments; see `loaders.process.main`."""
    # The thread that judges gives way soon when a query is due or an answer comes.
    sys.setswitchinterval(_SWITCH_S)
    return process.main("reader", arguments, _check, Reader)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
