"""A carbon-cache's query port: what it has of a metric and has not written yet.

The request is that of graphite-web (carbon 1.1.10, lib/carbon/protocols.py,
CacheManagementHandler): a pickle behind its length in four bytes; the answer likewise, of which
nothing but numbers, texts, lists and dicts is taken.
"""

import io
import pickle
import socket
import struct
from typing import Any

from kairoscope.hosts.sockets import exactly

_LENGTH = struct.Struct("!L")
_TIMEOUT_S = 10


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"an answer of carbon's names {module}.{name}")


def points(where: tuple[str, int], metrics: list[str]) -> dict[str, list[tuple[float, float]]]:
    """(time in s, value) of what waits of each metric in the cache at an address and port.

    OSError if it does not answer, ValueError if the answer is none.
    """
    asked = pickle.dumps({"type": "cache-query-bulk", "metrics": metrics}, protocol=2)
    with socket.create_connection(where, timeout=_TIMEOUT_S) as connection:
        connection.sendall(_LENGTH.pack(len(asked)) + asked)
        (length,) = _LENGTH.unpack(exactly(connection, _LENGTH.size))
        said = exactly(connection, length)
    try:
        found = _Plain(io.BytesIO(said)).load()["datapointsByMetric"]
        return {metric: list(waiting) for metric, waiting in found.items()}
    except (pickle.UnpicklingError, LookupError, TypeError, AttributeError, EOFError) as error:
        raise ValueError(f"carbon's query port: {error}") from error
