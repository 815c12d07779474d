"""Runs a sink until SIGTERM or SIGINT."""

import argparse
import asyncio
import contextlib
import functools
import json
import os
import signal
import sys
from collections.abc import Sequence

from loaders import sink
from loaders.sink.rest import Rest
from loaders.sink.sink import Sink
from loaders.sink.telnet import Telnet


async def _serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    counters = Sink(count=options.count)
    ports: dict[str, list[int]] = {"http": [], "telnet": []}
    for name, protocol, wanted in (
        ("http", Rest, options.http or [0]),
        ("telnet", Telnet, options.telnet or [0]),
    ):
        for port in wanted:
            accept = functools.partial(protocol, counters)
            server = await loop.create_server(accept, options.host, port, backlog=1024)
            ports[name].append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    while not stop.is_set() and options.parent in (0, os.getppid()):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loaders.sink", description=sink.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http", type=int, action="append", metavar="PORT")
    parser.add_argument("--telnet", type=int, action="append", metavar="PORT")
    parser.add_argument("--count", action="store_true", help="read bodies to count data points")
    parser.add_argument("--parent", type=int, default=0, help="end when no longer a child of PID")
    try:
        asyncio.run(_serve(parser.parse_args(arguments)))
    except OSError as error:
        print(f"sink: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
