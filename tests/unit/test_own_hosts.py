"""Target `hosts`: an inventory of one's own, completed."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from rich.console import Console

from kairoscope import experiment, paths, plan
from kairoscope.cli import known
from kairoscope.deploy import deploy, inventory_vars, members
from kairoscope.deploy.deploy import Deployment
from kairoscope.deploy.operate import evidence
from kairoscope.deploy.operate.deployed import Deployed
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, ssh
from kairoscope.hosts.deployed import finished_file, plan_file
from kairoscope.hosts.inventory import Host
from kairoscope.targets import own
from kairoscope.targets.target import Options

STORAGE = {f"storage-{i}": {"address": f"192.0.2.{i}", "rack": f"rack{i}"} for i in (1, 2, 3)}


def given(path: Path, **groups: Any) -> Path:
    hosts = {
        "storage": STORAGE,
        "kairosdb": {"kairosdb-1": {"address": "192.0.2.21"}},
        "loader": {"loader-1": {"ansible_host": "loader.example.org"}},
        **groups,
    }
    children = {name: {"hosts": found} for name, found in hosts.items()}
    everyone = {"ansible_user": "admin", "firewall_admin_cidrs": ["198.51.100.0/24"]}
    path.write_text(yaml.safe_dump({"all": {"vars": everyone, "children": children}}))
    return path


@pytest.fixture(autouse=True)
def _home(no_bundles: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "secrets"))


def planned(name: str = "laptop") -> plan.Plan:
    return known.plan(experiment.load(name, experiment.Overrides()), "hosts")


def completed(made: plan.Plan, file: Path) -> dict[str, Any]:
    return inventory_vars.make(made, own.given(made, file), known.stack(made.stack), shared=False)


def test_what_the_file_says_stays_and_the_rest_is_added(tmp_path: Path) -> None:
    made = completed(planned(), given(tmp_path / "mine.yml"))
    inventory.write(tmp_path / "inventory.yml", made, "for a test")
    found = inventory.read(tmp_path / "inventory.yml")
    assert found == inventory.read_own(tmp_path / "inventory.yml")  # As Ansible sees it.
    assert found.managed
    second = found.storage[1].vars
    assert second["rack"] == "rack2"
    assert second["ansible_host"] == second["address"] == "192.0.2.2"
    assert second["ansible_user"] == "admin"
    assert second["firewall_admin_cidrs"] == ["198.51.100.0/24"]
    assert second["storage_engine"] == "scylla"
    assert found.kairosdb[0].url == "https://192.0.2.21:8080"
    # No address given: that by which it is reached.
    assert found.loader[0].address == "loader.example.org"
    assert found.loader[0].vars["home"].startswith("/home/admin/")


@pytest.mark.parametrize("locale", ["C", "xx_XX.UTF-8"])
def test_ansible_runs_in_a_locale_that_every_machine_has(
    locale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login by ssh brings along that of its own machine, and Ansible refuses one that is none."""
    monkeypatch.setenv("LC_ALL", locale)
    assert len(inventory.read_own(given(tmp_path / "mine.yml")).storage) == 3
    known_to: list[dict[str, str]] = []
    monkeypatch.setattr(deploy, "_run", lambda *_, env, **__: known_to.append(env) or 0)
    deploy.playbook("hosts", known.stack("kairosdb"), "deploy")
    assert known_to[0]["LC_ALL"] == "C.UTF-8"


def test_a_file_that_does_not_fit_the_experiment(tmp_path: Path) -> None:
    two = {name: STORAGE[name] for name in ("storage-1", "storage-2")}
    with pytest.raises(UserError, match="group storage has 2 hosts, the experiment wants 3"):
        own.given(planned(), given(tmp_path / "mine.yml", storage=two))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        own.Own().check_given(Options(tmp_path, inventory=tmp_path / "nothing.yml"))
    with pytest.raises(UserError, match="needs INVENTORY="):
        own.Own().check_given(Options(tmp_path))


def test_too_few_hosts_are_refused_when_it_is_asked_what_was_given(tmp_path: Path) -> None:
    two = {name: STORAGE[name] for name in ("storage-1", "storage-2")}
    options = Options(tmp_path, inventory=given(tmp_path / "mine.yml", storage=two))
    own.Own().check_given(options)
    with pytest.raises(UserError, match="group storage has 2 hosts"):
        own.Own().check_given(options, planned())
    watched = Options(tmp_path, inventory=options.inventory, monitoring=True)
    with pytest.raises(UserError, match="no host in the group monitoring"):
        own.Own().check_given(watched)


def test_the_sample_fits_the_experiment_that_it_names(tmp_path: Path) -> None:
    sample = paths.ANSIBLE / "inventory-sample.yml"
    assert "EXPERIMENT=single-60k" in sample.read_text()
    inventory.write(tmp_path / "inventory.yml", completed(planned("single-60k"), sample), "")
    found = inventory.read(tmp_path / "inventory.yml")
    first, second, _ = found.storage
    assert (first.address, first.vars["ansible_host"]) == ("192.0.2.11", "storage-1.example.org")
    assert (second.address, second.vars["ansible_host"]) == ("192.0.2.12", "192.0.2.12")
    assert second.vars["data_devices"] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert first.vars["scylla_repository_key"] == "~/scylladb.gpg"
    assert found.kairosdb[0].url == "https://192.0.2.21:8080"


def test_what_the_sample_only_suggests_is_understood(tmp_path: Path) -> None:
    """Its comments are taken out, as a user does who needs what they say."""
    text = (paths.ANSIBLE / "inventory-sample.yml").read_text()
    told = re.sub(r"^( +)# (?=[a-z_]+:|  - )", r"\1", text, flags=re.MULTILINE)
    (tmp_path / "mine.yml").write_text(told)
    made = completed(planned("single-60k"), tmp_path / "mine.yml")
    inventory.write(tmp_path / "inventory.yml", made, "")
    node = inventory.read(tmp_path / "inventory.yml").kairosdb[0]
    assert "kairosdb.example.org" in node.known_as
    assert node.vars["firewall_admin_cidrs"] == ["198.51.100.0/24"]
    assert node.vars["firewall_extra"][0]["to"] == "kairosdb"


def with_secrets(path: Path) -> Path:
    """An inventory that is for other things too, as a company's is, and a password for sudo."""
    file = given(path)
    said = yaml.safe_load(file.read_text())
    said["all"]["vars"] |= {
        "ansible_become_password": "{{ vaulted.sudo }}",
        "ansible_ssh_private_key_file": "~/.ssh/id",
        "vaulted": {"sudo": "hunter2sudo"},
        "payroll_password": "hunter2payroll",
        "note": "hunter2note",
        "mitogen_via": "bastion",
        "kairosdb_start_seconds": 77,
    }
    file.write_text(yaml.safe_dump(said))
    return file


def test_of_an_inventory_only_what_is_for_us_is_taken_over(tmp_path: Path) -> None:
    brought(with_secrets(tmp_path / "mine.yml"))
    text = inventory.file("hosts").read_text()
    assert "hunter2payroll" not in text and "hunter2note" not in text
    found = inventory.load("hosts").kairosdb[0].vars
    # What is for us may name what is not.
    assert "{{ vaulted.sudo }}" in found.values()
    assert found["vaulted"] == {"sudo": "hunter2sudo"}
    assert found["kairosdb_start_seconds"] == 77
    assert found["mitogen_via"] == "bastion"
    # And nobody else reads it.
    assert inventory.file("hosts").stat().st_mode & 0o077 == 0


def test_backups_go_where_the_inventory_says(tmp_path: Path) -> None:
    """They went to us-east-1 in silence, where the bucket is not."""
    file = given(tmp_path / "mine.yml")
    said = yaml.safe_load(file.read_text())
    told = {"aws_region": "eu-central-1", "results_bucket": "mine"}
    said["all"]["vars"] |= told
    file.write_text(yaml.safe_dump(said))
    brought(file)
    node = inventory.load("hosts").storage[0].vars
    assert {name: node.get(name) for name in told} == told


# Read if they are there: as a variable of its own, or as another host's.
READ = re.compile(
    r"(?:(?<![\w.|'\"])(?<!\| )|(?<=\]\.))([a-z_]\w*) *(?:\| *default\(|is (?:not )?(?:un)?defined)"
)
# Said by a verb to its playbook; the deploy's own, which follow from the plan; the way to a host.
NOT_OF_USERS = re.compile("operate_.*|target|points_port|ansible_.*")


def made_by(tree: Any) -> Iterator[str]:
    """What tasks register, set or are given."""
    if isinstance(tree, list):
        for each in tree:
            yield from made_by(each)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key in ("vars", "ansible.builtin.set_fact"):
                yield from value
            elif key == "register":
                yield value
            yield from made_by(value)


def test_an_inventory_may_say_all_that_roles_read_if_it_is_there() -> None:
    """What is not known is not taken over, and where it has a default nobody misses it."""
    files = [file for file in paths.ANSIBLE.rglob("*") if file.suffix in {".yml", ".j2"}]
    trees = [yaml.safe_load(file.read_text()) for file in files if file.suffix == ".yml"]
    expected = inventory.known_variables() | set(made_by(trees))
    unknown = {
        (name, str(file.relative_to(paths.ANSIBLE)))
        for file in files
        for name in READ.findall(file.read_text())
        if name not in expected and not NOT_OF_USERS.fullmatch(name)
    }
    assert unknown == set()


def test_evidence_has_no_secret_of_the_user_s_inventory(tmp_path: Path) -> None:
    brought(with_secrets(tmp_path / "mine.yml"))
    text = inventory.file("hosts").read_text()
    literal = text.replace("'{{ vaulted.sudo }}'", "hunter2word").replace("vaulted", "my_token")
    # Passwords may begin as paths do.
    as_paths = [literal.replace("hunter2", f"{first}hunter2") for first in "/~."]
    by_ssh = text.replace("bastion", "hunter2word -o ProxyCommand='sshpass -p hunter2 ssh b'")
    for written in (text, literal, *as_paths, by_ssh):
        assert "hunter2sudo" in written and (written is text or "hunter2word" in written)
        inventory.file("hosts").write_text(written)
        before = yaml.safe_load(written)["all"]["children"]["storage"]["hosts"]["storage-2"]
        (paths.target_dir("hosts") / "before-upgrade.yml").write_text(written)
        host = SimpleNamespace(name="hosts", inventory=SimpleNamespace(kairosdb=[]))
        files = evidence._known_here(cast(Deployed, host))
        for name in ("inventory.yml", "before-upgrade.yml"):
            assert b"hunter2" not in files[name]
            told = yaml.safe_load(files[name])["all"]["children"]["storage"]["hosts"]["storage-2"]
            # All the rest is worth having.
            changed = {key for key in before if told[key] != before[key]}
            assert changed <= {
                "ansible_become_password",
                "vaulted",
                "my_token",
                "mitogen_via",
            }
            assert told["ansible_ssh_private_key_file"] == "~/.ssh/id"
    assert b"hunter2" not in evidence.of_inventory("all: [hunter2")


# A storage node keeps its name and its address

MOVED = STORAGE | {"storage-2": {"address": "192.0.2.99", "rack": "rack2"}}
NOW = "192.0.2.99"


class Answers:
    """What hosts answer by ssh: whether the one that moved has data, and the others' ring."""

    def __init__(self) -> None:
        self.data: bool | None = False
        self.ring = {host["address"]: "UN" for host in STORAGE.values()}

    def run(self, host: Host, program: list[str], **_: Any) -> str:
        if program[-1] == "status":
            rows = [f"{state} {address} 1 KiB 16 ? x r" for address, state in self.ring.items()]
            return "\n".join(rows)
        assert (host.address, program[-1]) == (NOW, f"{host.vars['keyspaces_dir']}/system")
        if self.data is None:
            raise ssh.RemoteError("ssh failed")
        return "yes" if self.data else "no"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answers:
    """Three storage hosts that are deployed; what they answer."""
    found = Answers()
    monkeypatch.setattr(ssh, "run", found.run)
    brought(given(tmp_path / "mine.yml"))
    plan_file("hosts").write_text(planned().to_json())
    monkeypatch.setattr(deploy, "playbook", lambda *_, **__: None)
    deploy.apply(planned(), known.stack("kairosdb"), "deploy")
    return found


def brought(file: Path, **options: Any) -> dict[str, str]:
    """The storage hosts' addresses, once a deploy has had an inventory."""
    told = Options(file.parent, inventory=file, **options)
    of = Deployment(own.Own(), known.stack("kairosdb"), told, Console(quiet=True))
    deploy._machines(planned(), of, None)
    return addresses()


def addresses() -> dict[str, str]:
    return {host.name: host.address for host in inventory.load("hosts").storage}


def refused(file: Path) -> str:
    """What a deploy of an inventory says that is refused, and leaves the one of before."""
    before = inventory.file("hosts").read_text()
    with pytest.raises(UserError) as error:
        brought(file)
    assert inventory.file("hosts").read_text() == before
    return error.value.message


def test_a_dead_node_s_name_is_given_to_no_other_machine_by_a_deploy(
    answers: Answers, tmp_path: Path
) -> None:
    """With the tokens of the dead one, and without its data, it would answer for it."""
    file = given(tmp_path / "mine.yml", storage=MOVED)
    said = refused(file)
    assert said.startswith("storage-2 is the storage node at 192.0.2.2")
    assert "make operate VERB=replace TARGET=hosts LIMIT=storage-2" in said
    # Nor by one of before that did not finish, whose node it was that died.
    finished_file("hosts").unlink()
    assert refused(file) == said
    # What replaces it knows what it does.
    assert brought(file, let_go="storage-2")["storage-2"] == NOW
    # Nor one that does not answer, as a new one whose key is not known yet.
    answers.data = None
    assert refused(file) == said
    # Until it has joined a deploy does not.
    assert refused(file) == said
    members.joined("hosts", "storage-2")
    assert brought(file)["storage-2"] == NOW


def test_a_machine_that_moved_with_its_data_is_told_apart(answers: Answers, tmp_path: Path) -> None:
    answers.data = True
    said = refused(given(tmp_path / "mine.yml", storage=MOVED))
    assert "the same one, it seems" in said and "192.0.2.2 again" in said
    assert "replace" not in said


def test_one_that_the_ring_has_at_its_new_address_is_at_home_there(
    answers: Answers, tmp_path: Path
) -> None:
    """As a replacement leaves it of which a person has removed the note."""
    answers.data, answers.ring = True, answers.ring | {NOW: "UN"}
    file = given(tmp_path / "mine.yml", storage=MOVED)
    assert "the same one, it seems" in refused(file)
    del answers.ring["192.0.2.2"]
    assert brought(file)["storage-2"] == NOW


def test_a_storage_node_keeps_its_name(answers: Answers, tmp_path: Path) -> None:
    renamed = {name.replace("2", "7"): host for name, host in STORAGE.items()}
    file = given(tmp_path / "mine.yml", storage=renamed)
    assert "storage-2 (192.0.2.2) is a storage node of target hosts" in refused(file)
    # A verb that leaves one out, or has let one go.
    assert "storage-7" in brought(file, without=("storage-2",))


def test_an_address_that_was_wrong_is_put_right_before_the_node_has_joined(
    answers: Answers, tmp_path: Path
) -> None:
    (paths.target_dir("hosts") / "members.json").unlink()
    finished_file("hosts").unlink()
    assert brought(given(tmp_path / "mine.yml", storage=MOVED))["storage-2"] == NOW


def test_what_was_deployed_before_this_was_noted_is_known_by_its_inventory(
    answers: Answers, tmp_path: Path
) -> None:
    (paths.target_dir("hosts") / "members.json").unlink()
    assert "192.0.2.2" in refused(given(tmp_path / "mine.yml", storage=MOVED))
    # From now on it is.
    finished_file("hosts").unlink()
    assert "192.0.2.2" in refused(tmp_path / "mine.yml")
    assert brought(given(tmp_path / "mine.yml")) == members.read("hosts") == addresses()
