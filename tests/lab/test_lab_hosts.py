"""The lab itself: its hosts, its levers, and that nothing is left of it."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deployed_lab import left

from kairoscope.errors import UserError
from kairoscope.targets.lab import Lab, LabHost, system

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NET = "10.77.9"
A, B, C = (
    LabHost(name, f"{NET}.{11 + i}") for i, name in enumerate(("host-a", "host-b", "host-c"))
)
DISK = LabHost("host-disk", f"{NET}.20", data_disk_mib=32)

RECEIVE = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind(("", 9999))
s.settimeout(60)
print("ready", flush=True)
got = 0
while s.recv(2000) != b"end":
    got += 1
print(got, flush=True)
"""
# Slowly enough that only what the network drops is missing.
SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(2000):
    s.sendto(bytes(1000), (sys.argv[1], 9999))
    if i % 20 == 0:
        time.sleep(0.002)
"""
END = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"end", (sys.argv[1], 9999))
"""


def on(lab: Lab, host: str, *command: str, timeout_s: float = 30) -> str:
    """What a command says on a host."""
    done = subprocess.run(
        lab.ssh(host, command), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def reaches(lab: Lab, host: str, other: LabHost) -> bool:
    """Whether a host gets a TCP connection to another's sshd."""
    return connects(lab, host, other.address, 22)


def connects(lab: Lab, host: str, address: str, port: int) -> bool:
    code = f"import socket; socket.create_connection(({address!r}, {port}), 1)"
    done = subprocess.run(
        lab.ssh(host, ["python3", "-c", code]),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0 or "Error" in done.stderr, done.stderr
    return done.returncode == 0


def arrived(lab: Lab, host: LabHost, fault: Callable[[], str]) -> int:
    """How many of 2,000 datagrams of 1,000 bytes arrive at a host during a fault."""

    def send(code: str) -> None:
        line = lab.network.inside(sys.executable, "-c", code, host.address)
        subprocess.run(line, check=True, timeout=60)

    with subprocess.Popen(
        lab.ssh(host.name, ["python3", "-c", RECEIVE]),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    ) as listening:  # fmt: skip
        assert listening.stdout
        assert listening.stdout.readline() == "ready\n"
        fault()
        send(SEND)
        lab.heal()
        send(END)
        return int(listening.stdout.readline())


def of_host(lab: Lab, host: str, group: str) -> list[int]:
    """The processes in one control group of a host."""
    path = system.Cgroup(f"kairoscope-{lab.id}/{host}").path / group / "cgroup.procs"
    return [int(pid) for pid in path.read_text().split()]


@pytest.fixture(scope="module")
def lab(new_lab: Callable[[], Lab]) -> Lab:
    lab = new_lab()
    lab.up([A, B], print)
    return lab


@pytest.fixture(autouse=True)
def healed(request: pytest.FixtureRequest) -> None:
    """Each test finds the shared lab's hosts running and its network whole."""
    if "lab" in request.fixturenames:
        lab: Lab = request.getfixturevalue("lab")
        lab.heal()
        assert {state.state for state in lab.hosts()} == {"running"}


def test_a_host_is_a_host_of_its_own(lab: Lab) -> None:
    assert on(lab, A.name, "systemctl", "is-system-running", "--wait") == "running\n"
    assert on(lab, A.name, "hostname") == f"{A.name}\n"
    assert on(lab, A.name, "cat", "/proc/1/comm") == "systemd\n"
    assert on(lab, A.name, "sudo", "-n", "id", "-u") == "0\n"
    assert on(lab, A.name, "getent", "hosts", B.name).split() == [B.address, B.name]
    assert reaches(lab, A.name, B)
    ids = {on(lab, host.name, "cat", "/etc/machine-id") for host in (A, B)}
    keys = {on(lab, host.name, "cat", "/etc/ssh/ssh_host_ed25519_key.pub") for host in (A, B)}
    assert len(ids) == len(keys) == 2


def test_up_again_changes_nothing(lab: Lab) -> None:
    on(lab, A.name, "sudo", "sh", "-c", "echo 10.77.9.99 elsewhere >> /etc/hosts")

    def there() -> tuple[object, ...]:
        files = [(path, path.stat().st_mtime_ns) for path in lab.folder.rglob("*.json")]
        return of_host(lab, A.name, "machine/payload/init.scope"), sorted(files)

    before, said = there(), []
    lab.up([A, B], said.append)
    assert there() == before
    assert said == []
    assert "elsewhere" in on(lab, A.name, "cat", "/etc/hosts")


def test_one_host_more_is_known_to_all(lab: Lab) -> None:
    first = of_host(lab, A.name, "machine/payload/init.scope")
    lab.up([A, B, C], print)
    assert of_host(lab, A.name, "machine/payload/init.scope") == first
    assert on(lab, A.name, "getent", "hosts", C.name).split() == [C.address, C.name]
    assert reaches(lab, C.name, A)
    lab.remove(C.name)
    assert [state.host for state in lab.hosts()] == [A, B]
    assert C.name not in on(lab, A.name, "cat", "/etc/hosts")


def test_only_our_key_gets_in_and_only_to_the_host_it_is_meant_for(
    lab: Lab, tmp_path: Path
) -> None:
    given = lab.inventory_vars(A.name)

    def login(user: str, *more: str) -> str:
        line = ["ssh", "-o", "BatchMode=yes", *more, "-l", user]
        line += shlex.split(given["ansible_ssh_common_args"])
        line += [given["ansible_host"], "true"]
        done = subprocess.run(
            lab.network.inside(*line), capture_output=True, text=True, timeout=30, check=False
        )
        return "in" if done.returncode == 0 else done.stderr

    key = ("-i", given["ansible_ssh_private_key_file"])
    assert login(given["ansible_user"], *key) == "in"
    assert "Permission denied (publickey)" in login(given["ansible_user"])
    assert "Permission denied (publickey)" in login("root", *key)
    others = lab.inventory_vars(B.name)["ansible_host"]
    wrong = tmp_path / "known_hosts"
    known = (lab.folder / "ssh" / "known_hosts").read_text()
    wrong.write_text(known.replace(A.address, "x").replace(others, A.address))
    assert "Host key verification failed" in login(
        given["ansible_user"], "-o", f"UserKnownHostsFile={wrong}", *key
    )


def test_no_way_out(lab: Lab) -> None:
    routes = on(lab, A.name, "ip", "-o", "route").split("\n")
    assert [line.split()[:3] for line in routes if line.startswith("default")] == [
        ["default", "via", f"{NET}.1"]
    ]
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104
        port = server.getsockname()[1]
        addresses = subprocess.run(
            ["hostname", "-I"], capture_output=True, text=True, check=True
        ).stdout.split()
        for address in [f"{NET}.1", "127.0.0.1", *(a for a in addresses if ":" not in a)]:
            assert not connects(lab, A.name, address, port), address


def test_enter_goes_on_in_the_labs_network(lab: Lab) -> None:
    code = f"""
import sys
from pathlib import Path
from kairoscope.targets.lab import Lab
lab = Lab(Path({str(lab.folder)!r}))
import socket
outside = socket.create_server(("127.0.0.1", 0))
lab.enter()
print(socket.create_connection(({A.address!r}, 22), 5).recv(4))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "b'SSH-'\n", done.stderr


def test_killed_host_stays_down_and_comes_back_with_its_disk(lab: Lab) -> None:
    on(lab, A.name, "sudo", "sh", "-c", "echo kept > /root/kept; touch /run/gone")
    assert "killed" in lab.kill(A.name)
    assert not reaches(lab, B.name, A)
    assert of_host_is_gone(lab, A.name)
    assert lab.kill(A.name) == f"{A.name} was not running"
    assert "answers" in lab.start(A.name)
    assert on(lab, A.name, "sudo", "cat", "/root/kept") == "kept\n"
    assert on(lab, A.name, "ls", "/run").find("gone") == -1
    assert lab.start(A.name) == f"{A.name} runs already"


def of_host_is_gone(lab: Lab, host: str) -> bool:
    return not system.Cgroup(f"kairoscope-{lab.id}/{host}").path.exists()


def test_stop_shuts_down_in_good_order(lab: Lab) -> None:
    unit = [
        "sudo",
        "systemd-run",
        "--quiet",
        "--unit=last-words",
        "--property=ExecStop=touch /last",
    ]
    on(lab, A.name, *unit, "sleep", "1000")
    assert "shut down" in lab.stop(A.name)
    assert of_host_is_gone(lab, A.name)
    lab.up([A, B], print)
    on(lab, A.name, "sudo", "rm", "/last")


@pytest.mark.parametrize("by", ["lever", "host"])
def test_reboot_returns_by_itself(lab: Lab, by: str) -> None:
    on(lab, A.name, "sudo", "touch", "/run/before")
    if by == "lever":
        assert lab.reboot(A.name) == f"{A.name} rebooted; it answers"
    else:
        first = of_host(lab, A.name, "machine/payload/init.scope")
        subprocess.run(lab.ssh(A.name, ["sudo", "reboot"]), capture_output=True, check=False)

        def again() -> bool:
            try:
                return of_host(lab, A.name, "machine/payload/init.scope") not in (first, [])
            except FileNotFoundError:
                return False

        assert system.until(again, 60)
        lab.up([A, B], print)
    assert "before" not in on(lab, A.name, "ls", "/run")


def test_a_host_that_powers_off_stays_off_until_up(lab: Lab) -> None:
    subprocess.run(lab.ssh(A.name, ["sudo", "poweroff"]), capture_output=True, check=False)
    assert system.until(lambda: lab.state(A.name) == "stopped", 60)
    said: list[str] = []
    lab.up([A, B], said.append)
    assert said == [f"lab: starting {A.name}"]
    assert reaches(lab, B.name, A)


def test_frozen_host_does_nothing_until_it_is_thawed(lab: Lab) -> None:
    count = "import time\ni = 0\nwhile True:\n  i += 1\n  print(i, flush=True)\n  time.sleep(.01)"
    file = "/run/count"
    on(lab, A.name, "sudo", "systemd-run", "--quiet", "--unit=count",
       f"--property=StandardOutput=append:{file}", "python3", "-u", "-c", count)  # fmt: skip
    pid = int(on(lab, A.name, "systemctl", "show", "--value", "-p", "MainPID", "count"))
    assert pid
    lab.freeze(A.name)
    assert lab.state(A.name) == "frozen"

    def used() -> list[str]:
        group = system.Cgroup(f"kairoscope-{lab.id}/{A.name}").path
        return (group / "machine/payload/cpu.stat").read_text().splitlines()[:1]

    before = used()
    time.sleep(0.5)
    assert used() == before
    with pytest.raises(subprocess.TimeoutExpired):
        on(lab, A.name, "true", timeout_s=2)
    with pytest.raises(UserError, match=f"kairoscope lab thaw {A.name}"):
        lab.up([A, B], print)
    with pytest.raises(UserError, match="is frozen, not running"):
        lab.reboot(A.name)
    lab.thaw(A.name)
    counted = on(lab, A.name, "tail", "-n", "1", file)
    assert system.until(lambda: on(lab, A.name, "tail", "-n", "1", file) != counted, 30)
    on(lab, A.name, "sudo", "systemctl", "stop", "count")


def test_partition_is_between_two_hosts_only(lab: Lab) -> None:
    lab.partition(A.name, B.name)
    assert not reaches(lab, A.name, B)
    assert not reaches(lab, B.name, A)
    assert [state.faults for state in lab.hosts()] == [
        [f"no packets to and from {B.name}"],
        [f"no packets to and from {A.name}"],
    ]
    # It outlives a reboot, as what is broken is not the host.
    lab.reboot(A.name)
    assert not reaches(lab, A.name, B)
    assert "no packets" in lab.heal()
    assert reaches(lab, A.name, B)


def test_a_host_that_is_cut_off_is_reached_by_nobody(lab: Lab) -> None:
    assert reaches(lab, B.name, A)
    lab.cut(A.name)
    assert not reaches(lab, B.name, A)
    with pytest.raises((AssertionError, subprocess.TimeoutExpired)):
        on(lab, A.name, "true", timeout_s=3)
    assert "not known" in lab.reboot(A.name)
    assert not reaches(lab, B.name, A)
    lab.heal()
    lab.up([A, B], print)
    assert reaches(lab, B.name, A)


def test_loss(lab: Lab) -> None:
    assert arrived(lab, A, lab.heal) > 1900
    # 1,400 are expected; the standard deviation is 20.
    assert 1200 < arrived(lab, A, lambda: lab.loss(A.name, 30)) < 1600


def test_delay(lab: Lab) -> None:
    code = (
        "import socket, time; t = time.monotonic();"
        f"socket.create_connection(({A.address!r}, 22), 30); print(time.monotonic() - t)"
    )

    def connected_s() -> float:
        return float(on(lab, B.name, "python3", "-c", code))

    lab.delay(A.name, 0.1)
    lab.delay(A.name, 0.3)
    assert connected_s() > 0.6
    assert lab.hosts()[0].faults == ["300 ms late"]
    # All that is there of the network's faults is at the same port.
    lab.partition(A.name, B.name)
    assert not reaches(lab, B.name, A)
    lab.heal()
    assert [link for link in links(lab) if link.startswith(("vd-", "ve-"))] == []
    lab.delay(A.name, 0.3)
    lab.reboot(A.name)
    assert connected_s() > 0.6
    # More than one packet, and than one that the kernel makes several of.
    assert len(on(lab, A.name, "head", "--bytes", "3000000", "/dev/zero")) == 3_000_000
    lab.heal()
    assert [link for link in links(lab) if link.startswith(("vd-", "ve-"))] == []


def links(lab: Lab) -> list[str]:
    """The network devices of a lab's network."""
    said = subprocess.run(
        ["ip", "-n", lab.id, "-json", "link"], capture_output=True, text=True, check=True
    )
    return [link["ifname"] for link in json.loads(said.stdout)]


def test_bandwidth(lab: Lab) -> None:
    # The burst lets 130 through, and each second 10 more.
    assert arrived(lab, A, lambda: lab.bandwidth(A.name, 80)) < 1000
    assert arrived(lab, A, lab.heal) > 1900


def test_faults_that_make_no_sense_are_refused(lab: Lab) -> None:
    with pytest.raises(UserError, match=r"no host nobody. Its hosts: host-a, host-b"):
        lab.kill("nobody")
    with pytest.raises(UserError, match=r"no host nobody"):
        lab.partition(A.name, "nobody")
    with pytest.raises(UserError, match="between two hosts"):
        lab.partition(A.name, A.name)
    with pytest.raises(UserError, match="not 101"):
        lab.loss(A.name, 101)
    for lever in (lab.fill_disk, lab.slow_disk):
        with pytest.raises(UserError, match="no data disk"):
            lever(A.name, 1)
    assert [state.faults for state in lab.hosts()] == [[], []]


def test_other_address_for_a_host_that_is_there(lab: Lab) -> None:
    with pytest.raises(UserError, match=r"is there as 10\.77\.9\.11"):
        lab.up([LabHost(A.name, f"{NET}.50"), B], print)


def test_disk_full_and_what_is_left_of_a_lab(new_lab: Callable[[], Lab]) -> None:
    lab = new_lab()
    assert not any(left(lab).values())
    lab.up([DISK], print)
    write = ["sudo", "dd", "if=/dev/zero", "of=/var/lib/kairoscope/x", "bs=1M", "count=4"]
    lab.fill_disk(DISK.name, 2)
    with pytest.raises(AssertionError, match="No space left on device"):
        on(lab, DISK.name, *write)
    lab.free_disk(DISK.name)
    on(lab, DISK.name, *write)
    # So many times that they would be done at once, a second each.
    synced = [
        "sh",
        "-c",
        "for n in 1 2 3 4 5 6 7 8; do echo $n | sudo dd of=/var/lib/kairoscope/y conv=fsync; done"
        " 2>/dev/null; echo done",
    ]
    lab.slow_disk(DISK.name, 1)
    with pytest.raises(subprocess.TimeoutExpired):
        on(lab, DISK.name, *synced, timeout_s=4)
    lab.free_disk(DISK.name)
    assert on(lab, DISK.name, *synced) == "done\n"
    # The disk is the host's own, also after a hard end.
    lab.kill(DISK.name)
    lab.start(DISK.name)
    assert "x" in on(lab, DISK.name, "ls", "/var/lib/kairoscope").split()

    there = left(lab)
    assert all(there.values()), there
    # Ansible's connection stays open; it is in the lab's network, but none of its hosts'.
    ping(lab, DISK.name)
    assert [line for line in left(lab)["processes"] if line.startswith("ssh:")]
    lab.down()
    assert not any(left(lab).values()), left(lab)
    lab.down()
    assert lab.hosts() == []


def ping(lab: Lab, host: str) -> None:
    """Let Ansible log in to a host and run a module, with what the inventory says of it."""
    inventory = lab.folder / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": {host: lab.inventory_vars(host)}}}))
    line = [Path(sys.executable).parent / "ansible", "-i", inventory, "-b", "-m", "ping", "all"]
    done = subprocess.run(
        lab.network.inside(*map(str, line)), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_commands(lab: Lab) -> None:
    def command(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", "from kairoscope.cli.lab import lab; lab()", *words],
            env={**os.environ, "KAIROSCOPE_HOME": str(lab.folder.parent)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    assert command("exec", A.name, "--", "echo", "two  words") == (0, "two  words\n")
    assert command("exec", A.name, "--", "sh", "-c", "exit 7") == (7, "")
    assert command("freeze", A.name, B.name)[0] == 0
    assert command("loss", B.name, "2.5") == (0, "host-b loses 2.5 % of its packets, each way\n")
    assert command("hosts") == (
        0,
        "host-a  10.77.9.11       frozen\nhost-b  10.77.9.12       frozen    loses 2.5 %\n",
    )
    assert command("thaw", A.name, B.name)[0] == 0
    assert command("heal") == (0, "network healed (host-b: loses 2.5 %)\n")
    status, said = command("kill", "nobody")
    assert status == 2
    assert "The lab has no host nobody. Its hosts: host-a, host-b" in said


def test_two_labs_with_the_same_addresses(lab: Lab, new_lab: Callable[[], Lab]) -> None:
    other = new_lab()
    other.up([A], print)
    on(other, A.name, "sudo", "touch", "/run/other")
    assert "other" not in on(lab, A.name, "ls", "/run").split()
    other.down()
    assert reaches(lab, A.name, B)


@pytest.mark.parametrize("what", ["keeper", "nspawn", "namespace", "files", "unfinished"])
def test_down_and_up_after_anything(new_lab: Callable[[], Lab], what: str) -> None:
    lab = new_lab()
    lab.up([A], print)
    if what == "keeper":
        for pid in of_host(lab, A.name, "keeper"):
            os.kill(pid, signal.SIGKILL)
    elif what == "nspawn":  # the host's own processes live on
        for group in ("keeper", "machine/supervisor"):
            for pid in of_host(lab, A.name, group):
                os.kill(pid, signal.SIGKILL)
    elif what == "namespace":
        subprocess.run(["ip", "netns", "delete", lab.id], check=True)
    elif what == "files":  # as after a reboot of the machine
        lab.kill(A.name)
        for point, _ in reversed(system.mounts()):
            if point.is_relative_to(lab.folder):
                subprocess.run(["umount", point], check=True)
        lab.network.remove()
        lab.up([A], print)
        on(lab, A.name, "true")
    elif what == "unfinished":  # interrupted while a host was made
        lab.kill(A.name)
        (lab.folder / "hosts" / A.name / "host.json").unlink()
        assert lab.hosts() == []
        lab.up([A], print)
        on(lab, A.name, "true")
    lab.down()
    assert not any(left(lab).values()), left(lab)
