"""What is refused before anything is started."""

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from click.testing import CliRunner
from test_firewall import trusted

from kairoscope import experiment, paths, plan
from kairoscope.cli import known
from kairoscope.cli import main as cli
from kairoscope.deploy import preflight
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.deployed import plan_file
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.stacks.kairosdb import needs
from kairoscope.stacks.needs import Listener, Needs


@pytest.fixture
def laptop() -> plan.Plan:
    return known.plan(experiment.load("laptop"), "local")


def needed(made: plan.Plan) -> Needs:
    return known.stack(made.stack).needs(made)


def memory_problem(made: plan.Plan, available_mib: int) -> str | None:
    return preflight.memory_problem(made, needed(made).memory, available_mib)


def cpu_problem(made: plan.Plan, cores: int, slack: float = 1) -> str | None:
    return preflight.cpu_problem(made, needed(made).cpu, cores, slack)


def test_it_knows_no_system():
    text = (paths.CHECKOUT / "kairoscope" / "deploy" / "preflight.py").read_text()
    assert not re.search("scylla|cassandra|kairosdb|jmx", text, re.IGNORECASE)


def test_memory(laptop):
    assert memory_problem(laptop, 20_000) is None
    problem = memory_problem(laptop, 2_000)
    assert "too little memory" in problem
    assert "2,000 MiB available" in problem


def test_loader_processes_take_memory_too(laptop):
    def in_all(plan: plan.Plan) -> int:
        return int(memory_problem(plan, 0).split("memory: ")[1].split()[0].replace(",", ""))

    more = laptop.model_copy(
        update={"load": laptop.load | {"workers": laptop.load["workers"] + 100}}
    )
    assert in_all(more) - in_all(laptop) == 100 * preflight.LOADER_MIB


@pytest.fixture
def scylla() -> plan.Plan:
    return known.plan(experiment.load("laptop", experiment.Overrides(engine="scylla")), "local")


def test_scylla_has_memory_and_no_heap(scylla):
    problem = memory_problem(scylla, 2_000)
    assert f"3 storage nodes × (1088 memory + {needs.SCYLLA_OVERHEAD_MIB})" in problem
    assert "Lower storage.memory_mb" in problem


def test_the_published_experiments_have_the_shards_of_a_large_host():
    published = experiment.load("single-60k", experiment.Overrides(engine="scylla"))
    problem = memory_problem(known.plan(published, "local"), 20_000)
    assert "Lower cluster.shards (30, from which the memory is derived)" in problem


def test_asynchronous_io_of_the_whole_machine(scylla, laptop):
    slots = needed(scylla).slots
    lacks = 3 * (needs.SCYLLA_STORAGE_SLOTS + needs.SCYLLA_CONNECTIONS)
    assert preflight.aio_problem(slots, 65_536, 65_536 - lacks) is None
    problem = preflight.aio_problem(slots, 65_536, 65_536 - lacks + 1)
    assert f"ScyllaDB needs {lacks:,} slots" in problem
    assert f"(3 nodes × 1 shards × (1,026 + 1,000 connections)), of {65_536:,}" in problem
    assert f"sysctl fs.aio-max-nr={65_536 + 1}" in problem
    # What runs already has its own.
    assert preflight.aio_problem(slots, lacks, lacks, running=3) is None
    assert preflight.aio_problem(slots, lacks, lacks * 2 // 3, running=2) is None
    assert needed(laptop).slots is None


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        (["/srv/scylla", "--options-file", "/state/storage-1/conf/scylla.yaml"], True),
        (["/l/ld.so", "--library-path", "/l", "/srv/scylla", "--options-file", "/state/x"], True),
        (["vi", "/state/opt/scylla"], False),
        (["/l/ld.so", "/srv/scylla"], False),
        (["/l/ld.so"], False),
    ],
)
def test_which_processes_are_servers_of_scylla(command, is_one):
    assert supervisor.is_scylla(command) == is_one


def test_disk(laptop):
    needs = needed(laptop)
    assert preflight.disk_problem(laptop, needs, 10**12, Path("/x")) is None
    assert "too little disk" in preflight.disk_problem(laptop, needs, 10**6, Path("/x"))
    # What its queue leaves free must be there.
    assert needs.kept_free_bytes == laptop.kairosdb["queue_disk_free_mb"] * 2**20 > 0


def test_what_the_cores_of_this_machine_do_not_carry(laptop):
    assert cpu_problem(laptop, 2) is None
    assert cpu_problem(laptop, 0)
    many = experiment.load("laptop", experiment.Overrides(sensors="10000000"))
    problem = cpu_problem(known.plan(many, "local"), 2, preflight.HOPELESS)
    assert "10,000,000 points/s take about 330.0 cores" in problem
    assert "this machine has 2" in problem
    # Beyond what the cores carry, and not beyond hope: told, and not refused.
    some = known.plan(experiment.load("laptop", experiment.Overrides(sensors="100000")), "local")
    assert cpu_problem(some, 2)
    assert cpu_problem(some, 2, preflight.HOPELESS) is None


def with_nodes(laptop: plan.Plan, nodes: int, heap_mb: int = 256) -> plan.Plan:
    cluster = laptop.experiment.cluster.model_copy(update={"storage_nodes": nodes})
    changed = laptop.experiment.model_copy(update={"cluster": cluster})
    storage = laptop.storage | {"heap_mb": heap_mb}
    return laptop.model_copy(update={"experiment": changed, "storage": storage})


def test_more_servers_than_the_cores_can_start(laptop):
    problem = cpu_problem(with_nodes(laptop, 60), 2, preflight.HOPELESS)
    assert "61 servers (60 storage nodes, 1 KairosDB) on 2 cores" in problem
    assert cpu_problem(with_nodes(laptop, 5), 2) is None


def test_a_plan_speaks_up_when_this_machine_cannot_carry_it(laptop, monkeypatch):
    monkeypatch.setattr(preflight.psutil, "cpu_count", lambda: 2)
    large = with_nodes(laptop, 30, heap_mb=65_536)
    for of_hosts in (False, True):
        found = preflight.notices(large, needed(large), of_hosts=of_hosts)
        assert any("too little memory" in text for text in found)
        assert any("31 servers" in text for text in found)


def test_a_plan_speaks_up_about_disk_and_asynchronous_io(monkeypatch, tmp_path):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(preflight, "aio_problem", lambda *_: "too little asynchronous I/O")
    over = experiment.Overrides(engine="scylla", duration_s=2_000_000)
    long = experiment.load("laptop", over)

    def said(made: plan.Plan, *, of_hosts: bool) -> list[str]:
        lacking = preflight.notices(made, needed(made), of_hosts=of_hosts)
        return [each.split(": ")[1] for each in lacking if "disk" in each or "I/O" in each]

    assert said(known.plan(long, "local"), of_hosts=False) == [
        *("too little asynchronous I/O", "too little disk")
    ]
    # Hosts of the lab have disks of their own; those that run already have their slots.
    hosts = known.plan(long, "lab")
    assert said(hosts, of_hosts=True) == ["too little asynchronous I/O"]
    plan_file("lab").parent.mkdir(parents=True)
    plan_file("lab").write_text(hosts.to_json())
    assert said(hosts, of_hosts=True) == []
    assert not (tmp_path / "home" / "local").exists()


@pytest.mark.parametrize(
    ("target", "speaks"), [("local", True), ("lab", True), ("aws", False), ("hosts", False)]
)
def test_only_of_targets_on_this_machine(target, speaks):
    """Ten million sensors."""
    said = CliRunner().invoke(cli.main, ["plan", "--target", target, "--sensors", "10000000"])
    assert ("This machine cannot carry it" in said.output) == speaks


@pytest.mark.parametrize("target", ["local", "lab"])
def test_what_cannot_be_carried_is_refused(laptop, monkeypatch, tmp_path, target):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(preflight.psutil, "cpu_count", lambda: 2)
    large = with_nodes(laptop, 100, heap_mb=65_536).model_copy(update={"target": target})
    with pytest.raises(UserError) as refusal:
        preflight.check_shared(large, known.stack(large.stack), [])
    assert "too little memory" in refusal.value.message
    assert "101 servers" in refusal.value.message
    assert not (tmp_path / "home").exists()


def test_a_port_that_somebody_else_listens_on_is_named_with_the_process():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = [
            Listener("127.0.0.1", port, "REST of kairosdb-1"),
            Listener("127.0.0.77", port, "REST of kairosdb-2"),
        ]
        (line,) = preflight.taken(wanted, Path("/nowhere"))
    assert f"127.0.0.1:{port} (REST of kairosdb-1) is taken by process {os.getpid()}" in line


def test_a_listener_on_all_addresses_takes_every_loopback_address():
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104
        port = taken.getsockname()[1]
        wanted = [Listener("127.0.0.77", port, "CQL of storage-1")]
        assert len(preflight.taken(wanted, Path("/nowhere"))) == 1


def test_a_host_that_was_just_made_is_waited_for(monkeypatch):
    hosts = [Host(f"storage-{i}", "storage", {"address": f"10.0.0.{i}"}) for i in (1, 2, 3)]
    here, asked, said = Inventory(Path("/nowhere"), hosts, [], []), [], []
    answers = {"storage-1": ["3 12"], "storage-2": ["", "", "3 12"], "storage-3": ["3 8"]}

    def run(host: Host, *_: object, **__: object) -> str:
        asked.append(host.name)
        if answer := answers[host.name].pop(0):
            return answer
        raise ssh.RemoteError(f"{host.name}: python3: ssh failed: Connection refused")

    monkeypatch.setattr(ssh, "run", run)
    monkeypatch.setattr(preflight.time, "sleep", lambda _: None)
    with pytest.raises(UserError) as error:
        preflight.check_login(here, 1e9, said.append)
    # Others are not waited for, and told at the end.
    assert "storage-3 (10.0.0.3): its python3 is 3.8" in error.value.message
    assert "storage-2" not in error.value.message
    assert said == ["waiting for storage-2 to answer …"] * 2
    assert asked.count("storage-1") == asked.count("storage-3") == 1
    answers["storage-2"], answers["storage-1"], answers["storage-3"] = [""], ["3 12"], ["3 12"]
    with pytest.raises(UserError, match=r"storage-2 .*not reached by ssh: Connection refused"):
        preflight.check_login(here, 0, said.append)


def test_hosts_that_can_be_done_without_are_named(monkeypatch):
    def run(host: Host, *_: object, **__: object) -> str:
        if host.role == "storage":
            return "3 12"
        raise ssh.RemoteError(f"{host.name}: python3: {answers[host.name]}")

    answers = {"loader-1": "ssh failed: Connection timed out", "kairosdb-1": "sudo: a password: no"}
    hosts = [Host(name, name[:-2], {"address": "10.0.0.1"}) for name in ("storage-1", *answers)]
    monkeypatch.setattr(ssh, "run", run)
    here = Inventory(Path("/nowhere"), hosts[:1], [], hosts[1:2])
    assert preflight.check_login(here, spared=["loader"]) == ["loader-1"]
    with pytest.raises(UserError, match="loader-1"):
        preflight.check_login(here, spared=["monitoring"])
    # One that answers is not away: it can be put right.
    refusing = Inventory(Path("/nowhere"), hosts[:1], hosts[2:], [])
    with pytest.raises(UserError, match="kairosdb-1"):
        preflight.check_login(refusing, spared=["kairosdb"])


ROLE = paths.ANSIBLE / "roles" / "preflight"


def asked_of(group: str, **more) -> dict:
    """What role preflight asks of a host of the published size, as Ansible computes it."""
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    given = {
        "plan": known.plan(experiment.load("cluster-180k"), "aws").model_dump(mode="json"),
        "groups": {"storage": ["storage-1", "storage-2", "storage-3"]},
        "group_names": [group],
        "storage_engine": "scylla",
    }
    variables = given | trusted(defaults) | more
    found = Templar(DataLoader(), variables=variables)
    return {name: found.template(variables[name]) for name in defaults if "memory" not in name}


def test_the_data_is_looked_for_on_its_own_disk():
    """The root volume of ScyllaDB's image has 50 GiB, and 16 of them are its swap file."""
    image = asked_of("storage", scylla_image=True, data_devices=["/dev/nvme0n1"])
    assert (image["preflight_disk_mib"], image["preflight_data_to_come"]) == (800, True)
    assert int(image["preflight_data_mib"]) > 25_000
    assert asked_of("storage", data_devices=["/dev/sdb"])["preflight_data_to_come"] is True
    # No disk of its own, or one that is mounted already: there is nothing to wait for.
    assert asked_of("storage")["preflight_data_to_come"] is False
    assert asked_of("kairosdb")["preflight_disk_mib"] == 1300


def test_the_memory_of_a_host_is_its_server_s(laptop, scylla):
    """Of a host that ScyllaDB has alone it takes what there is."""
    assert needs.memory_mib(laptop, "storage") == laptop.storage["heap_mb"] + 550
    assert needs.memory_mib(laptop, "kairosdb") == laptop.kairosdb["heap_mb"] + 550
    assert needs.memory_mib(scylla, "storage") == 1088 + needs.SCYLLA_OVERHEAD_MIB
    large = laptop.model_copy(update={"storage": laptop.storage | {"heap_mb": 8192}})
    # Memtables beside the heap, of which the measured overhead has a fourth of 1,024 MiB.
    assert needs.memory_mib(large, "storage") == 8192 + 550 + 2048 - 256
    assert "3 storage nodes × (8192 heap + 2342)" in needed(large).memory.how
    alone = known.plan(experiment.load("cluster-180k"), "aws")
    assert needs.memory_mib(alone, "storage") is None
    assert needs.memory_mib(alone, "loader") is None


def test_the_data_s_disk_is_looked_at_once_it_is_there():
    folder = paths.ANSIBLE / "roles" / "scylla" / "tasks" / "package"
    tasks = yaml.safe_load((folder / "prepare.yml").read_text())
    look = {"name": "preflight", "tasks_from": "data"}
    (place,) = [i for i, t in enumerate(tasks) if t.get("ansible.builtin.include_role") == look]
    makes = {"package/image.yml", "package/setup.yml"}
    made = [i for i, t in enumerate(tasks) if t.get("ansible.builtin.include_tasks") in makes]
    assert len(made) == 2 and place > max(made)
    (asks,) = yaml.safe_load((ROLE / "tasks" / "data.yml").read_text())
    assert asks["vars"]["preflight_folder"] == "{{ keyspaces_dir }}"


def test_free_disk_is_that_of_the_folder_to_be(tmp_path):
    look, _ = yaml.safe_load((ROLE / "tasks" / "disk.yml").read_text())
    script = look["ansible.builtin.shell"]["cmd"]

    (tmp_path / "df").write_text(f"#!/bin/sh\necho Avail; [ $3 = {tmp_path}/there ] && echo 100M")
    (tmp_path / "df").chmod(0o755)
    (tmp_path / "there" / "data").mkdir(parents=True)

    def free(folder: Path) -> int:
        given = os.environ | {"FOLDER": str(folder), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return int(subprocess.check_output(["bash", "-c", script], env=given))

    # Of the nearest folder that there is; what is stored already counts as free.
    assert free(tmp_path / "there" / "not" / "yet") == 100
    (tmp_path / "there" / "data" / "file").write_bytes(b"x" * 40 * 2**20)
    assert free(tmp_path / "there") == 141
