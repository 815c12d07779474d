"""The baseline of the loader's benches: sensors emulated the way it was published in 2018.

Written anew after what the published script does (results/reference/ names it): one process has one
telnet connection; every second it takes one timestamp for all 25,000 sensors and, for each of them,
draws a value, formats a `put` command and hands it to the socket by a call of its own. A bench
measures what that costs, so the second of sleep between two rounds is left out, which only makes
the baseline faster. Values have six digits, as ours have, so that both sides send as many bytes.

    python -m bench.published_way HOST:PORT POINTS

prints one JSON object: `points`, `wall_s` and `cpu_s` of the sending alone. It ends after the
server has answered `version`, that is, after it has read everything.
"""

import json
import random
import socket
import sys
import time

SENSORS = 25_000
_ANSWER_TIMEOUT_S = 60


def send(address: str, points: int) -> dict[str, float]:
    """Send at least so many data points, in whole rounds of 25,000 sensors.

    Args:
        address: "host:port" of a telnet port.
        points: data points.

    Returns:
        points sent, seconds of wall clock and of CPU that it took.

    Raises:
        OSError: the connection was refused or lost, or the server never answered.
    """
    host, _, port = address.rpartition(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=_ANSWER_TIMEOUT_S) as connection:
        connection.settimeout(None)
        began, cpu_before = time.perf_counter(), time.process_time()
        while sent < points:
            now_ms = round(time.time() * 1000)
            for sensor in range(1, SENSORS + 1):
                value = random.randint(100_000, 999_999)  # noqa: S311 - a sensor's value
                line = f"put SENSOR_{sensor} {now_ms} {value} status=good\n"
                connection.sendall(line.encode())
            sent += SENSORS
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_before
        connection.settimeout(_ANSWER_TIMEOUT_S)
        connection.sendall(b"version\n")
        if not connection.recv(1):
            raise ConnectionResetError(f"{address} closed before it answered")
    return {"points": sent, "wall_s": wall_s, "cpu_s": cpu_s}


if __name__ == "__main__":
    print(json.dumps(send(sys.argv[1], int(sys.argv[2]))))
