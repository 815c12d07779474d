"""KairosDB's REST API: JSON over HTTP with keep-alive connections."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import numpy as np
import yarl

from loaders.protocol import Answer, Reply
from loaders.schedule import Group, planned_ms
from loaders.spec import LoadSpec
from loaders.values import values

_PATH = "/api/v1/datapoints"
_ACKNOWLEDGED = 204
_CLIENT_ERRORS = range(400, 500)
_EXCERPT_BYTES = 500


def body_template(spec: LoadSpec, group: Group) -> bytes:
    """Everything of a group's request body but timestamps and values: a bytes %-template.

    It takes timestamp and value of each sensor in turn, as integers.
    """

    def literal(value: object) -> str:
        return json.dumps(value, separators=(",", ":")).replace("%", "%%")

    tags = literal(spec.tags)
    points = (
        f'{{"name":{literal(spec.metric_name(sensor))},"timestamp":%d,"value":%d,"tags":{tags}}}'
        for sensor in group.sensors.tolist()
    )
    return ("[" + ",".join(points) + "]").encode()


def datapoints_body(spec: LoadSpec, group: Group, tick: int, template: bytes) -> bytes:
    """Request body of a group at a tick: a JSON array with one point per sensor, type long."""
    timestamp = planned_ms(spec, group, tick)
    fields = np.empty(2 * len(group.sensors), dtype=np.int64)
    fields[0::2] = timestamp
    fields[1::2] = values(group.sensors, timestamp)
    return template % tuple(fields.tolist())


class Rest:
    """Sends groups by POST to /api/v1/datapoints; 204 is the acknowledgement.

    The number of connections is not limited here: the caller makes no more attempts at once than
    it wants connections, and so knows what waited for a connection and what waited for KairosDB.
    Must be created inside a running event loop.
    """

    def __init__(self, spec: LoadSpec, groups: list[Group]) -> None:
        """Prepare the connections and one body template per group."""
        self._spec = spec
        self._urls = [yarl.URL(node.rstrip("/") + _PATH) for node in spec.nodes]
        self._templates = {group.index: body_template(spec, group) for group in groups}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15),
            timeout=aiohttp.ClientTimeout(total=spec.request_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
            trace_configs=[_trace()],
        )

    async def send(self, group: Group, tick: int, on_reach: Callable[[], None]) -> Reply:
        """Make one attempt; see `loaders.protocol.Protocol`."""
        # Built per attempt: a request that waits or is tried again costs no memory for its body.
        body = datapoints_body(self._spec, group, tick, self._templates[group.index])
        try:
            async with self._session.post(
                self._urls[group.node],
                data=body,
                allow_redirects=False,
                trace_request_ctx=on_reach,
            ) as response:
                if response.status == _ACKNOWLEDGED:
                    return _OK
                excerpt = (await response.content.read(_EXCERPT_BYTES)).decode(errors="replace")
                status = response.status
        except aiohttp.ClientConnectorError as error:
            refused = error.os_error.errno == errno.ECONNREFUSED
            return Reply(Answer.FAILED, "refused" if refused else "connect", _line(error))
        except TimeoutError:
            limit = f"no answer within {self._spec.request_timeout_s:g} s"
            return Reply(Answer.FAILED, "timeout", limit)
        except (aiohttp.ServerDisconnectedError, OSError) as error:
            return Reply(Answer.FAILED, "reset", _line(error))
        except aiohttp.ClientError as error:
            return Reply(Answer.FAILED, "http", _line(error))
        # A status that is neither 204 nor 4xx (a proxy's page, say) confirms nothing and
        # refuses nothing.
        answer = Answer.REJECTED if status in _CLIENT_ERRORS else Answer.FAILED
        return Reply(answer, f"http_{status}", f"HTTP {status}: {' '.join(excerpt.split())}")

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


_OK = Reply(Answer.ACKNOWLEDGED)


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_EXCERPT_BYTES]


def _trace() -> aiohttp.TraceConfig:
    """Tell each request when it has a connection: before that, nothing of it can have left."""

    async def connected(
        _session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any
    ) -> None:
        context.trace_request_ctx()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    return trace
