"""What `kairoscope --help` has, and what it leaves to Ansible's roles."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import psutil
import pytest
import yaml
from click.testing import CliRunner

from kairoscope import live, paths
from kairoscope.cli import operate
from kairoscope.cli.main import main
from kairoscope.cli.roles import role_commands
from kairoscope.deploy.building import tool
from kairoscope.errors import UserError
from kairoscope.hosts import deployed, operation, secret_files


def called_by_ansible() -> set[str]:
    """Top-level commands in the roles' and playbooks' argv."""
    found: set[str] = set()
    for path in [*paths.ANSIBLE.glob("roles/**/*.yml"), *paths.ANSIBLE.glob("playbooks/*.yml")]:
        text = path.read_text()
        found |= set(re.findall(r"argv: \[\"\{\{ kairoscope \}\}\", ([\w-]+)", text))
        found |= set(re.findall(r"- \"\{\{ kairoscope \}\}\"\n\s+- ([\w-]+)", text))
    return found


def test_what_roles_call_is_there_and_hidden() -> None:
    called = called_by_ansible()
    assert {"schema", "access", "check-conf"} <= called
    assert called - {"operate"} == {command.name for command in role_commands}
    shown = CliRunner().invoke(main, ["--help"]).output
    listed = set(re.findall(r"^  ([a-z-]+) ", shown.partition("Commands:")[2], re.MULTILINE))
    assert {"plan", "load", "experiment"} <= listed
    assert not called - {"operate"} & listed
    for name in called:
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_what_a_verb_starts_elsewhere_has_the_same_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ab` and `faults` start verbs in the checkout, and a deploy Ansible in its own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAIROSCOPE_HOME", "mine")
    monkeypatch.setenv("KAIROSCOPE_SECRETS", "secrets")
    home, secrets = paths.home(), secret_files.folder("local")
    assert CliRunner().invoke(main, ["experiment", "fields", "load"]).exit_code == 0
    monkeypatch.chdir(paths.CHECKOUT)
    assert (paths.home(), secret_files.folder("local")) == (home, secrets)


def test_a_build_ends_with_the_command_that_waits_for_it(tmp_path: Path) -> None:
    """By SIGTERM alone, which a terminal does not tell the build as well."""

    @click.command("build")
    def build() -> None:
        # Not at once: a signal within the start itself ends nothing.
        to_us = f"sleep 0.5; kill -TERM {os.getpid()}"
        script = f"echo $$ > {tmp_path}/pid; {to_us}; exec sleep 600"
        how = partial(live.stage, None, "building")
        tool.logged(tmp_path / "log", how, ["sh", "-c", script])

    before = signal.getsignal(signal.SIGTERM)
    main.add_command(build)
    try:
        done = CliRunner().invoke(main, ["build"])
    finally:
        del main.commands["build"]
    assert (done.exit_code, "interrupted; what was done stays" in done.output) == (2, True)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_account_that_nobody_names_is_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked for below the folder that the command was called from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(operate, "enter_kairosdb", lambda _: None)
    monkeypatch.setattr(deployed, "deployed_stack", lambda _: "kairosdb")
    account = operate._as_is("lab").of.options.account
    assert account == paths.CHECKOUT / "terraform" / "account.tfvars"


def test_what_lint_looks_at_a_commit_looks_at_too() -> None:
    makefile = (paths.CHECKOUT / "Makefile").read_text()
    lint = makefile.partition("\nlint:")[2].partition("\n\n")[0]
    tools = [*re.findall(r"\$\(BIN\)/(?:python )?([\w/.-]+)", lint), "lint-terraform"]
    assert {"ruff", "mypy", "scripts/holes.py", "ansible-lint"} <= set(tools)
    hooks = yaml.safe_load((paths.CHECKOUT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = [hook["entry"] for repo in hooks for hook in repo["hooks"]]
    assert not [tool for tool in tools if not any(tool in entry for entry in entries)]


def test_every_command_says_why_its_status_is_not_0() -> None:
    """All of them end by `leave`, as make says no more than that there was an error."""
    of_people = {path.name for path in (paths.CHECKOUT / "kairoscope" / "cli").glob("*.py")}
    for name in of_people - {"options.py"}:
        assert "sys.exit(" not in (paths.CHECKOUT / "kairoscope" / "cli" / name).read_text(), name


def test_fields_of_an_experiment() -> None:
    done = CliRunner().invoke(main, ["experiment", "fields", "limits"])
    assert done.exit_code == 0
    assert done.output.startswith("limits: what makes a run a pass.\n")


def test_what_a_command_needs_it_imports_itself() -> None:
    """Each of these takes a good part of a second, and roles call commands once for every host."""
    code = "import sys, kairoscope.cli.main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=paths.CHECKOUT
    )
    loaded = set(done.stdout.split())
    assert "click" in loaded
    assert not loaded & {"aiohttp", "cassandra", "matplotlib", "numpy", "pydantic", "scipy", "yaml"}


@pytest.mark.parametrize("verb", ["destroy", "bakeoff"])
def test_a_home_that_cannot_be_written_is_a_sentence(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", "/proc/nix")
    done = CliRunner().invoke(main, [verb])
    assert done.exit_code == 2
    assert "KAIROSCOPE_HOME /proc/nix: /proc cannot be written" in done.output
    assert "Set KAIROSCOPE_HOME= to a folder of yours." in done.output


def test_a_lock_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "change.lock"
    path.mkdir()
    with (
        pytest.raises(UserError, match=r"change.lock cannot be written \(Is a directory\)"),
        operation.hold(path, "somebody"),
    ):
        pass
