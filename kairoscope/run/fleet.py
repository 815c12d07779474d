"""The load on many loader hosts: an agent on each (`loaders.host`), all led from here.

Where nothing else is said an agent is reached by ssh, with what the inventory says for Ansible;
hosts with `ansible_connection: local` are processes on this machine.
"""

import contextlib
import dataclasses
import json
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import loader, ssh
from kairoscope.hosts.inventory import Host
from loaders import emulator
from loaders.credentials import Credentials
from loaders.emulator import Progress, WorkerResult
from loaders.host import FILES, LOCK, fingerprint
from loaders.query import query_files
from loaders.record import files
from loaders.schedule import cut, shard
from loaders.schedule.clock import Clock
from loaders.schedule.spec import LoadSpec

_POLL_S = 0.1
_PING_S = 10.0
_PINGS = 9
# While a load runs a ping is sent with every report, and something comes back for each.
_BEAT = "beat"
_BEAT_S = 1.0
_SILENT_BEATS = 30
_STOP_S = 60.0  # an agent gives its workers half of it
_COLLECT_S = 600.0
_BACK_S = 60.0  # a host that reboots
_AGAIN_S = 2.0
_STILL_LOCKED = 77  # exit status of a collection that would have read what is still written
_HOST_ERRORS = (OSError, EOFError, tarfile.TarError, zlib.error)


class _LostError(Exception):
    """An agent ended, or does not answer; the message says how."""


class _Agent:
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
        """The next message, which must be of that kind. _LostError if there is none or another.

        Waits for `limit_s` seconds, since now or since a time.monotonic() that is past.
        """
        spent_s = 0.0 if since is None else time.monotonic() - since
        try:
            message = self._answers.get(timeout=max(0.0, limit_s - spent_s))
        except queue.Empty:
            raise _LostError(f"it did not answer within {limit_s:g} s") from None
        if what in message:
            return message
        if "noise" in message:
            raise _LostError(
                f"its login prints text of its own ({message['noise']!r}). Make the start-up files "
                "of its shell silent where nobody is logged in at a terminal"
            )
        raise _LostError(self.ending())

    def get_ready(self, since: float) -> None:
        """Wait until it says that it is up, with this checkout's code. _LostError if not.

        All agents have the same time, since a time.monotonic() at which they had been started.
        """
        self.about = self._answer("ready", loader.READY_S, since)
        if self.about["version"] != fingerprint():
            raise _LostError(
                f"its loader ({self.about['version']}) is not this checkout's ({fingerprint()})"
            )

    def look_at_clock(self) -> None:
        """Measure the offset of its clock. _LostError if it does not answer."""
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
            again = _Agent(self.host, self.index, self._clock, "clock")
        except (OSError, UserError):
            return None
        try:
            again.get_ready(time.monotonic())
            again.look_at_clock()
        except _LostError:
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

    def beat(self) -> None:
        """Give a sign of life, every _BEAT_S seconds, and expect one."""
        self.send({"ping": _BEAT})
        self._unanswered += 1
        if self._unanswered > _SILENT_BEATS and self.running():
            self.kill(f"silent for {_SILENT_BEATS * _BEAT_S:g} s")

    def kill(self, why: str) -> None:
        """End the channel, and a local agent with all its workers."""
        if self.running():
            self._killed_for = why
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of an agent that has no load, or has ended; returns when it has."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError):
            self._popen.stdin.close()
        try:
            self._popen.wait(_STOP_S)
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
        """Bring its files here, when the last process has ended; why not, or "".

        A host that ssh does not reach may be on its way back: for a while it is asked again, which
        `say` is told. Of one that gives nothing there is what its workers told last.
        """
        deadline = time.monotonic() + _BACK_S
        told = False
        while True:
            problem, unreached = self._collect(folder)
            if not unreached or time.monotonic() > deadline:
                break
            if not told:
                told = True
                say(f"{self.host.name} does not answer; its files are asked for, {_BACK_S:g} s")
            time.sleep(_AGAIN_S)
        for worker in self.workers if problem else ():
            path = files.progress_path(folder, worker)
            if worker in self.records and not path.exists():
                path.write_text(json.dumps(self.records[worker]) + "\n")
        return problem

    def _collect(self, folder: Path) -> tuple[str, bool]:
        """Try to; why not, or "", and whether ssh did not reach it."""
        # Nothing is read that is still written: the lock is free when the last worker has ended.
        lock = ["flock", "--wait", f"{_STOP_S:.0f}", "--conflict-exit-code", str(_STILL_LOCKED)]
        tar = ["tar", "-C", self._outdir, "-cz", "."]
        popen = subprocess.Popen(
            ssh.command(self.host, [*lock, f"{self._outdir}/{LOCK}", *tar]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        watchdog = threading.Timer(_COLLECT_S, popen.kill)
        watchdog.start()
        problem = ""
        try:
            self._unpack(popen, folder)
        except _HOST_ERRORS as error:
            problem = str(error) or type(error).__name__
        finally:
            watchdog.cancel()
            if problem:
                popen.kill()
            _, errors = popen.communicate()
        if popen.returncode == _STILL_LOCKED:
            problem = "its workers did not end"
            if ssh.is_local(self.host):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._popen.pid, signal.SIGKILL)
        if popen.returncode != 0 or problem:
            said = errors.decode(errors="replace").strip().splitlines()
            # Without them a process counts as dead: its other files may be cut off.
            for worker in self.workers:
                files.result_path(folder, worker).unlink(missing_ok=True)
            query_files.result_path(folder, self.index).unlink(missing_ok=True)
            unreached = not ssh.is_local(self.host) and popen.returncode == ssh.SSH_FAILED
            return f"its files could not be collected: {(said or [problem])[-1]}", unreached
        return "", False

    def _unpack(self, popen: subprocess.Popen[bytes], folder: Path) -> None:
        """Write the files of its own processes from a tar stream, whatever else is in it."""
        own = {"worker": self.workers, "queries": (self.index,)}
        with tarfile.open(fileobj=popen.stdout, mode="r|gz") as tar:
            for member in tar:
                name = re.fullmatch(r"\./((worker|queries)-(\d+)\.[a-z.]+)", member.name)
                if member.isfile() and name and int(name[3]) in own[name[2]]:
                    content = tar.extractfile(member)
                    assert content is not None
                    with (folder / name[1]).open("wb") as file:
                        shutil.copyfileobj(content, file)


class Fleet:
    """Connected loader hosts, whose clocks agree with ours. Runs one load."""

    def __init__(self, agents: list[_Agent]) -> None:
        """Made by `connect`."""
        self._agents = agents
        self.readers_died: list[str] = []
        """After `run`: what readers (of queries) died of, on hosts that did not die."""

    def run(
        self,
        spec: LoadSpec,
        folder: Path,
        on_progress: Callable[[Progress], None] | None = None,
        stop: threading.Event | None = None,
        credentials: Credentials | None = None,
        until: Callable[[], bool] | None = None,
        on_cut: Callable[[LoadSpec], None] | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> list[WorkerResult]:
        """Run the load on all hosts, wait for its end, and bring their files here.

        Args:
            spec: the load, the same for all hosts; start_ms should be about
                emulator.START_MARGIN_MS ahead.
            folder: for spec.json, hosts.json and what workers and readers wrote, created if need
                be; files of an earlier load in it are replaced.
            on_progress: called about once a second in the calling thread.
            stop: set it, from another thread or a signal handler, to end the load early: workers
                then settle what is in flight and report as usual.
            credentials: for KairosDB nodes that are reached over HTTPS. They go to the agents over
                their pipes, and into no file.
            until: asked about once a second; once it says so, the schedule ends at the next tick
                from `cut.AHEAD_MS` on, and spec.json says that it never was any longer.
            on_cut: called with that shorter load, in the calling thread.
            say: told what takes its time at the end; from other threads.

        Returns:
            One result per worker of the whole load, in order: as from `emulator.run`. Where a
            host was lost, {"worker": w, "died": "loader host loader-2: …", "last": its last
            progress record or None} for each of its workers; the other hosts go on.

        Raises:
            ValueError: the spec is for another number of hosts.
            OSError: the folder cannot be written.

        Whatever ends this call, all hosts have stopped then, and what they left is collected. That
        takes up to three minutes, and Ctrl-C does not cut it short.
        """
        self._begin(spec, folder)
        given = dataclasses.asdict(credentials or Credentials())
        uncollected = [""] * len(self._agents)
        began_s = time.time()
        runs = spec

        def look() -> None:
            nonlocal runs
            if until and runs is spec and until():
                runs = self._cut(spec, folder)
                if on_cut and runs is not spec:
                    on_cut(runs)
            show()

        def show() -> None:
            if on_progress:
                records = [r for agent in self._agents for r in agent.records.values()]
                on_progress(emulator.summed(runs, records, began_s))

        def settle() -> None:
            self._stop()
            with ThreadPoolExecutor(len(self._agents)) as pool:
                uncollected[:] = pool.map(lambda agent: agent.collect(folder, say), self._agents)

        try:
            for agent in self._agents:
                wanted = {"spec": dataclasses.asdict(spec), "credentials": given}
                agent.send(wanted | agent.watched)
            self._follow(look, stop or threading.Event())
        finally:
            _uninterrupted(settle)
        show()
        self.readers_died = [how for agent in self._agents for how in agent.readers_died()]
        return [
            result
            for agent, problem in zip(self._agents, uncollected, strict=True)
            for result in agent.results(problem)
        ]

    def _begin(self, spec: LoadSpec, folder: Path) -> None:
        """Give each host its workers, and the folder what is known of the load and of the hosts."""
        if spec.hosts != len(self._agents):
            raise ValueError(f"hosts: {len(self._agents)} are connected, the spec has {spec.hosts}")
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in FILES:
            for old in folder.glob(pattern):
                old.unlink()
        for agent in self._agents:
            agent.workers = shard.host_workers(spec.hosts, spec.workers_per_host, agent.index)
        (folder / Path(run_folder.LOAD_SPEC).name).write_text(spec.to_json())
        hosts = [_about(agent) for agent in self._agents]
        run_folder.write_json(folder / Path(run_folder.LOAD_HOSTS).name, hosts)

    def look_at_clocks_again(self, folder: Path) -> None:
        """Note in the load's hosts.json how far the clocks are off now. OSError if it cannot be.

        Of a loader host that is this machine it is how far the clock has been set meanwhile.
        """
        with ThreadPoolExecutor(len(self._agents)) as pool:
            after = list(pool.map(_Agent.clock_offset_now, self._agents))
        hosts = [
            _about(agent) | {"after": dataclasses.asdict(offset) if offset else None}
            for agent, offset in zip(self._agents, after, strict=True)
        ]
        run_folder.write_json(folder / Path(run_folder.LOAD_HOSTS).name, hosts)

    def _follow(self, look: Callable[[], None], stop: threading.Event) -> None:
        """Look and report until all agents have ended or a stop was asked for."""
        next_report = time.monotonic()
        while any(agent.running() for agent in self._agents) and not stop.wait(_POLL_S):
            if time.monotonic() >= next_report:
                next_report = time.monotonic() + _BEAT_S
                for agent in self._agents:
                    agent.beat()
                look()

    def _cut(self, spec: LoadSpec, folder: Path) -> LoadSpec:
        """End the schedule of all hosts soon; what it is then, the same if it ends as soon."""
        shorter = spec.cut_at(time.time_ns() // 1_000_000 + cut.AHEAD_MS)
        if shorter is not spec:
            # First: whatever happens now, what the workers were told is what the folder says.
            (folder / Path(run_folder.LOAD_SPEC).name).write_text(shorter.to_json())
            for agent in self._agents:
                agent.send({"cut": shorter.ticks})
        return shorter

    def _stop(self) -> None:
        for agent in self._agents:
            agent.send({"stop": True})
        deadline = time.monotonic() + _STOP_S
        while any(agent.running() for agent in self._agents) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        for agent in self._agents:
            agent.kill(f"did not stop within {_STOP_S:.0f} s")


def _about(agent: _Agent) -> dict[str, Any]:
    """A host's line of hosts.json."""
    return {
        "host": agent.host.name,
        "address": agent.host.address,
        "workers": list(agent.workers),
        "python": agent.about["python"],
        "cpus": agent.about["cpus"],
        **dataclasses.asdict(agent.clock_offset),
    }


@contextlib.contextmanager
def connect(hosts: list[Host], clock_limit_ms: float) -> Iterator[Fleet]:
    """Start an agent on every loader host and check that they are fit for a load together.

    Args:
        hosts: the loader hosts, in the order of their workers.
        clock_limit_ms: most that a host's clock may differ from ours.

    Yields:
        The fleet. At the end of the block no agent is left.

    Raises:
        UserError: a host cannot be reached, has other loader code, or its clock differs; a line
            for each. Nothing was sent to KairosDB then.
    """
    if not hosts:
        raise UserError("The inventory has no loader host. First: make deploy")
    clock = Clock()
    agents: list[_Agent] = []
    problems: list[str] = []
    try:
        for index, host in enumerate(hosts):
            try:
                agents.append(_Agent(host, index, clock))
            except OSError as error:
                problems.append(f"loader host {host.name} ({host.address}): {error}")
        started = time.monotonic()
        for agent in agents:
            try:
                agent.get_ready(started)
                agent.look_at_clock()
            except _LostError as error:
                problems.append(f"loader host {agent.host.name} ({agent.host.address}): {error}")
        if problems:
            advice = "\nIf its loader is missing or of another version: make deploy"
            if failed := [agent.host for agent in agents if agent.ssh_failed()]:
                line = shlex.join(ssh.command(failed[0], ["true"]))
                advice += f"\nWhere ssh failed, this must work, and ask for nothing: {line}"
            raise UserError(_lines(problems) + advice)
        if wrong := [agent for agent in agents if agent.clock_offset.exceeds(clock_limit_ms)]:
            raise UserError(
                _lines([_clock_problem(agent, clock_limit_ms) for agent in wrong])
                + "\nLet the system set the clocks of all hosts (chrony, systemd-timesyncd), then "
                "run again."
            )
        yield Fleet(agents)
    finally:
        _uninterrupted(lambda: _close(agents))


def _close(agents: list[_Agent]) -> None:
    # Side by side: each may have to be waited for.
    with ThreadPoolExecutor(max(1, len(agents))) as pool:
        list(pool.map(_Agent.close, agents))


def _clock_problem(agent: _Agent, limit_ms: float) -> str:
    return (
        f"loader host {agent.host.name} ({agent.host.address}): its clock is "
        f"{agent.clock_offset} of this machine's, more than limits.clock_offset_ms "
        f"({limit_ms:g} ms) allows"
    )


def _lines(problems: list[str]) -> str:
    return "The load cannot be started:" + "".join(f"\n  {problem}" for problem in problems)


def _uninterrupted(work: Callable[[], None]) -> None:
    """Do something to its end; a Ctrl-C meanwhile counts afterwards."""
    interrupt: KeyboardInterrupt | None = None
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        while not done.done():
            try:
                wait([done])
            except KeyboardInterrupt as error:
                interrupt = error
    done.result()
    if interrupt:
        raise interrupt
