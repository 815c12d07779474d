"""One loader host's agent (`loaders.host`), and the channel to it.

Where nothing else is said an agent is reached by ssh, with what the inventory says for Ansible;
hosts with `ansible_connection: local` are processes on this machine.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import loader, ssh
from kairoscope.hosts.inventory import Host
from kairoscope.run.collecting import STOP_S, Left
from loaders.emulator import WorkerResult
from loaders.host import fingerprint
from loaders.schedule.clock import Clock

_PING_S = 10.0
_PINGS = 9
_BEAT = "beat"
_SILENT_BEATS = 30


class LostError(Exception):
    """An agent ended, or does not answer; the message says how."""


class Agent:
    """One loader host's agent, and the channel to it."""

    def __init__(self, host: Host, index: int, clock: Clock, folder: str = "load") -> None:
        """Start it. UserError or OSError if that cannot even be tried.

        `folder`: in the host's home, for the files of a load; what an earlier one left is removed.
        """
        self.host = host
        self.index = index
        self.workers = range(0)
        self.about: dict[str, Any] = {}
        self.clock_offset = run_folder.ClockOffset(0, 0)
        self.records: dict[int, dict[str, Any]] = {}
        self._clock = clock
        self._outdir = f"{ssh.variable(host, 'home')}/{folder}"
        self._results: list[WorkerResult] = []
        self._readers_died: list[str] = []
        self._killed_for = ""
        self._unanswered = 0
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._last_words: deque[str] = deque(maxlen=1)
        self._popen = subprocess.Popen(
            ssh.command(
                host, [*loader.python(host), "-m", "loaders.host", self._outdir, str(index)]
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C is for us, to end the load in good order; and a local agent that does not
            # end is killed with its workers.
            start_new_session=True,
        )
        self._listeners = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._listen_to_errors, daemon=True),
        ]
        for listener in self._listeners:
            listener.start()

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            came_us = self._clock.now_us()
            self._unanswered = 0
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                text = line.decode(errors="replace").strip()
                self._answers.put({"noise": text})
                self._last_words.append(text)
            elif "progress" in message:
                for record in message["progress"]:
                    self.records[record["worker"]] = record
            elif "results" in message:
                self._results = message["results"]
                self._readers_died = message["readers_died"]
            elif message.get("pong") != _BEAT:
                self._answers.put(message | {"came_us": came_us})
        self._answers.put({"end": True})

    def _listen_to_errors(self) -> None:
        assert self._popen.stderr is not None
        for line in self._popen.stderr:
            if text := line.decode(errors="replace").strip():
                self._last_words.append(text)

    @property
    def watched(self) -> dict[str, Any]:
        """Where it is to tell its figures while a load runs, on a target that is watched."""
        port = self.host.vars.get("metrics_port")
        return {"metrics": [self.host.address, port]} if port else {}

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; an agent that is gone is noticed elsewhere."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # ValueError: closed by us
            self._popen.stdin.write(json.dumps(message).encode() + b"\n")
            self._popen.stdin.flush()

    def _answer(self, what: str, limit_s: float, since: float | None = None) -> dict[str, Any]:
        """The next message, which must be of that kind. LostError if there is none or another.

        Waits for `limit_s` seconds, since now or since a time.monotonic() that is past.
        """
        spent_s = 0.0 if since is None else time.monotonic() - since
        try:
            message = self._answers.get(timeout=max(0.0, limit_s - spent_s))
        except queue.Empty:
            raise LostError(f"it did not answer within {limit_s:g} s") from None
        if what in message:
            return message
        if "noise" in message:
            raise LostError(
                f"its login prints text of its own ({message['noise']!r}). Make the start-up files "
                "of its shell silent where nobody is logged in at a terminal"
            )
        raise LostError(self.ending())

    def get_ready(self, since: float) -> None:
        """Wait until it says that it is up, with this checkout's code. LostError if not.

        All agents have the same time, since a time.monotonic() at which they had been started.
        """
        self.about = self._answer("ready", loader.READY_S, since)
        if self.about["version"] != fingerprint():
            raise LostError(
                f"its loader ({self.about['version']}) is not this checkout's ({fingerprint()})"
            )

    def look_at_clock(self) -> None:
        """Measure the offset of its clock. LostError if it does not answer."""
        pings = []
        for number in range(_PINGS):
            sent_us = self._clock.now_us()
            self.send({"ping": number})
            answer = self._answer("pong", _PING_S)
            pings.append((sent_us, int(answer["t_us"]), int(answer["came_us"])))
        self.clock_offset = loader.best_offset(pings)

    def clock_offset_now(self) -> run_folder.ClockOffset | None:
        """The offset of its host's clock once it has ended, by another agent; None: not known."""
        if self._popen.poll() != 0:  # It was lost, perhaps with its host.
            return None
        try:
            # Of its own folder: what could not be collected of the load stays where it is.
            again = Agent(self.host, self.index, self._clock, "clock")
        except (OSError, UserError):
            return None
        try:
            again.get_ready(time.monotonic())
            again.look_at_clock()
        except LostError:
            return None
        finally:
            again.close()
        return again.clock_offset

    def running(self) -> bool:
        """Whether the agent, or the channel to it, is still there."""
        return self._popen.poll() is None

    def ssh_failed(self) -> bool:
        """Whether the channel ended because it could not be made, or broke."""
        return not ssh.is_local(self.host) and self._popen.poll() == ssh.SSH_FAILED

    def beat(self, every_s: float) -> None:
        """Give a sign of life, as often as that, and expect one."""
        self.send({"ping": _BEAT})
        self._unanswered += 1
        if self._unanswered > _SILENT_BEATS and self.running():
            self.kill(f"silent for {_SILENT_BEATS * every_s:g} s")

    def kill(self, why: str) -> None:
        """End the channel, and a local agent with all its workers."""
        if self.running():
            self._killed_for = why
            self._kill_all()

    def close(self) -> None:
        """Let go of an agent that has no load, or has ended; returns when it has."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError):
            self._popen.stdin.close()
        try:
            self._popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill("it did not end")
            self._popen.wait()
        for listener in self._listeners:
            listener.join(timeout=1)

    def ending(self) -> str:
        """How the agent ended, which it has, or is about to."""
        if self._killed_for:
            return self._killed_for
        try:
            status = self._popen.wait(_PING_S)
        except subprocess.TimeoutExpired:
            return "its output ended"
        for listener in self._listeners:
            listener.join(timeout=1)
        what = "its agent" if ssh.is_local(self.host) else "ssh to it"
        how = f"its agent ended with exit status {status}"
        if self.ssh_failed():
            how = "ssh failed"
        elif status < 0:
            how = f"{what} was killed by signal {-status}"
        return f"{how}: {self._last_words[-1]}" if self._last_words else how

    def results(self, uncollected: str) -> list[WorkerResult]:
        """A result for each of its workers; `uncollected`: why its files are not here, or ""."""
        for listener in self._listeners:
            listener.join(timeout=1)
        found = {result["worker"]: result for result in self._results}
        how = ""
        if set(found) != set(self.workers) or self._popen.poll() != 0:
            how = self.ending()
        elif uncollected:
            how = uncollected
        if how:
            how = f"loader host {self.host.name}: {how}"
            return [
                {"worker": worker, "died": how, "last": self.records.get(worker)}
                for worker in self.workers
            ]
        for result in found.values():
            if "died" in result:
                result["died"] += f" on {self.host.name}"
        return [found[worker] for worker in self.workers]

    def readers_died(self) -> list[str]:
        """What its reader died of, if it did so by itself."""
        return [f"the reader of {self.host.name} died: {how}" for how in self._readers_died]

    def collect(self, folder: Path, say: Callable[[str], None]) -> str:
        """Bring its files here, when the last process has ended; why not, or ""."""
        left = Left(self.host, self._outdir, self.index, self.workers, self.records)
        return left.collect(folder, say, self._kill_all)

    def _kill_all(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
