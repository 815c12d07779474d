"""The end: whatever state a deployment is in, destroy leaves nothing."""

import psutil
from deployment import Deployment
from harness import wait_for

from kairoscope.hosts import supervisor


def alive(process: psutil.Process) -> bool:
    """Whether it runs; an ended one that nobody has waited for yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(*pids: int) -> None:
    """kill -9, supervisord first, so that it brings nothing back; waits until they are gone."""
    processes = [psutil.Process(pid) for pid in pids]
    for process in processes:
        process.kill()
    wait_for("their end", lambda: not any(alive(process) for process in processes), 30)


def test_deploy_mends_a_dead_supervisor(cluster: Deployment) -> None:
    """`status` sends the user to deploy; what supervisord left running must not be in its way."""
    kill(cluster.supervisord, cluster.pids()["kairosdb-1"])
    message = cluster.refused("status")
    assert "supervisord does not run" in message
    assert "make deploy" in message
    cluster.deploy(cluster.deployed)
    assert cluster.status().returncode == 0


def test_destroy_after_kills(cluster: Deployment) -> None:
    pids = cluster.pids()
    processes = [psutil.Process(pid) for pid in pids.values()]
    result = cluster.path / "runs" / "of-before" / "verdict.json"
    result.parent.mkdir(parents=True)
    result.touch()
    kill(cluster.supervisord, pids["kairosdb-1"])
    left = len(pids) - 1
    assert len(supervisor.owned(cluster.state)) == left >= 3
    done = cluster.cli("destroy", timeout_s=180)
    assert done.returncode == 0, done.stderr
    assert f"{left} processes ended" in done.stdout
    assert supervisor.owned(cluster.state) == []
    assert not any(alive(process) for process in processes)
    assert not cluster.state.exists()
    # Runs are results; they stay.
    assert result.exists()
