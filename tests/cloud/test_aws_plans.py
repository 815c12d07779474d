"""Changes of a standing deployment touch what they must and no more."""

import subprocess
import sys
from pathlib import Path

import pytest
from aws_cloud import PUBLISHED, Published

pytestmark = pytest.mark.aws


def test_two_more_kairosdb_nodes_add_only_their_own(published: Published) -> None:
    of_the_first = {address for address in published.with_one if '"kairosdb-1"' in address}
    assert len(of_the_first) > 3
    expected = {
        address.replace("kairosdb-1", node): ["create"]
        for address in of_the_first
        for node in ("kairosdb-2", "kairosdb-3")
    }
    assert published.growth == expected


def test_growing_changed_nothing_that_stood(published: Published) -> None:
    now = published.state()
    for address, was in published.with_one.items():
        assert now[address]["id"] == was["id"], address


def test_replacing_one_storage_node_touches_that_node_only(published: Published) -> None:
    node = 'module.storage.module.node["storage-2"]'
    found = published.changes(f"-replace={node}.aws_instance.host")
    assert found.pop(f"{node}.aws_instance.host") == ["delete", "create"]
    assert found.pop(f"{node}.aws_route53_record.host") == ["update"]
    assert {address.startswith(f"{node}.") for address in found} <= {True}, found


def test_replacing_one_kairosdb_node_keeps_its_queue(published: Published) -> None:
    node = 'module.kairosdb.module.node["kairosdb-2"]'
    found = published.changes(f"-replace={node}.aws_instance.host")
    assert found[f"{node}.aws_instance.host"] == ["delete", "create"]
    assert f"{node}.aws_ebs_volume.data[0]" not in found
    assert all("kairosdb-2" in address for address in found), found


def test_another_region_is_refused(published: Published) -> None:
    """It would be a second deployment, and the first one forgotten, but paid for."""
    before = published.holdings()
    published.write_account(region="eu-west-1")
    try:
        said = published.refused(*published.deploy_arguments())
    finally:
        published.write_account()
    assert "region is eu-west-1, and the target stands in eu-central-1" in said
    assert published.holdings() == before


def test_losing_data_is_refused(published: Published) -> None:
    larger = published.write_experiment(aws={"storage_instance_type": "i3.16xlarge"})
    said = published.refused(*published.deploy_arguments(larger))
    assert "This plan would destroy data, so nothing was changed:" in said
    for node in ("storage-1", "storage-2", "storage-3"):
        assert f'module.storage.module.node["{node}"].aws_instance.host' in said


def test_fewer_nodes_are_refused(published: Published) -> None:
    fewer = published.write_experiment(cluster={"kairosdb_nodes": 2})
    said = published.refused(*published.deploy_arguments(fewer))
    assert "deployed with kairosdb_nodes = 3, the experiment wants 2" in said


# As remove-kairosdb has it once the queue is stored, without what needs the hosts themselves.
LET_GO = """
import sys
from pathlib import Path
from kairoscope.cli import known, options
from kairoscope.targets.target import Options
plan = options.make_plan(sys.argv[1], "aws")
wanted = Options(account=Path(sys.argv[2]), let_go=sys.argv[3])
known.target("aws").provision(plan, wanted, print, lambda: None)
"""


def test_a_node_that_holds_nothing_any_more_goes_with_its_disk(published: Published) -> None:
    fewer = published.write_experiment(cluster={"kairosdb_nodes": 2})

    def let_go(host: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", LET_GO, fewer, published.account, host],
            env=published.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    before = published.state()
    done = let_go("kairosdb-2")
    assert done.returncode != 0
    assert 'module.kairosdb.module.node["kairosdb-3"].aws_ebs_volume.data[0]' in done.stderr
    assert published.state() == before

    done = let_go("kairosdb-3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kairoscope-kairosdb-3" not in published.instances()
    after = published.state()
    gone = before.keys() - after.keys()
    assert 'module.kairosdb.module.node["kairosdb-3"].aws_ebs_volume.data[0]' in gone
    assert all("kairosdb-3" in address for address in gone), gone
    assert {a: v["id"] for a, v in after.items()} == {a: before[a]["id"] for a in after}
    volumes = published.client("ec2").describe_volumes()["Volumes"]
    assert not [v for v in volumes if "kairosdb-3" in str(v.get("Tags"))]


# As replace has it, without what needs the hosts themselves.
MAKE_ANEW = """
import sys
from pathlib import Path
from kairoscope.cli import known, options
from kairoscope.hosts import inventory
from kairoscope.targets.target import Options
aws, plan = known.target("aws"), options.make_plan(sys.argv[1], "aws")
aws.make_anew(inventory.load("aws").host("storage-2"), print)
aws.provision(plan, Options(account=Path(sys.argv[2]), let_go="storage-2"), print, lambda: None)
"""


def made_anew(published: Published, experiment: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAKE_ANEW, experiment, published.account],
        env=published.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_storage_node_whose_instance_is_gone_is_made_anew_by_the_verb_alone(
    published: Published,
) -> None:
    fewer = published.write_experiment(cluster={"kairosdb_nodes": 2})  # as the test above left it
    before, was = published.state(), published.instances()
    old = was["kairoscope-storage-2"]["InstanceId"]
    published.client("ec2").terminate_instances(InstanceIds=[old])
    said = published.refused(*published.deploy_arguments())
    assert "An empty one cannot join" in said and "LIMIT=storage-2" in said

    made_anew(published, fewer)
    now = published.instances()
    assert now.keys() == was.keys()
    assert now["kairoscope-storage-2"]["InstanceId"] != old
    changed = {a for a, v in published.state().items() if v["id"] != before[a]["id"]}
    assert changed and all('node["storage-2"]' in address for address in changed), changed
    assert published.changes() == {}


def test_hosts_of_two_roles_that_are_gone_are_made_in_one_step(published: Published) -> None:
    """Protected, too: the guard of a host refuses that it is replaced."""
    published.write_account(protect=True)
    published.deploy()
    before, was = published.state(), published.instances()
    names = ("kairoscope-storage-2", "kairoscope-kairosdb-1")
    ec2 = published.client("ec2")
    for name in names:
        number = was[name]["InstanceId"]
        ec2.modify_instance_attribute(
            InstanceId=number, DisableApiTermination={"Value": False}
        )  # As a machine that breaks.
        ec2.terminate_instances(InstanceIds=[number])
    assert "LIMIT=storage-2" in published.refused(*published.deploy_arguments())

    made_anew(published, PUBLISHED)
    now = published.instances()
    assert now.keys() == was.keys()
    assert all(now[name]["InstanceId"] != was[name]["InstanceId"] for name in names)
    volume = 'module.kairosdb.module.node["kairosdb-1"].aws_ebs_volume.data[0]'
    assert published.state()[volume]["id"] == before[volume]["id"]
    assert published.changes() == {}
    published.write_account()
    published.deploy()
