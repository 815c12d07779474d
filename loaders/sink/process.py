"""A sink in a process of its own, for whoever measures."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class SinkProcess:
    """A sink in a process of its own. Use as `with SinkProcess() as sink`."""

    def __init__(
        self,
        *,
        count: bool = False,
        host: str = "127.0.0.1",
        http: Sequence[int] = (0,),
        telnet: Sequence[int] = (0,),
    ) -> None:
        """Start it and wait until it listens.

        Args:
            count: read all bodies to count data points.
            host: address to listen on.
            http: REST ports, one for each KairosDB node it stands for; 0 for a free one.
            telnet: telnet ports, likewise.

        Raises:
            RuntimeError: it did not start (a port is taken, say); it said why on stderr.
        """
        options = ["--host", host, "--parent", str(os.getpid())]
        options += [text for port in http for text in ("--http", str(port))]
        options += [text for port in telnet for text in ("--telnet", str(port))]
        if count:
            options.append("--count")
        self._host = host
        # Whatever proxy the environment names is not the way to this machine.
        self._direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loaders.sink", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).resolve().parents[2],
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the sink did not start: exit status {self._process.wait()}")
        self._ports: dict[str, list[int]] = json.loads(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def urls(self) -> list[str]:
        """Base URL of each KairosDB node it stands for."""
        return [f"http://{self._host}:{port}" for port in self._ports["http"]]

    @property
    def url(self) -> str:
        """Base URL of the first one."""
        return self.urls[0]

    @property
    def telnets(self) -> list[str]:
        """ "host:port" of each KairosDB node's telnet port."""
        return [f"{self._host}:{port}" for port in self._ports["telnet"]]

    @property
    def telnet(self) -> str:
        """ "host:port" of the first one."""
        return self.telnets[0]

    def stats(self) -> dict[str, Any]:
        """The counters; see `Sink.stats`. OSError if it has ended."""
        with self._direct.open(f"{self.url}/stats", timeout=30) as answer:
            counters: dict[str, Any] = json.load(answer)
        return counters

    def cpu_s(self) -> float:
        """CPU seconds that it has used."""
        return float(self.stats()["cpu_s"])

    def stall(self, seconds: float) -> None:
        """Hold back all answers, and read no telnet, for so long from now (0: no longer)."""
        url = f"{self.url}/stall?seconds={seconds}"
        request = urllib.request.Request(url, method="POST")  # noqa: S310
        self._direct.open(request, timeout=30).close()

    def close(self) -> None:
        """End it, and wait for its end."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
