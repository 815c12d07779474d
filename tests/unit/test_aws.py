"""Target `aws` without Terraform and without AWS: guard, inventory, mirror, and how it is run."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from rich.console import Console
from test_firewall import security_groups
from test_plan_aws import planned

from kairoscope import paths
from kairoscope.cli import known
from kairoscope.compare import comparable
from kairoscope.deploy import deploy, inventory_vars
from kairoscope.deploy.verify.answers import Firewall
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, provenance, ssh
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.targets.aws import backups, guard, known_hosts, machines, target, terraform
from kairoscope.targets.aws.terraform import MIRROR_VARIABLE, PROVIDER, Terraform
from kairoscope.targets.target import Options

STORAGE = 'module.storage.module.node["storage-2"].aws_instance.host'


def change(
    address: str, kind: str, actions: list[str], before: Any = None, after: Any = None
) -> dict[str, Any]:
    return {
        "address": address,
        "type": kind,
        "change": {"actions": actions, "before": before, "after": after},
    }


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (change(STORAGE, "aws_instance", ["delete", "create"]), "deleted or replaced"),
        (change(STORAGE, "aws_instance", ["create", "delete"]), "local disks"),
        (
            change(
                STORAGE,
                "aws_instance",
                ["update"],
                {"instance_type": "i3.large"},
                {"instance_type": "i3.xlarge"},
            ),
            "stopped to change instance_type",
        ),
        (
            change("module.kairosdb.x.aws_ebs_volume.data", "aws_ebs_volume", ["delete"]),
            "its queue",
        ),
        (change("module.results.aws_s3_bucket.results", "aws_s3_bucket", ["delete"]), "backups"),
    ],
)
def test_a_plan_that_destroys_data_is_refused(found: dict[str, Any], words: str) -> None:
    harmless = change("module.network.aws_vpc.main", "aws_vpc", ["create"])
    with pytest.raises(UserError) as error:
        guard.check({"resource_changes": [harmless, found]})
    assert found["address"] in error.value.message
    assert words in error.value.message
    assert "nothing was changed" in error.value.message


@pytest.mark.parametrize(
    "found",
    [
        change(STORAGE, "aws_instance", ["create"]),
        change(STORAGE, "aws_instance", ["no-op"]),
        change(STORAGE, "aws_instance", ["update"], {"tags": {"a": "1"}}, {"tags": {"a": "2"}}),
        change('module.loader.x["loader-2"].aws_instance.host', "aws_instance", ["delete"]),
        change("module.storage.x.aws_route53_record.name", "aws_route53_record", ["delete"]),
    ],
)
def test_other_plans_are_let_pass(found: dict[str, Any]) -> None:
    guard.check({"resource_changes": [found]})


def test_only_the_host_that_is_let_go_is_deleted() -> None:
    host = 'module.kairosdb.module.node["kairosdb-3"]'
    volume = change(f"{host}.aws_ebs_volume.data[0]", "aws_ebs_volume", ["delete"])
    guard.check({"resource_changes": [volume]}, "kairosdb-3")
    for other in (None, "kairosdb-33", "kairosdb-2"):
        with pytest.raises(UserError, match="would destroy data"):
            guard.check({"resource_changes": [volume]}, other)
    replaced = change(STORAGE, "aws_instance", ["delete", "create"])
    with pytest.raises(UserError, match="would destroy data"):
        guard.check({"resource_changes": [replaced]}, "storage-2")


def test_a_storage_node_that_is_gone_is_not_made_by_a_deploy() -> None:
    """It would be empty, and the others wait for the one that it is not."""
    found = {"resource_changes": [change(STORAGE, "aws_instance", ["create"])]}
    guard.check(found, None, ["storage-1", "storage-3"])  # a node that is added
    with pytest.raises(UserError, match=r"storage-2: AWS has no .*VERB=replace .*LIMIT=storage-2"):
        guard.check(found, None, ["storage-1", "storage-2"])
    guard.check(found, "storage-2", ["storage-1", "storage-2"])


def test_where_no_deploy_has_finished_the_refusal_names_destroy(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other nodes may never have stood, and then nothing takes the place of this one."""
    lost = {"resource_changes": [change(STORAGE, "aws_instance", ["create"])]}
    here = Inventory(fake, [Host("storage-2", "storage", {})], [], [])
    monkeypatch.setattr(target, "_deployed", lambda: here)
    monkeypatch.setattr(Terraform, "prepare", lambda *_: None)
    monkeypatch.setattr(Terraform, "plan", lambda _: lost)

    def refused(**options: Any) -> str:
        of = Options(fake, **options)
        with pytest.raises(UserError) as error, target._planned(Terraform(fake), planned(), of):
            pass
        return error.value.message

    assert "LIMIT=storage-2" in refused()
    assert "there is no data yet: make destroy TARGET=aws" in refused()
    (fake / "home" / "aws").mkdir(parents=True)
    finished_file("aws").touch()
    assert "destroy" not in refused()
    # It has not joined yet, and holds nothing.
    with target._planned(Terraform(fake), planned(), Options(fake, without=("storage-2",))):
        pass


def test_where_the_bastion_is_gone_too_the_way_in_comes_first() -> None:
    """A deploy is refused before it makes the bastion, and replace looks at the others by it."""
    bastion = 'module.access.module.bastion["bastion"].aws_instance.host'
    storage = change(STORAGE, "aws_instance", ["create"])
    both = {"resource_changes": [change(bastion, "aws_instance", ["create"]), storage]}
    with pytest.raises(UserError, match=r"bastion is gone as well.* Before it: the way"):
        guard.check(both, None, ["storage-2"], way_in="the way")
    with pytest.raises(UserError) as error:
        guard.check({"resource_changes": [storage]}, None, ["storage-2"], way_in="the way")
    assert "bastion" not in error.value.message


KAIROSDB = 'module.kairosdb.module.node["kairosdb-1"]'
GUARD = f"{KAIROSDB}.module.protection[0].terraform_data.guard"


def guarded(actions: list[str], *, protect: bool = True) -> dict[str, Any]:
    told = {"input": {"protect": protect, "what": "kairoscope-kairosdb-1"}}
    return change(GUARD, "terraform_data", actions, told)


def test_the_guard_of_a_host_that_is_gone_protects_nothing() -> None:
    instance = f"{KAIROSDB}.aws_instance.host"
    gone = change(instance, "aws_instance", ["create"])
    replaced = guarded(["delete", "create"])
    assert guard.in_the_way({"resource_changes": [gone, replaced]}) == [GUARD]
    for others in (
        [change(instance, "aws_instance", ["delete", "create"]), replaced],  # It is there.
        [change(instance.replace("-1", "-11"), "aws_instance", ["create"]), replaced],
        [gone, guarded(["create"])],  # Of a host that is new.
        [gone, guarded(["delete", "create"], protect=False)],
    ):
        assert guard.in_the_way({"resource_changes": others}) == []


def test_kairosdb_hosts_that_no_inventory_has_had_may_be_given_up() -> None:
    """A quota did not let all be made that were wanted, and nothing was deployed to any of them."""
    volume = change(f"{KAIROSDB}.aws_ebs_volume.data[0]", "aws_ebs_volume", ["delete"])
    found = {"resource_changes": [volume, guarded(["delete"])]}
    guard.check(found, known=["storage-1"])
    assert guard.in_the_way(found, ["storage-1"]) == [GUARD]
    for known_hosts_ in (["storage-1", "kairosdb-1"], None):
        assert guard.in_the_way(found, known_hosts_) == []
        with pytest.raises(UserError, match="its queue"):
            guard.check(found, known=known_hosts_)
    # A storage node may have joined before anybody noted it.
    lost = change(STORAGE, "aws_instance", ["delete"])
    with pytest.raises(UserError, match="local disks"):
        guard.check({"resource_changes": [lost]}, known=["storage-1"])
    # A verb that goes on without it knows that it has not, or that it has left.
    node = STORAGE.removesuffix(".aws_instance.host")
    of_it = guarded(["delete"]) | {"address": f"{node}.module.protection[0].terraform_data.guard"}
    found = {"resource_changes": [lost, of_it]}
    for known_hosts_ in (["storage-1"], ["storage-1", "storage-2"]):
        guard.check(found, known=known_hosts_, without=["storage-2"])
    assert guard.in_the_way(found, ["storage-1"], ["storage-2"]) == [of_it["address"]]
    replaced = {"resource_changes": [change(STORAGE, "aws_instance", ["delete", "create"])]}
    with pytest.raises(UserError, match="local disks"):
        guard.check(replaced, without=["storage-2"])


def test_terraform_is_told_of_hosts_that_a_plan_goes_without() -> None:
    """By the names that it has for them: as of a plan that was made with so many."""
    fewer = {"storage_nodes": 4, "kairosdb_nodes": 2, "loader_hosts": 1}
    more = planned(cluster={"storage_nodes": 5, "kairosdb_nodes": 3, "loader_hosts": 2})
    found, wanted = target.Aws().resized(more, fewer), planned(cluster=fewer)
    assert found.terraform == wanted.terraform
    assert found.experiment == wanted.experiment
    # Those that are not said stay.
    found = target.Aws().resized(more, {"loader_hosts": 1})
    assert (found.terraform["storage_nodes"], found.terraform["loader_hosts"]) == (5, 1)


def test_the_guard_of_a_host_that_is_given_back_goes(fake: Path) -> None:
    (fake / "home" / "aws" / "terraform").mkdir(parents=True)
    (fake / "listed").write_text(f"{GUARD}\n")
    (fake / "does").write_text(f'[ "$1 $2" = "state list" ] && cat {fake}/listed\n')
    target.Aws().give_back("kairosdb-1", lambda _: None)
    assert (fake / "calls").read_text().splitlines()[-1] == f"state rm {GUARD}"


def test_a_protected_host_that_is_gone_is_made_anew(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guard, which is replaced with it, refused that for ever."""
    instance = change(f"{KAIROSDB}.aws_instance.host", "aws_instance", ["create"])
    plans = [
        {"resource_changes": [instance, guarded(["delete", "create"])]},
        {"resource_changes": [instance, guarded(["create"])]},
    ]
    done: list[str] = []
    monkeypatch.setattr(Terraform, "prepare", lambda *_: None)
    monkeypatch.setattr(Terraform, "plan", lambda _: plans.pop(0))
    monkeypatch.setattr(Terraform, "forget", lambda _, address: done.append(address))
    monkeypatch.setattr(Terraform, "apply", lambda _: done.append("apply"))
    monkeypatch.setattr(Terraform, "outputs", lambda _: {"region": "eu-central-1"})
    monkeypatch.setattr(machines, "of_outputs", lambda *_: Machines([], "x"))
    monkeypatch.setattr(known_hosts, "learn", lambda *_: None)
    target.Aws().provision(planned(), Options(fake), lambda _: None, lambda: None)
    assert (done, plans) == ([GUARD, "apply"], [])


def test_what_was_interrupted_while_it_was_made_may_be_made_anew() -> None:
    found = change(STORAGE, "aws_instance", ["delete", "create"])
    tainted = {"resource_changes": [found | {"action_reason": "replace_because_tainted"}]}
    guard.check(tainted)
    guard.check(tainted, known=["storage-1"])
    # A replacement that was given up has left it so, and the node may be well.
    there = ["storage-1", "storage-2"]
    guard.check(tainted, "storage-2", known=there)
    for let_go in (None, "storage-1"):
        with pytest.raises(UserError, match=r"tainted; .* well: tf untaint 'module\.storage"):
            guard.check(tainted, let_go, known=there, untaint="tf untaint")
    bucket = change("module.results.aws_s3_bucket.results", "aws_s3_bucket", ["delete", "create"])
    tainted = {"resource_changes": [bucket | {"action_reason": "replace_because_tainted"}]}
    guard.check(tainted)
    with pytest.raises(UserError, match="backups are lost"):
        guard.check(tainted, known=there)


def test_a_replaced_resource_counts_as_created_and_deleted() -> None:
    changes = [
        change("a", "x", ["create"]),
        change("b", "x", ["delete", "create"]),
        change("c", "x", ["update"]),
        change("d", "x", ["no-op"]),
        change("e", "x", ["read"]),
    ]
    assert guard.summary({"resource_changes": changes}) == {"create": 2, "update": 1, "delete": 1}


def outputs(**more: Any) -> dict[str, Any]:
    def host(group: str, number: int, **other: Any) -> dict[str, Any]:
        return {
            "group": group,
            "address": f"10.42.0.{number}",
            "dns": f"{group}-{number}.kairoscope.internal",
            "instance_id": f"i-{group}{number}",
            "image": "ami-0123456789abcdef0",
            "instance_type": "i3.8xlarge" if group == "storage" else "m5.2xlarge",
            "vcpus": 32 if group == "storage" else 8,
            "zone": "us-east-1a",
            "rack": "rack1",
            "data_devices": ["/dev/nvme0n1"] if group == "storage" else [],
            "ssh_user": "scyllaadm" if group == "storage" else "admin",
            **other,
        }

    found = {f"storage-{i}": host("storage", i) for i in (10, 2, 1)}
    found |= {"kairosdb-1": host("kairosdb", 1), "loader-1": host("loader", 1)}
    found["monitoring-1"] = host("monitoring", 1)
    return {
        "hosts": found,
        "access": "ssh",
        "bastion": "198.51.100.7",
        "bastion_user": "admin",
        "bastion_instance": "i-bastion",
        "region": "us-east-1",
        "name": "kairoscope",
        "results_bucket": "kairoscope-results-1",
        "vpc_cidr": "10.42.0.0/16",
        "kairosdb_url": "https://kairosdb.kairoscope.internal:8080",
        "ports": {
            "cql": 9042,
            "storage": 7000,
            "kairosdb_http": 8080,
            "kairosdb_telnet": 4242,
        },
        **more,
    }


def made_of(found: dict[str, Any]) -> dict[str, Any]:
    plan = planned()
    of = machines.of_outputs(found, plan)
    return inventory_vars.make(plan, of, known.stack(plan.stack), shared=False)


@pytest.mark.usefixtures("no_bundles")
def test_outputs_become_an_inventory_that_ansible_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    inventory.write(tmp_path / "aws" / "inventory.yml", made_of(outputs()), "")
    found = inventory.load("aws")
    # In the order of their numbers, not of their letters.
    assert [host.name for host in found.storage] == ["storage-1", "storage-2", "storage-10"]
    first = found.storage[0].vars
    assert first["shards"] == 30
    assert first["data_devices"] == ["/dev/nvme0n1"]
    assert first["ansible_user"] == "scyllaadm"
    assert first["native_transport_port"] == 9042
    assert first["rack"] == found.kairosdb[0].vars["rack"] == "rack1"
    assert "-W %h:%p admin@198.51.100.7" in first["ansible_ssh_common_args"]
    assert found.kairosdb[0].url == "https://10.42.0.1:8080"
    # The load balancer passes TLS through to the nodes.
    assert found.kairosdb[0].known_as == ["10.42.0.1", "kairosdb.kairoscope.internal"]
    line = ssh.ssh(found.loader[0])
    assert line[-3:] == ["-l", "admin", "10.42.0.1"]
    # Through the bastion, whose key is kept in the same file as those of the hosts.
    known = f"UserKnownHostsFile={tmp_path}/aws/known_hosts"
    (proxy,) = [part for part in line if part.startswith("ProxyCommand=")]
    assert known in line
    assert known in proxy
    assert proxy.endswith("-W %h:%p admin@198.51.100.7")
    assert first["storage_engine"] == "scylla"


def test_verify_wants_open_just_what_the_security_groups_let_in() -> None:
    table, cloud = Firewall.read(), security_groups()
    made = machines.of_outputs(outputs(), planned())
    all_ = {"storage_engine": "scylla", **made.variables}
    hosts = [Host(m.name, m.group, {"address": m.address, **all_, **m.more}) for m in made.machines]
    for source, there in itertools.permutations(hosts, 2):
        way = (there.role, source.role)
        wanted = {table.port(there, port) for to, of, port, _ in cloud if (to, of) == way}
        assert table.lets_in(source, there, telnet=True) == wanted, (source, there)


@pytest.mark.usefixtures("no_bundles")
def test_with_ssm_hosts_are_reached_by_their_ids() -> None:
    made = made_of(outputs(access="ssm", bastion=None))
    variables = made["all"]["vars"]
    assert "aws ssm start-session --target %h" in variables["ansible_ssh_common_args"]
    assert made["all"]["children"]["loader"]["hosts"]["loader-1"]["ansible_host"] == "i-loader1"


def test_a_wrong_line_of_the_table_is_found() -> None:
    wrong = outputs()
    wrong["hosts"]["storage-1"]["vcpus"] = 31
    with pytest.raises(UserError, match=r"AWS gives i3\.8xlarge 31 vCPUs"):
        machines.of_outputs(wrong, planned())


class TestMirror:
    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
        monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
        monkeypatch.delenv("TF_CLI_CONFIG_FILE", raising=False)
        monkeypatch.setattr(terraform, "_MIRROR_ROOTS", (str(tmp_path / "opt"),))

    def test_none(self) -> None:
        assert terraform.mirror() is None
        assert "TF_CLI_CONFIG_FILE" not in terraform.environment()

    def test_found(self, tmp_path: Path) -> None:
        folder = tmp_path / "opt" / "some" / "plugins"
        (folder / PROVIDER).mkdir(parents=True)
        assert terraform.mirror() == folder
        text = Path(terraform.environment()["TF_CLI_CONFIG_FILE"]).read_text()
        assert f'path = "{folder}"' in text
        assert f'exclude = ["{PROVIDER}"]' in text

    def test_given(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "mine" / PROVIDER).mkdir(parents=True)
        monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mine"))
        assert terraform.mirror() == tmp_path / "mine"
        monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "other"))
        with pytest.raises(UserError, match=f"{MIRROR_VARIABLE}=.*other: no folder"):
            terraform.mirror()

    def test_a_configuration_of_ones_own_wins(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "opt" / PROVIDER).mkdir(parents=True)
        own = tmp_path / "own.rc"
        own.write_text("")
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(own))
        assert terraform.environment()["TF_CLI_CONFIG_FILE"] == str(own)
        # One that is not there would be an error of Terraform's at every command.
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(tmp_path / "nowhere"))
        assert terraform.environment()["TF_CLI_CONFIG_FILE"].endswith("terraform.rc")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A terraform that notes how it is called and does what the test writes into `does`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "terraform"
    script.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n'
        f"if [ -e {tmp_path}/does ]; then . {tmp_path}/does\n"
        'elif [ "$1" = output ]; then echo "{}"; fi\nexit 0\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(terraform, "_MIRROR_ROOTS", ())
    return tmp_path


def account(folder: Path) -> Path:
    path = folder / "account.tfvars"
    path.write_text('region = "us-east-1"\n')
    return path


def test_the_working_folder_holds_what_terraform_reads(fake: Path) -> None:
    mine = Terraform(fake / "work")
    mine.folder.mkdir()
    (mine.folder / "override.tf").write_text("# mine\n")
    mine.prepare({"storage_nodes": 3}, account(fake), None)
    assert json.loads((mine.folder / "experiment.auto.tfvars.json").read_text()) == {
        "storage_nodes": 3
    }
    assert (mine.folder / "account.auto.tfvars").read_text() == 'region = "us-east-1"\n'
    assert (mine.folder / "main.tf").read_text() == (paths.TERRAFORM / "main.tf").read_text()
    assert (mine.folder / ".terraform.lock.hcl").exists()
    assert (mine.folder / "override.tf").exists()
    assert not (mine.folder / "tests").exists()
    assert not (mine.folder / "backend.tf").exists()
    assert (fake / "calls").read_text().startswith("init -input=false -lockfile=readonly")


def test_what_the_repository_no_longer_has_goes(fake: Path) -> None:
    mine = Terraform(fake / "work")
    mine.prepare({}, account(fake), None)
    (mine.folder / "modules" / "gone").mkdir()
    mine.prepare({}, account(fake), None)
    assert not (mine.folder / "modules" / "gone").exists()


def test_the_backend_is_chosen_once(fake: Path) -> None:
    mine, backend = Terraform(fake / "work"), fake / "backend.hcl"
    backend.write_text('bucket = "one"\n')
    mine.prepare({}, account(fake), backend)
    assert 'backend "s3"' in (mine.folder / "backend.tf").read_text()
    assert "-backend-config=backend.hcl" in (fake / "calls").read_text()
    mine.prepare({}, account(fake), None)  # later calls need not repeat it
    backend.write_text('bucket = "two"\n')
    with pytest.raises(UserError, match=r"backend.hcl: the target's state is kept elsewhere"):
        mine.prepare({}, account(fake), backend)


def files(folder: Path) -> dict[str, str]:
    """All that Terraform would read in a folder."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "tfplan")
    return {str(path.relative_to(folder)): path.read_text() for path in found}


@pytest.fixture
def stands(fake: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    """A target that an older checkout has deployed: its Terraform's folder, and what is in it."""
    folder = fake / "home" / "aws" / "terraform"
    (folder / "modules" / "older").mkdir(parents=True)
    for name in ("main.tf", "override.tf", "modules/older/main.tf", "terraform.tfstate"):
        (folder / name).write_text("as it was\n")
    (folder / "account.auto.tfvars").write_text('region = "eu-central-1"\n')
    (folder / "experiment.auto.tfvars.json").write_text('{"storage_nodes": 3}\n')
    (fake / "told").write_text('{"region": {"value": "us-east-1"}}')
    (fake / "planned").write_text('{"resource_changes": []}')
    (fake / "does").write_text(
        f'[ "$1" = output ] && cat {fake}/told\n[ "$1" = show ] && cat {fake}/planned\n'
    )
    return folder, files(folder)


def test_a_look_leaves_what_destroy_works_with(
    fake: Path, stands: tuple[Path, dict[str, str]]
) -> None:
    """Else destroy may be refused by what was never applied, as another name of the owner's."""
    folder, before = stands
    (fake / "planned").write_text('{"resource_changes": []}')
    target.show(planned(), account(fake), None, lambda _: None)
    assert "plan -input=false -out=tfplan" in (fake / "calls").read_text()
    assert files(folder) == before
    assert sorted(path.name for path in folder.parent.iterdir()) == ["change.lock", "terraform"]


def test_no_look_while_a_deploy_changes_the_folder(
    fake: Path, stands: tuple[Path, dict[str, str]]
) -> None:
    with (
        operation.alone("aws"),
        pytest.raises(UserError, match="Target aws is being changed"),
    ):
        target.show(planned(), account(fake), None, lambda _: None)
    assert files(stands[0]) == stands[1]


@pytest.mark.parametrize("fails", ["init", "plan", "guard", "begin"])
def test_a_deploy_that_is_refused_leaves_what_destroy_works_with(
    fake: Path, stands: tuple[Path, dict[str, str]], fails: str
) -> None:
    folder, before = stands
    lost = {"resource_changes": [change(STORAGE, "aws_instance", ["delete"])]}
    (fake / "planned").write_text(json.dumps(lost if fails == "guard" else {}))
    with (fake / "does").open("a") as does:
        does.write(f'[ "$1" = {fails} ] && exit 1\n')

    def begin() -> None:
        raise UserError("The disk is full.")

    options = Options(account(fake))
    with pytest.raises(UserError):
        target.Aws().provision(planned(), options, lambda _: None, begin)
    assert files(folder) == before


def test_what_is_applied_stays_also_where_it_fails(
    fake: Path, stands: tuple[Path, dict[str, str]]
) -> None:
    folder, before = stands
    with (fake / "does").open("a") as does:
        does.write('[ "$1" = apply ] && exit 1\n')
    with pytest.raises(UserError, match="terraform apply failed"):
        target.Aws().provision(planned(), Options(account(fake)), lambda _: None, lambda: None)
    now = files(folder)
    assert now["account.auto.tfvars"] == 'region = "us-east-1"\n'
    assert json.loads(now["experiment.auto.tfvars.json"]) == planned().terraform
    assert now["terraform.tfstate"] == before["terraform.tfstate"]
    assert not (folder / "modules" / "older").exists()


def test_destroy_after_a_look_that_was_killed(
    fake: Path, stands: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, before = stands
    monkeypatch.setattr(shutil, "copytree", interrupted(shutil.copytree, folder))
    monkeypatch.setattr(Terraform, "put_back", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        target.show(planned(), account(fake), None, lambda _: None)
    assert not (folder / "modules").exists()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{fake}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("KAIROSCOPE_HOME", str(fake / "home"))
    assert target.Aws().typed_to_destroy() == "aws"
    assert files(folder) == before


def interrupted(copytree: Any, to: Path) -> Any:
    """Copies all but what is copied to a folder, before which it is interrupted."""

    def copy(source: Path, wanted: Path, *more: Any, **options: Any) -> Any:
        if wanted == to:
            raise KeyboardInterrupt
        return copytree(source, wanted, *more, **options)

    return copy


def test_a_backend_that_was_being_put_back_is_known(
    fake: Path, stands: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All later deploys were refused, whose BACKEND= was the target's own."""
    folder, before = stands
    backend = fake / "backend.hcl"
    backend.write_text('bucket = "one"\n')
    shutil.copy(backend, folder)
    copy = shutil.copy2

    def killed(source: Path, to: Path) -> Any:
        if to == folder / "backend.hcl":
            raise KeyboardInterrupt
        return copy(source, to)

    monkeypatch.setattr(shutil, "copy2", killed)
    with pytest.raises(KeyboardInterrupt):
        target.show(planned(), account(fake), backend, lambda _: None)
    assert not (folder / "backend.hcl").exists()
    monkeypatch.setattr(shutil, "copy2", copy)
    other = fake / "other.hcl"
    other.write_text('bucket = "two"\n')
    with pytest.raises(UserError, match="the target's state is kept elsewhere"):
        target.show(planned(), account(fake), other, lambda _: None)
    target.Aws().check_given(Options(account(fake), backend))
    target.show(planned(), account(fake), backend, lambda _: None)
    assert files(folder) == before | {"backend.hcl": backend.read_text()}


def test_an_interrupt_leaves_modules_that_destroy_can_read(
    stands: tuple[Path, dict[str, str]], fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, before = stands
    monkeypatch.setattr(shutil, "copytree", interrupted(shutil.copytree, folder))
    with pytest.raises(KeyboardInterrupt):
        target.show(planned(), account(fake), None, lambda _: None)
    assert files(folder) == before


def test_another_region_is_refused_where_something_stands(
    fake: Path, stands: tuple[Path, dict[str, str]]
) -> None:
    """Terraform would find nothing there, and make all anew beside what is paid for."""
    folder, before = stands
    (fake / "told").write_text('{"region": {"value": "eu-central-1"}}')
    said = "region is us-east-1, and the target stands in eu-central"
    with pytest.raises(UserError, match=said):
        target.show(planned(), account(fake), None, lambda _: None)
    assert files(folder) == before
    # From a home that has nothing yet, of a state that is kept elsewhere: nothing is put back.
    shutil.rmtree(folder)
    with pytest.raises(UserError, match=said):
        target.show(planned(), account(fake), None, lambda _: None)
    with pytest.raises(UserError, match=said):
        target.Aws().destroy(print)
    assert not re.search("^(plan|destroy)", (fake / "calls").read_text(), re.MULTILINE)


@pytest.mark.parametrize("missing", ["account.tfvars", "backend.hcl"])
def test_a_missing_file_is_told_with_its_example(fake: Path, missing: str) -> None:
    given = account(fake) if missing == "backend.hcl" else fake / missing
    with pytest.raises(UserError, match=f"{missing}: missing.*example"):
        Terraform(fake / "work").prepare({}, given, fake / "backend.hcl")
    assert not (fake / "work").exists()


def test_a_failure_says_where_and_what(fake: Path) -> None:
    (fake / "does").write_text("echo no such provider; exit 1\n")
    with pytest.raises(UserError, match=r"terraform init failed in .*work:\nno such provider"):
        Terraform(fake / "work").prepare({}, account(fake), None)


def test_without_terraform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="terraform is missing"):
        terraform.executable()


def test_a_protected_target_is_not_destroyed(fake: Path) -> None:
    (fake / "home" / "aws" / "terraform").mkdir(parents=True)
    (fake / "home" / "aws" / "terraform" / "main.tf").touch()
    (fake / "does").write_text('[ "$1" = output ] && echo \'{"protect": {"value": true}}\'\n')
    with pytest.raises(UserError, match="protect = false"):
        target.Aws().destroy(print)
    assert "destroy" not in (fake / "calls").read_text()


@pytest.fixture
def standing(fake: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment called `mine`, whose Terraform knows three resources until it destroys them."""
    (fake / "home" / "aws" / "terraform").mkdir(parents=True)
    (fake / "home" / "aws" / "terraform" / "main.tf").touch()
    told = {"name": "mine", "results_bucket": "results-1", "region": "eu-central-1"}
    (fake / "told").write_text(json.dumps({name: {"value": v} for name, v in told.items()}))
    known = ("module.results.aws_s3_bucket.results", "module.results.aws_s3_bucket_policy.results")
    (fake / "listed").write_text("\n".join([*known, "module.network.aws_vpc.main\n"]))
    (fake / "does").write_text(
        f'[ "$1" = output ] && cat {fake}/told\n[ "$1" = destroy ] && rm {fake}/listed\n'
        f'[ "$1 $2" = "state list" ] && cat {fake}/listed 2>/dev/null\n'
    )
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(fake / "secrets"))
    monkeypatch.setattr(backups, "there", lambda bucket, region: False)
    return fake


@pytest.mark.parametrize("typed", ["", "kairoscope", "Mine"])
def test_it_is_not_destroyed_unless_its_name_is_typed(standing: Path, typed: str) -> None:
    with pytest.raises(UserError, match="TARGET=aws DEPLOYMENT=mine"):
        deploy.destroy(target.Aws(), Console(quiet=True), lambda _: typed)
    assert "destroy" not in (standing / "calls").read_text()
    assert (standing / "home" / "aws").exists()
    deploy.destroy(target.Aws(), Console(quiet=True), lambda _: "mine")
    assert "destroy -input=false" in (standing / "calls").read_text()
    assert not (standing / "home" / "aws").exists()


def test_backups_outlive_the_deployment(standing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(backups, "there", lambda *of: asked.append(of) or True)
    said: list[str] = []
    target.Aws().destroy(said.append)
    assert asked == [("results-1", "eu-central-1")]
    assert "s3://results-1 stays" in said[0]
    calls = (standing / "calls").read_text().splitlines()
    forgotten = [call for call in calls if call.startswith("state rm")]
    assert forgotten == [
        "state rm module.results.aws_s3_bucket.results",
        "state rm module.results.aws_s3_bucket_policy.results",
    ]
    assert calls.index(forgotten[-1]) < calls.index("destroy -input=false -auto-approve")


def test_a_dead_node_s_instance_is_made_anew_by_the_next_apply(fake: Path) -> None:
    folder = fake / "home" / "aws" / "terraform"
    folder.mkdir(parents=True)
    node = 'module.storage.module.node["storage-2"]'
    guarded = f"{node}.module.protection[0].terraform_data.guard"
    (fake / "listed").write_text(f"{node}.aws_instance.host\n{guarded}\n")
    (fake / "does").write_text(f'[ "$1 $2" = "state list" ] && cat {fake}/listed\n')
    target.Aws().make_anew(Host("storage-2", "storage", {}), lambda _: None)
    calls = (fake / "calls").read_text().splitlines()
    # Protection is against losing data, and its guard would refuse.
    assert calls[-2:] == [f"state rm {guarded}", f"taint -allow-missing {node}.aws_instance.host"]


@pytest.mark.parametrize(
    ("there", "tainted", "kept"),
    [("i-1", True, True), ("i-2", True, False), ("i-1", False, False), (None, True, False)],
    ids=["marked", "another-by-now", "not-marked", "gone"],
)
def test_an_instance_that_was_to_be_made_anew_is_kept(
    fake: Path, there: str | None, tainted: bool, kept: bool
) -> None:
    (fake / "home" / "aws" / "terraform").mkdir(parents=True)
    instance = {"address": STORAGE, "tainted": tainted, "values": {"id": there}}
    storage = {"child_modules": [{"resources": [instance] if there else []}]}
    root = {"root_module": {"resources": [], "child_modules": [storage]}}
    (fake / "state").write_text(json.dumps({"values": root}))
    (fake / "does").write_text(f'[ "$1 $2" = "show -json" ] && cat {fake}/state\n')
    target.Aws().keep(Host("storage-2", "storage", {"instance_id": "i-1"}), lambda _: None)
    calls = (fake / "calls").read_text().splitlines()
    assert (f"untaint {STORAGE}" in calls) is kept


def test_keys_of_hosts_that_are_gone_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    before = Inventory(
        tmp_path,
        [
            Host("storage-1", "storage", {"address": "10.42.0.1", "instance_id": "i-1"}),
            Host("storage-2", "storage", {"address": "10.42.0.2", "instance_id": "i-2"}),
        ],
        [],
        [],
    )
    made = [
        Machine("storage-1", "storage", "10.42.0.1", {}, {"instance_id": "i-1"}),
        # AWS has given it the address that storage-2 had, and storage-2 one of long ago.
        Machine("storage-3", "storage", "10.42.0.2", {}, {"instance_id": "i-3"}),
        Machine("storage-2", "storage", "10.42.0.9", {}, {"instance_id": "i-4"}),
    ]
    known_hosts.forget_new(made, before)  # There is none yet.
    file = tmp_path / "aws" / "known_hosts"
    file.parent.mkdir()
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    addresses = ("10.42.0.1", "10.42.0.2", "10.42.0.9", "198.51.100.7")
    file.write_text("".join(f"{address} {key}\n" for address in addresses))
    known_hosts.forget_new(made, before)
    left = [line.split()[0] for line in file.read_text().splitlines()]
    assert left == ["10.42.0.1", "198.51.100.7"]


def console(*keys: str) -> str:
    """As cloud-init prints them, after other things, each line with what its logger puts before."""
    lines = [
        "-----BEGIN SSH HOST KEY FINGERPRINTS-----",
        "256 SHA256:aaaa root@ip-10-42-0-1 (ED25519)",
        "-----END SSH HOST KEY FINGERPRINTS-----",
        "-----BEGIN SSH HOST KEY KEYS-----",
        *(f"{key} root@ip-10-42-0-1" for key in keys),
        "-----END SSH HOST KEY KEYS-----",
    ]
    head = "[   12.3] systemd[1]: Started.\r\n"
    return head + "".join(f"<14>Nov 25 12:00:01 ec2: {line}\r\n" for line in lines)


class Consoles:
    """EC2 as far as it is asked; `answers` of an instance are given one after another."""

    def __init__(self, answers: dict[str, list[str]], xen: Sequence[str] = (), denied: str = ""):
        self.answers, self.xen, self.denied = answers, xen, denied
        self.asked: list[str] = []

    def get_console_output(self, InstanceId: str, Latest: bool = False) -> dict[str, str]:
        if code := self.denied or (
            "UnsupportedOperation" if Latest and InstanceId in self.xen else ""
        ):
            raise ClientError({"Error": {"Code": code, "Message": code}}, "GetConsoleOutput")
        self.asked.append(InstanceId)
        left = self.answers[InstanceId]
        found = left.pop(0) if len(left) > 1 else left[0]
        return {"Output": found} if found else {}


def learnt(
    monkeypatch: pytest.MonkeyPatch, home: Path, ec2: Consoles, wait_s: float = 60
) -> tuple[list[str], str]:
    """Lines of known_hosts after asking for three hosts, and what was said."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(home))
    monkeypatch.setattr("boto3.client", lambda *_, **__: ec2)
    monkeypatch.setattr(known_hosts, "_EVERY_S", 0)
    said: list[str] = []
    hosts = {"10.42.0.1": "i-1", "10.42.0.2": "i-2", "198.51.100.7": "i-3"}
    known_hosts.learn(hosts, "eu-central-1", said.append, wait_s)
    file = home / "aws" / "known_hosts"
    return file.read_text().splitlines() if file.exists() else [], " ".join(said)


ED = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
RSA = f"ssh-rsa AAAAB3NzaC1yc2E{'A' * 200}=="


def test_host_keys_are_known_before_the_first_login(tmp_path, monkeypatch) -> None:
    answers = {
        "i-1": [console(ED, RSA)],
        "i-2": ["", "booting", console(ED)],
        "i-3": [console(RSA)],
    }
    ec2 = Consoles(answers, xen=["i-3"])
    lines, said = learnt(monkeypatch, tmp_path, ec2)
    assert sorted(lines) == sorted(
        [f"10.42.0.1 {ED}", f"10.42.0.1 {RSA}", f"10.42.0.2 {ED}", f"198.51.100.7 {RSA}"]
    )
    assert "waiting for AWS to tell the host keys of 10.42.0.2" in said
    assert "unchecked" not in said
    # Known ones are not asked for again, nor replaced.
    ec2.asked.clear()
    assert learnt(monkeypatch, tmp_path, ec2) == (lines, "")
    assert ec2.asked == []


def test_host_keys_that_aws_does_not_tell_are_said(tmp_path, monkeypatch) -> None:
    answers = {"i-1": [console(ED)], "i-2": ["no keys"], "i-3": [console()]}
    lines, said = learnt(monkeypatch, tmp_path, Consoles(answers), wait_s=0)
    assert lines == [f"10.42.0.1 {ED}"]
    assert (
        "The host keys of 10.42.0.2, 198.51.100.7 are taken at the first login, unchecked" in said
    )
    denied = Consoles({}, denied="UnauthorizedOperation")
    assert "UnauthorizedOperation" in learnt(monkeypatch, tmp_path, denied)[1]


def test_a_bastion_that_was_made_anew_has_another_key(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    given = {"address": "10.42.0.1", "instance_id": "i-1", "bastion_instance": "i-3"}
    before = Inventory(tmp_path, [Host("storage-1", "storage", given)], [], [])
    made = [Machine("storage-1", "storage", "10.42.0.1", {}, {"instance_id": "i-1"})]
    file = tmp_path / "aws" / "known_hosts"
    file.parent.mkdir()
    text = f"10.42.0.1 {ED}\n198.51.100.7 {ED}\n"
    file.write_text(text)
    known_hosts.forget_new(made, before, ("198.51.100.7", "i-3"))
    assert file.read_text() == text
    known_hosts.forget_new(made, before, ("198.51.100.7", "i-4"))
    assert file.read_text() == f"10.42.0.1 {ED}\n"


def test_a_run_says_of_which_image_and_instance_its_hosts_are(tmp_path) -> None:
    made = {"image": "ami-1", "instance_id": "i-1", "address": "10.42.0.1"}
    here = {"ansible_connection": "local"}
    hosts = [Host("storage-1", "storage", made | here), Host("storage-2", "storage", here)]
    first, second = provenance.hosts(Inventory(tmp_path, hosts, [], []))
    assert first["cpus"] and first.items() >= {"image": "ami-1", "instance_id": "i-1"}.items()
    assert second.keys() == first.keys() - {"image", "instance_id"}

    # A run on other instances of the kind is on the same machines all the same.
    runs = [
        SimpleNamespace(manifest={"hosts": [first | {"instance_id": name, "image": name}]})
        for name in ("one", "other")
    ]
    assert comparable.MACHINE.facets(runs[0]) == comparable.MACHINE.facets(runs[1])


INTERRUPTED = """
    import os, signal, sys, threading
    from pathlib import Path
    from kairoscope.targets.aws.terraform import Terraform
    folder = Path(sys.argv[1])
    try:
        Terraform(folder)._run(["apply"])
    except KeyboardInterrupt:
        print("kairoscope: interrupted")
"""


def test_terraform_is_interrupted_and_waited_for(fake: Path) -> None:
    """It must end what is under way and write its state; a second interrupt would cut that off."""
    (fake / "does").write_text(
        f"n=0; trap 'n=$((n+1)); echo interrupt $n >> {fake}/heard' INT\n"
        f"touch {fake}/started; i=0\n"
        f"while [ $i -lt 100 ] && [ $n -eq 0 ]; do sleep 0.1; i=$((i+1)); done\n"
        f"sleep 0.5; echo state written >> {fake}/heard; exit 1\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(fake)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not (fake / "started").exists():
            assert process.poll() is None
            time.sleep(0.02)
        # As a terminal does: to the whole group, and the person presses it twice.
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (fake / "heard").read_text() == "interrupt 1\nstate written\n"
    assert output == "kairoscope: interrupted\n"
