"""The agent on a loader host: runs the host's workers for a controller that is elsewhere.

    python -m loaders.host OUTDIR HOST_INDEX
    python -m loaders.host --version

It is spoken to in JSON lines over stdin and stdout, so that whatever carries these two (ssh, a
pipe) is all the transport there is; what goes wrong is said on stderr.

From the controller:

- `{"ping": ID}` is answered at once by `{"pong": ID, "t_us": epoch µs}`: for the offset of the
  clock, and as a sign of life once a load runs;
- `{"spec": {…}, "credentials": {…}, "metrics": ["address", port]}` (`loaders.schedule.spec`,
  `loaders.credentials`, `loaders.metrics`) starts this host's share of that load, once; without
  credentials KairosDB is reached without any, and without metrics nobody is listened to;
- `{"cut": TICKS}` ends its schedule after so many ticks (`loaders.schedule.cut`);
- `{"stop": true}` ends the load gently, and the agent.

To the controller:

- `{"ready": HOST_INDEX, "version": …, "python": …, "cpus": …}` before anything else;
- `{"progress": [record, …]}` once a second: the last record of each worker;
- `{"results": [result, …], "readers_died": [how, …]}` last of all, as from `emulator.run_hosts`.

The end of stdin stops the load as `stop` does, as do a minute of silence and SIGTERM, so that no
worker goes on for a controller that is gone. OUTDIR keeps the workers' files, for the controller
to collect: OUTDIR/lock is locked (flock) as long as the agent or a worker of it runs.

Exit status: 0 the load ended, or the controller ended it; 1 it was stopped for another reason;
2 bad arguments, or OUTDIR is in use; 3 a file could not be written or a process not be started.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

from loaders import emulator, metrics
from loaders.credentials import Credentials
from loaders.schedule import cut
from loaders.schedule.spec import LoadSpec

LOCK = "lock"
"""Name of the locked file in OUTDIR."""

FILES = ("worker-*", "queries-*")
"""What a load leaves in OUTDIR, beside its spec.json; the number is in the name."""

EXIT_STOPPED = 1
EXIT_USAGE = 2
EXIT_FILES = 3

_POLL_S = 0.2
_SILENCE_S = 60.0  # the controller pings once a second
_LOCK_S = 10.0  # the workers of an agent that was killed need some seconds to end


def fingerprint() -> str:
    """Twelve hex digits that tell one state of this package's code from any other."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


class UsageError(Exception):
    """What was asked for cannot be done; the message says why."""


class _Agent:
    """One load at most, then it ends."""

    def __init__(self, outdir: Path, host: int) -> None:
        self._outdir = outdir
        self._host = host
        self._stop = threading.Event()
        self._why: str | None = None
        self._load: Future[None] | None = None
        self._records: emulator.Records = []
        self._said = threading.Lock()
        self._locked = _lock(outdir)
        for pattern in FILES:
            for old in outdir.glob(pattern):
                old.unlink()
        cut.remove_old(outdir)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)

    def run(self) -> int:
        """Serve the controller until the load has ended; the exit status."""
        self._say(
            {
                "ready": self._host,
                "version": fingerprint(),
                "python": platform.python_version(),
                "cpus": len(os.sched_getaffinity(0)),
            }
        )
        with ThreadPoolExecutor(1) as pool:
            try:
                self._serve(pool)
            finally:
                self._stop.set()
            if self._load:
                self._load.result()
        if self._why:
            print(f"the load was stopped: {self._why}", file=sys.stderr)
            return EXIT_STOPPED
        return 0

    def _serve(self, pool: ThreadPoolExecutor) -> None:
        """Read what the controller says, to the end of the load or of stdin."""
        unread = b""
        heard_at = time.monotonic()
        while True:
            readable, _, _ = select.select([0], [], [], _POLL_S)
            if self._load.done() if self._load else self._stop.is_set():
                return
            if readable:
                heard_at = time.monotonic()
                data = os.read(0, 65536)
                if not data:
                    return
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    self._obey(_message(line), pool)
            elif self._load and time.monotonic() - heard_at > _SILENCE_S:
                self._give_up(f"nothing was heard of the controller for {_SILENCE_S:.0f} s")

    def _obey(self, message: dict[str, Any], pool: ThreadPoolExecutor) -> None:
        if "ping" in message:
            self._say({"pong": message["ping"], "t_us": time.time_ns() // 1000})
        elif "stop" in message:
            self._stop.set()
        elif "cut" in message:
            cut.write(self._outdir, int(message["cut"]))
        elif "spec" in message and not self._load:
            spec = LoadSpec.from_json(json.dumps(message["spec"]))
            credentials = Credentials.from_json(json.dumps(message.get("credentials", {})))
            self._load = pool.submit(self._run_load, spec, credentials, message.get("metrics"))
        else:
            raise UsageError(f"not expected now: {', '.join(message)[:200]}")

    def _run_load(
        self, spec: LoadSpec, credentials: Credentials, listens: list[Any] | None
    ) -> None:
        with self._watched(listens):
            results = emulator.run_hosts(
                spec,
                range(self._host, self._host + 1),
                self._outdir,
                self._progress,
                self._stop,
                keep_open=[self._locked],
                credentials=credentials,
            )
        self._say({"results": results.workers, "readers_died": results.readers_died})

    def _progress(self, records: emulator.Records) -> None:
        self._records = records
        self._say({"progress": records})

    @contextlib.contextmanager
    def _watched(self, listens: list[Any] | None) -> Iterator[None]:
        """With an endpoint for Prometheus, where one is wanted and can be had."""
        if not listens:
            yield
            return
        address, port = listens
        try:
            endpoint = metrics.Endpoint(address, port, lambda: metrics.exposition(self._records))
        except OSError as error:
            # A load is worth more than who looks at it.
            print(f"no metrics on {address}:{port}: {error}", file=sys.stderr)
            yield
            return
        with contextlib.closing(endpoint):
            yield

    def _say(self, message: dict[str, Any]) -> None:
        with self._said:
            try:
                print(json.dumps(message, separators=(",", ":")), flush=True)
            except BrokenPipeError:
                # Or what is still in the buffer would be an error again when Python ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                self._give_up("the controller is gone")

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self._give_up(signal.Signals(number).name)

    def _give_up(self, why: str) -> None:
        self._why = self._why or why
        self._stop.set()


def _message(line: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        message = json.loads(line)
        if isinstance(message, dict):
            return message
    raise UsageError(f"not a message: {line[:200]!r}")


def _lock(outdir: Path) -> int:
    """Make the folder and lock it for this process and those that inherit the descriptor."""
    outdir.mkdir(parents=True, exist_ok=True)
    path = outdir / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise UsageError(f"another load runs here ({path} is locked)") from None
            time.sleep(_POLL_S)
        else:
            return descriptor


def main(arguments: list[str]) -> int:
    """Run the agent from command line arguments OUTDIR HOST_INDEX.

    Returns:
        The exit status; anything but 0 comes with a line on stderr.
    """
    if arguments == ["--version"]:
        print(f"loaders {fingerprint()}")
        return 0
    try:
        outdir, host = arguments
        index = int(host)
    except ValueError:
        print("usage: python -m loaders.host OUTDIR HOST_INDEX | --version", file=sys.stderr)
        return EXIT_USAGE
    try:
        return _Agent(Path(outdir), index).run()
    except (UsageError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(error, file=sys.stderr)
        return EXIT_FILES


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
