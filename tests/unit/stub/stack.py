"""A stack: takes points as KairosDB's REST does, keeps them in memory, and knows them again."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.sampling import Periodic
from kairoscope.plan import Plan
from kairoscope.plan.draft import Draft
from kairoscope.run_folder import Expected, JsonLines
from kairoscope.stacks.needs import Listener, Memory, Needs
from kairoscope.stacks.stack import ReadBack
from kairoscope.verdict.settlement import AtAll, SeriesResult
from loaders.schedule.due import Schedule
from loaders.schedule.values import values


@dataclass
class Server:
    """Points by metric: {timestamp: value}. It may lose one in `loses`."""

    loses: int = 0
    points: dict[str, dict[int, Any]] = field(default_factory=dict)
    taken: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def take(self, body: bytes) -> None:
        for metric in json.loads(body):
            one = [metric.get("timestamp"), metric.get("value")]
            for timestamp, value in metric.get("datapoints", [one]):
                self.taken += 1
                if self.loses and self.taken % self.loses == 0:
                    continue
                self.points.setdefault(metric["name"], {})[timestamp] = value

    @contextlib.contextmanager
    def serving(self) -> Iterator["Server"]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer(204)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with server.lock:
                    server.take(body)
                self.answer(204)

            def answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            self.url = f"http://127.0.0.1:{http.server_address[1]}"
            thread = threading.Thread(target=http.serve_forever, daemon=True)
            thread.start()
            try:
                yield self
            finally:
                http.shutdown()
                thread.join()


@dataclass
class Planned:
    settings: dict[str, Any]
    held_s: float = 0


class Backlog:
    def __init__(self, file: JsonLines) -> None:
        self.file = file
        self.samplers = [Periodic("queue depth", 1, self.look)]

    def total(self, since: float = 0) -> int:
        return 0

    def look(self) -> None:
        self.file.write(t=time.time(), node="stub-1", waiting=0)

    def nudge(self) -> None:
        pass


class Captures:
    samplers: list[Any] = []  # noqa: RUF012

    def before(self) -> list[str]:
        return []

    def start(self, begin_s: float, end_s: float, first_s: float) -> None:
        pass

    def end_at(self, end_s: float) -> None:
        pass

    def loaded(self) -> None:
        pass

    def stop(self) -> list[str]:
        return []

    def after(self) -> None:
        pass

    def stored_bytes(self) -> int | None:
        return None


class Session:
    credentials = None

    def __init__(self, server: Server, not_judged: dict[str, str]) -> None:
        self.server = server
        self.not_judged = not_judged
        self.folder = Path()

    def check_ready(self) -> None:
        pass

    def versions(self) -> dict[str, str]:
        return {"stub": "1"}

    def untold(self) -> list[str]:
        return []

    def expected(self) -> Expected:
        return Expected([], [], [], disk=False, not_judged=self.not_judged)

    def begin(self, folder: Path, started_s: float, events: JsonLines) -> None:
        self.folder = folder

    def removed(self, host: Host) -> bool:
        return False

    def endpoints(self) -> tuple[list[str], list[str]]:
        return [self.server.url], []

    def store(self) -> None:
        return None

    def waiting_now(self) -> list[dict[str, Any]]:
        waiting = None if "drain" in self.not_judged else 0
        return [{"node": "stub-1", "waiting": waiting, "disk_bytes": None}]

    def empty(self) -> None:
        self.server.points.clear()

    def compacts(self) -> bool:
        return False

    def backlog(self) -> Backlog | None:
        if self.not_judged:
            return None
        return Backlog(JsonLines(self.folder / "queue.jsonl"))

    def captures(self) -> Captures:
        return Captures()

    def refuse_old_history(self, schedule: Schedule) -> None:
        pass

    def read_back(
        self,
        schedule: Schedule,
        incomplete: Callable[[SeriesResult], bool],
        on_result: Callable[[SeriesResult], None],
        console: Console,
    ) -> ReadBack:
        rows = 0
        for series in schedule.series():
            held = self.server.points.get(schedule.spec.metric_name(series.number), {})
            times = schedule.timestamps_ms(series.rank, series.ticks)
            present = np.array([int(t) in held for t in times])
            wanted = values(series.number, times)
            right = np.array(
                [held.get(int(t)) == int(v) for t, v in zip(times, wanted, strict=True)]
            )
            rows += len(held)
            on_result(SeriesResult(series, present, right, 0))
        return ReadBack(1, "every point was looked for in the stub's memory", lambda: rows)

    def given_up(self, spec: Any, on_silent: Any) -> list[Any]:
        return []

    def look_on_all_replicas(self, gaps: list[Any]) -> AtAll:
        missing = sum(gap.count for gap in gaps)
        return AtAll("ONE", missing, 0, 0, missing)


class StubStack:
    name = "stub"
    title = "Stub"
    roles = {"kairosdb": "stub"}  # noqa: RUF012
    taker = "stub server"
    unused = ()
    protocols = ("rest",)
    write_paths: ClassVar[Mapping[str, str]] = {}
    partly = ""
    bundles = ()
    scraped = ()
    playbooks = Path(__file__).parent

    def __init__(self, server: Server, not_judged: dict[str, str] | None = None) -> None:
        self.server = server
        self._not_judged = not_judged or {}

    def not_judged(self, plan: Plan) -> dict[str, str]:
        return self._not_judged

    def engine(self, target: Any) -> str:
        return "memory"

    def shards(self, draft: Draft) -> int:
        return 1

    def servers(self, draft: Draft) -> Planned:
        return Planned({})

    def store(self, draft: Draft, servers: Planned, now_s: float) -> dict[str, Any]:
        draft.totals["disk_bytes"] = 0
        return {}

    def notices(self, draft: Draft, target: Any, servers: Planned) -> None:
        draft.notices.append("The stub forgets everything.")

    def show(self, hosts: Inventory, states: Any, console: Console) -> bool:
        console.print(f"stub servers: {len(hosts.kairosdb)}")
        return True

    def fetch(self, console: Console) -> None:
        pass

    def brought(self, plan: Plan, shared: bool, given: Path | None) -> None:
        return None

    def remember(self, target: str, server: Any) -> None:
        raise AssertionError("it brings no server")

    def fresh_tokens(self, plan: Plan, node: int) -> list[str]:
        return []

    def of_all(self, *_: Any) -> dict[str, Any]:
        return {}

    def of_machine(self, plan: Plan, machine: Any, layout: Any, brought: Any) -> dict[str, Any]:
        return {"home": layout.home(machine.name)}

    def needs(self, plan: Plan) -> Needs:
        return Needs(Memory(0, "0"))

    def listeners(self, host: Host, *, watched: bool) -> list[Listener]:
        return []

    @contextlib.contextmanager
    def connect(self, plan: Plan, hosts: Inventory) -> Iterator[Session]:
        yield Session(self.server, self._not_judged)
