"""What is refused before there is a package, a plan or a driver."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from pydantic import BaseModel
from rich.console import Console

from kairoscope import experiment, paths, ready
from kairoscope.cli import known
from kairoscope.cli.main import main
from kairoscope.cli.operate import operate_commands
from kairoscope.deploy import deploy, preflight
from kairoscope.errors import UserError
from kairoscope.experiment.schema.load import Load
from kairoscope.experiment.schema.storage import Storage
from kairoscope.hosts import operation
from kairoscope.hosts.inventory import GROUPS, Inventory
from kairoscope.plan import Plan
from kairoscope.targets.target import Options

LAPTOP = ("TARGET=local", "EXPERIMENT=laptop")


def refused(*arguments: str, **environment: str) -> str:
    """What the script says, with nothing but the standard library; it must refuse."""
    script = paths.CHECKOUT / "kairoscope" / "ready.py"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-B", str(script), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_unknown_names_are_told_with_the_known_ones():
    said = refused("setup", "TARGET=lokal", "EXPERIMENT=lapptop", "VERB=rebalance")
    assert "TARGET 'lokal' is not known. There are: aws, hosts, lab, local" in said
    assert "EXPERIMENT 'lapptop' is not known. There are:" in said
    assert "laptop" in said.splitlines()[1].partition("There are: ")[2]
    assert "VERB 'rebalance' is not known. There are: add-kairosdb," in said


def test_it_knows_the_names_that_the_program_knows():
    assert sorted(ready.TARGETS) == sorted(one.name for one in known.TARGETS)
    verbs = {name for name, command in operate_commands.commands.items() if not command.hidden}
    assert sorted(ready.VERBS) == sorted(verbs)
    engines, _none = get_args(_allowed(Storage, "engine"))
    assert sorted(ready.ENGINES) == sorted(get_args(engines))
    assert sorted(ready.PROTOCOLS) == sorted(get_args(_allowed(Load, "protocol")))


def _allowed(section: type[BaseModel], field: str) -> Any:
    return section.model_fields[field].annotation


def test_what_is_no_number_and_no_name_is_told_before_anything_is_set_up():
    wrong = ("SENSORS=abc", "RATE=-1", "DURATION=90s", "ENGINE=foo", "PROTOCOL=http")
    said = refused("setup", *LAPTOP, *wrong).splitlines()
    assert len(said) == len(wrong)
    assert "SENSORS 'abc' is no number of sensors, such as 2000" in said[2]
    assert "ENGINE 'foo' is not known. There are: cassandra, scylla" in said[0]
    assert "PROTOCOL 'http' is not known. There are: cql, line" in said[1]
    fine = ("SENSORS=1,000,000", "RATE=0.5", "DURATION=", "ENGINE=scylla", "PROTOCOL=rest")
    given = dict(each.split("=") for each in (*LAPTOP, *fine))
    assert list(ready.name_problems(given)) == []


def test_of_two_experiments_each_is_looked_for():
    said = refused("series", *LAPTOP, "A=laptop", "WITH=lapptop")
    assert said.startswith("error: WITH 'lapptop' is not known.")
    assert said.count("error:") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["TARGET=hosts"], "TARGET hosts needs INVENTORY="),
        (["TARGET=hosts", "INVENTORY=/no.yml"], "INVENTORY /no.yml: there is no such file"),
        (["TARGET=aws", "ACCOUNT=/no.tfvars"], "ACCOUNT /no.tfvars: there is no such file"),
        (["TARGET=local", "ENGINE=scylla"], ready.SCYLLA_PAGE),
        (["TARGET=local", "SCYLLA=/no.tar.gz"], "SCYLLA /no.tar.gz: there is no such file"),
        (["TARGET=local", "ENGINE=scylla"], "ENGINE=scylla on target local needs SCYLLA="),
    ],
)
def test_what_a_deploy_takes_and_was_not_given(tmp_path, given, said):
    given = ["EXPERIMENT=laptop", *given]
    assert said in refused("deploy", *given, KAIROSCOPE_HOME=str(tmp_path))
    values = dict(each.split("=") for each in given)
    assert said not in "\n".join(ready.problems("setup", values))


def test_a_lab_is_made_by_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (said,) = ready.given_problems({"TARGET": "lab"}, first=True)
    assert "it needs root" in said
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert list(ready.given_problems({"TARGET": "lab"}, first=True)) == []


def test_a_deployed_target_remembers_its_server():
    given = {"TARGET": "local", "ENGINE": "scylla", "SCYLLA": ""}
    assert list(ready.given_problems(given, first=False)) == []


@pytest.mark.parametrize(
    ("what", "given", "asked"),
    [
        ("deploy", {}, [True]),
        ("deploy", {"SENSORS": "10"}, [False]),
        ("series", {}, [False]),
        ("setup", {}, []),
    ],
)
def test_memory_and_disk_are_asked_for_the_default_experiment_alone(
    monkeypatch, tmp_path, what, given, asked
):
    seen = []
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    monkeypatch.setattr(ready, "machine_problems", lambda *, default: seen.append(default) or ())
    ready.problems(what, {"TARGET": "local", "EXPERIMENT": "laptop", **given})
    assert seen == asked


@pytest.mark.parametrize("target", known.TARGETS, ids=lambda target: target.name)
def test_what_is_not_given_is_refused_before_anything_is_built(tmp_path, monkeypatch, target):
    def refuse(_: Options, plan: Plan | None = None) -> None:
        raise UserError("not given")

    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(target, "check_given", refuse)
    monkeypatch.setattr(deploy, "_bundles", lambda _: pytest.fail("built"))
    made = known.plan(experiment.load("laptop"), "hosts").model_copy(update={"target": target.name})
    of = deploy.Deployment(target, known.stack(made.stack), Options(tmp_path), Console())
    with pytest.raises(UserError, match="not given"):
        deploy.deploy(made, of)
    if target.managed:
        with pytest.raises(UserError, match="not given"):
            deploy.provision(made, of)
        with operation.alone(target.name):
            with pytest.raises(UserError, match="is being changed by"):
                deploy.provision(made, of)
            operation.begin(target.name, operation.Operation("add-storage"))
        with pytest.raises(UserError, match="add-storage"):
            deploy.provision(made, of)


def test_the_lab_asks_for_root_where_it_is_asked_what_it_lacks(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="it needs root"):
        known.target("lab").check_given(Options(tmp_path))


def test_it_asks_of_the_default_experiment_what_the_preflight_asks():
    made = known.plan(experiment.load(ready.DEFAULT_EXPERIMENT), "local")
    needs = known.stack(made.stack).needs(made)
    needed = ready.DEFAULT_MEMORY_MIB
    assert preflight.memory_problem(made, needs.memory, needed) is None
    assert preflight.memory_problem(made, needs.memory, needed - 1)
    needed = ready.DEFAULT_DISK_MIB * 2**20
    assert preflight.disk_problem(made, needs, needed, Path("/")) is None
    assert preflight.disk_problem(made, needs, needed - 2**20, Path("/"))


def test_it_looks_at_the_ports_that_are_listened_on(monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", "127.0.9")
    made = known.plan(experiment.load(ready.DEFAULT_EXPERIMENT), "local")
    where, what = known.target("local"), known.stack(made.stack)
    hosts = deploy.servers_here(made, where, what, Options(Path("x")))
    of_role = {role: [host for host in hosts if host.role == role] for role in GROUPS}
    listeners = preflight.listeners(what, Inventory(Path("/nowhere"), *of_role.values()))
    of_first = {one.port for one in listeners if one.address == "127.0.9.1"}
    assert set(ready.PORTS) == of_first


@pytest.mark.parametrize("taken", [("127.0.9.1", 8080), ("0.0.0.0", 8080)])  # noqa: S104
def test_a_taken_port(taken):
    said = ready.port_problem("127.0.9", {taken, ("127.0.9.2", 9042), ("127.0.9.1", 22)})
    assert said
    assert "8080 (REST)." in said
    assert "KAIROSCOPE_LOCAL_NET" in said
    assert ready.port_problem("127.0.9", {("127.0.0.1", 8080)}) is None


def test_who_listens_is_read_from_the_kernel(tmp_path):
    head = "  sl  local_address rem_address   st\n"
    (tmp_path / "tcp").write_text(
        f"{head}   0: 0100007F:2352 00000000:0000 0A\n   1: 0200007F:2352 0100007F:1000 01\n"
    )
    (tmp_path / "tcp6").write_text(
        f"{head}   0: 00000000000000000000000000000000:1F90 {'0' * 32}:0000 0A\n"
        f"   1: 0000000000000000FFFF00000107007F:1092 {'0' * 32}:0000 0A\n"
    )
    assert ready.listening(tmp_path) == {
        ("127.0.0.1", 9042),
        ("0.0.0.0", 8080),  # noqa: S104
        ("127.0.7.1", 4242),
    }


@pytest.mark.parametrize("name", ["a blank", "quo'te", "dol$lar"])
def test_a_checkout_that_no_command_line_can_carry(name):
    said = ready.checkout_problem(Path("/home", name, "kairoscope"))
    assert said
    assert "Move it" in said
    assert ready.checkout_problem(Path("/home/a_b/kairoscope-1.0")) is None


def test_a_home_that_is_a_file(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for home in (file, file / "below"):
        said = refused("setup", *LAPTOP, KAIROSCOPE_HOME=str(home))
        assert f"{file} is a file, and no folder" in said
        assert "Traceback" not in said
    assert file.read_text() == ""


def test_a_home_that_cannot_be_written():
    said = refused("setup", *LAPTOP, KAIROSCOPE_HOME="/proc/kairoscope")
    assert "/proc cannot be written" in said


def test_a_home_folder_that_is_none(tmp_path):
    said = refused("setup", *LAPTOP, HOME="/proc/nobody", KAIROSCOPE_HOME=str(tmp_path))
    assert "your home folder /proc/nobody" in said


@pytest.mark.parametrize(
    ("theirs", "order"),
    [
        (".venv", "sudo chown -R {uid} {checkout}/.venv"),
        (".kairoscope/bundles/maven.log", "sudo chown -R {uid} {checkout}/.kairoscope/bundles"),
        (
            "kairosdb-conf/plugin/target/classes/a",
            "sudo chown -R {uid} {checkout}/kairosdb-conf/plugin/target",
        ),
        (
            "kairosdb-conf/bundles/x/target/b",
            "sudo chown -R {uid} {checkout}/kairosdb-conf/bundles/x/target",
        ),
        (".kairoscope", "sudo chown {uid} {checkout}/.kairoscope"),
    ],
)
def test_what_root_has_built_in_a_users_clone(tmp_path, monkeypatch, theirs, order):
    """By `sudo make … TARGET=lab`; later the user's own make ended in tracebacks."""
    for name in ("kairosdb-conf/plugin/target/classes/a", "kairosdb-conf/bundles/x/target/b"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".kairoscope" / "bundles").mkdir(parents=True)
    (tmp_path / ".kairoscope" / "bundles" / "maven.log").write_text("")
    monkeypatch.setattr(ready, "CHECKOUT", tmp_path)
    assert ready.owner_problem(tmp_path, {"TARGET": "local"}) is None

    # As a user who may write all but what is theirs; the tests may be root's, who may all.
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path / theirs)
    (problem,) = ready.problems("setup", {"TARGET": "nowhere"})
    assert problem.endswith(f"First: {order.format(uid=4711, checkout=tmp_path)}")
    # A checkout that another one has set up for many.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert ready.owner_problem(tmp_path, {"TARGET": "local"}) is None


BY_ROOT = ("java-17.0.15.tar", "jlink.log", "monitoring", "monitoring-1.tar", "node-exporter-1.tar")


@pytest.mark.parametrize("name", BY_ROOT)
def test_what_only_other_targets_need_is_roots_for_all_that_a_user_does(
    tmp_path, monkeypatch, name
):
    """`make demo TARGET=local` was refused after `sudo make deploy TARGET=lab`."""
    made = tmp_path / ".kairoscope" / "bundles" / name
    made.parent.mkdir(parents=True)
    made.write_text("")
    monkeypatch.setattr(ready, "CHECKOUT", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != made)

    def refuses(**given: str) -> bool:
        return "made by another user" in str(ready.problems("setup", given)[:1])

    assert not refuses(TARGET="local", MONITORING="false")
    assert not refuses(TARGET="local")
    assert refuses(TARGET="hosts")
    monitored = not name.startswith(("java", "jlink"))
    assert refuses(TARGET="local", MONITORING="true") is monitored


def test_what_a_build_removes_meanwhile_is_no_trouble(tmp_path, monkeypatch):
    """It ended in a traceback beside Maven in another terminal."""
    gone = tmp_path / "kairosdb-conf" / "plugin" / "target" / "classes"
    gone.mkdir(parents=True)
    scan = os.scandir

    def scandir(path: str | Path = ".") -> Any:
        if Path(path) == gone:
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert ready.owner_problem(tmp_path, {"TARGET": "local"}) is None


def test_nothing_is_left_where_it_could_be_written(tmp_path):
    assert ready.home_problem(tmp_path / "new" / "home") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["plan"], ["status"], ["operate", "repair"], ["queue", "inspect"]]
)
def test_every_command_refuses_a_home_that_is_a_file(tmp_path, monkeypatch, command):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("KAIROSCOPE_HOME", str(file))
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert f"{file} is a file" in done.output


def test_a_home_that_is_a_file_is_called_what_it_is(tmp_path, monkeypatch):
    """It was called KAIROSCOPE_HOME where nobody had set that."""
    (tmp_path / "home").write_text("")
    monkeypatch.delenv("KAIROSCOPE_HOME", raising=False)
    monkeypatch.setattr(paths, "home", lambda: tmp_path / "home")
    done = CliRunner().invoke(main, ["plan"])
    assert done.exit_code == 2
    assert f"the folder of deployments {tmp_path / 'home'}: " in done.output
    assert "is a file" in done.output


@pytest.mark.parametrize("group", [[], ["operate"], ["queue"], ["lab"], ["experiment"]])
def test_a_verb_that_is_none_is_told_with_those_that_are(group):
    done = CliRunner().invoke(main, [*group, "frobnicate"])
    assert done.exit_code == 2
    assert "there is no verb 'frobnicate'. There are: " in done.output
    told = done.output.partition("There are: ")[2].strip().split(", ")
    there = operate_commands if group == ["operate"] else main
    only_of_roles = {name for name, command in there.commands.items() if command.hidden}
    assert only_of_roles
    assert not only_of_roles & set(told)


@pytest.mark.parametrize("command", [["plan"], ["status"], ["operate", "repair"]])
def test_a_target_that_is_none_is_told_with_those_that_are(command):
    done = CliRunner().invoke(main, [*command, "--target", "lokal"])
    assert done.exit_code == 2
    listed = done.output.partition("There are: ")[2]
    assert sorted(listed.strip().split(", ")) == sorted(ready.TARGETS)


def test_paths_of_target_local():
    assert ready.path_problem(Path("/home/a_b/kairoscope-1.0/local")) is None
    for bad in ("/home/a b/local", "/home/100%/local", "/home/a'b/local", "/" + "x" * 100):
        assert ready.path_problem(Path(bad)) is not None
