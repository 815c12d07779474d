"""The load on many loader hosts: an agent on each, all led from here."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.hosts.inventory import Host
from kairoscope.run.agent import Agent, LostError
from kairoscope.run.collecting import STOP_S
from kairoscope.run.uninterrupted import uninterrupted
from loaders import emulator
from loaders.credentials import Credentials
from loaders.emulator import Progress, WorkerResult
from loaders.host import FILES
from loaders.schedule import cut, shard
from loaders.schedule.clock import Clock
from loaders.schedule.spec import LoadSpec

_POLL_S = 0.1
# While a load runs a ping is sent with every report, and something comes back for each.
_BEAT_S = 1.0


class Fleet:
    """Connected loader hosts, whose clocks agree with ours. Runs one load."""

    def __init__(self, agents: list[Agent]) -> None:
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
            uninterrupted(settle)
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
        _write_spec(folder, spec)
        hosts = [_about(agent) for agent in self._agents]
        run_folder.write_json(folder / Path(run_folder.LOAD_HOSTS).name, hosts)

    def look_at_clocks_again(self, folder: Path) -> None:
        """Note in the load's hosts.json how far the clocks are off now. OSError if it cannot be.

        Of a loader host that is this machine it is how far the clock has been set meanwhile.
        """
        with ThreadPoolExecutor(len(self._agents)) as pool:
            after = list(pool.map(Agent.clock_offset_now, self._agents))
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
                    agent.beat(_BEAT_S)
                look()

    def _cut(self, spec: LoadSpec, folder: Path) -> LoadSpec:
        """End the schedule of all hosts soon; what it is then, the same if it ends as soon."""
        shorter = spec.cut_at(time.time_ns() // 1_000_000 + cut.AHEAD_MS)
        if shorter is not spec:
            # First: whatever happens now, what the workers were told is what the folder says.
            _write_spec(folder, shorter)
            for agent in self._agents:
                agent.send({"cut": shorter.ticks})
        return shorter

    def _stop(self) -> None:
        for agent in self._agents:
            agent.send({"stop": True})
        deadline = time.monotonic() + STOP_S
        while any(agent.running() for agent in self._agents) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        for agent in self._agents:
            agent.kill(f"did not stop within {STOP_S:.0f} s")


def _write_spec(folder: Path, spec: LoadSpec) -> None:
    """Whole or not at all, as nothing can be judged without it. OSError if it cannot be."""
    run_folder.replace({folder / Path(run_folder.LOAD_SPEC).name: [spec.to_json()]})


def _about(agent: Agent) -> dict[str, Any]:
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
    agents: list[Agent] = []
    problems: list[str] = []
    try:
        for index, host in enumerate(hosts):
            try:
                agents.append(Agent(host, index, clock))
            except OSError as error:
                problems.append(f"loader host {host.name} ({host.address}): {error}")
        started = time.monotonic()
        for agent in agents:
            try:
                agent.get_ready(started)
                agent.look_at_clock()
            except LostError as error:
                problems.append(f"loader host {agent.host.name} ({agent.host.address}): {error}")
        if problems:
            advice = "\nIf its loader is missing or of another version: make deploy"
            if failed := [agent.host.name for agent in agents if agent.ssh_failed()]:
                # Not its line: what the inventory adds may hold a password, and this ends in logs.
                advice += (
                    f"\nWhere ssh failed ({', '.join(failed)}): is the host up, and does it let "
                    "this machine in, by ansible_host, ansible_user, the key and "
                    "ansible_ssh_common_args of the inventory? A login must ask for nothing"
                )
            raise UserError(_lines(problems) + advice)
        if wrong := [agent for agent in agents if agent.clock_offset.exceeds(clock_limit_ms)]:
            raise UserError(
                _lines([_clock_problem(agent, clock_limit_ms) for agent in wrong])
                + "\nLet the system set the clocks of all hosts (chrony, systemd-timesyncd), then "
                "run again."
            )
        yield Fleet(agents)
    finally:
        uninterrupted(lambda: _close(agents))


def _close(agents: list[Agent]) -> None:
    # Side by side: each may have to be waited for.
    with ThreadPoolExecutor(max(1, len(agents))) as pool:
        list(pool.map(Agent.close, agents))


def _clock_problem(agent: Agent, limit_ms: float) -> str:
    return (
        f"loader host {agent.host.name} ({agent.host.address}): its clock is "
        f"{agent.clock_offset} of this machine's, more than limits.clock_offset_ms "
        f"({limit_ms:g} ms) allows"
    )


def _lines(problems: list[str]) -> str:
    return "The load cannot be started:" + "".join(f"\n  {problem}" for problem in problems)
