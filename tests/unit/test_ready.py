"""What is refused before there is a package, a plan or a driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kairoscope import experiment, paths, ready
from kairoscope.cli import known
from kairoscope.cli.main import main
from kairoscope.cli.operate import operate_commands
from kairoscope.deploy import deploy, preflight
from kairoscope.hosts.inventory import GROUPS, Inventory
from kairoscope.targets.target import Options


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
    said = refused("setup", "lokal", "lapptop", "rebalance")
    assert "TARGET 'lokal' is not known. There are: aws, hosts, lab, local" in said
    assert "EXPERIMENT 'lapptop' is not known. There are:" in said
    assert "laptop" in said.splitlines()[1].partition("There are: ")[2]
    assert "VERB 'rebalance' is not known. There are: add-kairosdb," in said


def test_it_knows_the_names_that_the_program_knows():
    assert sorted(ready.TARGETS) == sorted(one.name for one in known.TARGETS)
    verbs = {name for name, command in operate_commands.commands.items() if not command.hidden}
    assert sorted(ready.VERBS) == sorted(verbs)


def test_it_asks_of_the_default_experiment_what_the_preflight_asks():
    made = known.plan(experiment.load(ready.DEFAULT_EXPERIMENT), "local")
    needed = ready.DEFAULT_MEMORY_MIB
    assert preflight.memory_problem(made, needed) is None
    assert preflight.memory_problem(made, needed - 1)
    needed = ready.DEFAULT_DISK_MIB * 2**20
    assert preflight.disk_problem(made, needed, Path("/")) is None
    assert preflight.disk_problem(made, needed - 2**20, Path("/"))


def test_it_looks_at_the_ports_that_are_listened_on(monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", "127.0.9")
    made = known.plan(experiment.load(ready.DEFAULT_EXPERIMENT), "local")
    where, what = known.target("local"), known.stack(made.stack)
    hosts = deploy.servers_here(made, where, what, Options(Path("x")))
    of_role = {role: [host for host in hosts if host.role == role] for role in GROUPS}
    listeners = preflight.listeners(Inventory(Path("/nowhere"), *of_role.values()))
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
        said = refused("setup", "local", "laptop", "", KAIROSCOPE_HOME=str(home))
        assert f"{file} is a file, and no folder" in said
        assert "Traceback" not in said
    assert file.read_text() == ""


def test_a_home_that_cannot_be_written():
    said = refused("setup", "local", "laptop", "", KAIROSCOPE_HOME="/proc/kairoscope")
    assert "/proc cannot be written" in said


def test_a_home_folder_that_is_none(tmp_path):
    said = refused(
        "setup", "local", "laptop", "", HOME="/proc/nobody", KAIROSCOPE_HOME=str(tmp_path)
    )
    assert "your home folder /proc/nobody" in said


def test_nothing_is_left_where_it_could_be_written(tmp_path):
    assert ready.home_problem(tmp_path / "new" / "home") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["plan"], ["status"], ["operate", "repair"], ["queue", "show"]]
)
def test_every_command_refuses_a_home_that_is_a_file(tmp_path, monkeypatch, command):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("KAIROSCOPE_HOME", str(file))
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert f"{file} is a file" in done.output


@pytest.mark.parametrize("group", [[], ["operate"], ["queue"]])
def test_a_verb_that_is_none_is_told_with_those_that_are(group):
    done = CliRunner().invoke(main, [*group, "frobnicate"])
    assert done.exit_code == 2
    assert "there is no verb 'frobnicate'. There are: " in done.output


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
