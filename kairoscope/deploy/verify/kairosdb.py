"""Checks of the KairosDB nodes: their settings, and that points are taken and found again."""

import json
import time
import zlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from kairoscope.deploy.verify import answers
from kairoscope.deploy.verify.check import of_each
from kairoscope.deploy.verify.context import REQUEST_S, Context
from kairoscope.deploy.verify.finding import Finding
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.stacks.kairosdb.settings import hocon

# The points that are written and read back; one series for each KairosDB node.
METRIC = "kairoscope_verify"
# After a point has left KairosDB's queue: with consistency ONE a read may meet the one replica that
# is behind.
READ_BACK_S = 30.0


def healthy(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB reaches its store, and takes points."""

    def look(host: Host) -> tuple[str, bool]:
        found = context.client.kairosdb(host)
        if found.read_only:
            return "in read-only mode", False
        if not found.healthy:
            return "; ".join(found.troubles) or "not healthy", False
        return "healthy", True

    return of_each(check, context.kairosdb, "healthy", look)


def given_up(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB's queue has stored, or still has, all that it took: none given up, none torn."""

    def look(host: Host) -> tuple[str, bool]:
        found = context.client.kairosdb(host)
        if not found.answers:
            return "does not tell", False
        lost = {"refused by the store": found.dead_letters, "unreadable": found.unreadable}
        off = [f"{count:,} {what}" for what, count in lost.items() if count]
        see = "; see: kairoscope queue inspect" if off else ""
        return (", ".join(off) or "none") + see, not off

    return of_each(check, context.kairosdb, "none", look)


def settings(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB runs with the file that was written for it, and that is the plan's."""

    def look(host: Host) -> tuple[str, bool]:
        answer = context.client.get_json(host, "/api/v1/kairoscope/settings", REQUEST_S)
        text = ssh.run(host, ["cat", f"{host.home}/conf/kairosdb.conf"], sudo=True)
        planned = answers.without_secrets(hocon.parse(text, f"{host.name}: kairosdb.conf"))
        planned |= answers.planned_settings(context.plan)
        off = hocon.effective_differences(planned, answer["settings"])
        return "; ".join(off) or f"{len(planned)} as planned", not off

    return of_each(check, context.kairosdb, "as planned", look)


def read_back(context: Context, check: str) -> Iterable[Finding]:
    """A point written through each KairosDB node is read back from all of them."""
    nodes = context.kairosdb
    now_ms = time.time_ns() // 1_000_000
    written = []
    for writer in nodes:
        try:
            point = [now_ms, _value(writer, now_ms)]
            context.client.post(writer, "/api/v1/datapoints", _points(writer, point))
            written.append(writer)
        except OSError as error:
            yield Finding.of(check, writer.name, str(error), "a point written", False)
    deadline = time.monotonic() + context.plan.held_s + READ_BACK_S

    def look(writer: Host, reader: Host) -> tuple[str, bool]:
        wanted = [[now_ms, _value(writer, now_ms)]]
        while True:
            found = _read(context, reader, writer, now_ms)
            if found == wanted or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        return ("the point" if found == wanted else f"{found or 'nothing'}"), found == wanted

    for writer in written:
        yield from of_each(check, nodes, f"the point of {writer.name}", partial(look, writer))


def _value(writer: Host, now_ms: int) -> int:
    """Of its series and time, so that no other point passes for it."""
    return zlib.crc32(f"{writer.name} {now_ms}".encode())


def _points(writer: Host, point: list[int]) -> list[dict[str, Any]]:
    return [{"name": METRIC, "datapoints": [point], "tags": {"node": writer.name}}]


def _read(context: Context, reader: Host, writer: Host, now_ms: int) -> list[list[int]]:
    metric = {"name": METRIC, "tags": {"node": [writer.name]}}
    query = {"start_absolute": now_ms, "end_absolute": now_ms, "metrics": [metric]}
    answer = json.loads(context.client.post(reader, "/api/v1/datapoints/query", query))
    return [point for result in answer["queries"][0]["results"] for point in result["values"]]
