"""What a verb leaves that was interrupted, or that failed, and how the next command goes on.

The playbooks and roles themselves, by Ansible, on hosts that are made up: this machine with
stand-ins for the programs that they would call there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kairoscope import paths

# Each notes what it was told. The state of its server is in a file, as systemd has it.
PROGRAMS = {
    "systemctl": """
unit=$(cat unit)
case "$1" in
  is-active) cat state; grep -qx active state ;;
  is-enabled) cat enabled; grep -qx enabled enabled ;;
  show)
    if [ -z "$unit" ]; then echo LoadState=not-found; exit 0; fi
    echo "LoadState=loaded"; echo "ActiveState=$(cat state)" ;;
  start) if [ -e start-fails ]; then echo "A dependency job for $2 failed." >&2; exit 1; fi
    echo active > state ;;
  stop) echo inactive > state ;;
  disable) echo disabled > enabled ;;
esac
""",
    "nft": 'if [ "$1" = delete ] && [ ! -e shut ]; then echo "No such file" >&2; exit 1; fi\n'
    'if [ "$1" = delete ]; then rm shut; else cat > shut; fi\n',
    # As the playbooks call it on the control machine: what it is told to say, by the verb.
    "kairoscope": 'if [ -e "fails-$2" ]; then cat "fails-$2" >&2; exit 1; fi\n',
}


class MadeUp:
    """A host, and Ansible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name, script in PROGRAMS.items():
            self.program(name, script)
        self.has(state="active", enabled="enabled", unit="kairosdb", calls="")
        (folder / "plan.json").write_text("{}")

    def program(self, name: str, script: str) -> None:
        """Have a stand-in of a program; it runs in the host's folder."""
        path = self.bin / name
        head = f'#!/bin/sh\ncd "{self.folder}"\necho "{name} $*" >> calls\n'
        path.write_text(head + script)
        path.chmod(0o755)

    def has(self, **files: str) -> None:
        for name, content in files.items():
            (self.folder / name.replace("_", "-")).write_text(content + "\n")

    def is_(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    def calls(self, *of: str) -> list[str]:
        """What was called of some programs, without what only looks."""
        looks = ("is-active", "is-enabled", "show", "list")
        lines = (self.folder / "calls").read_text().splitlines()
        return [
            line
            for line in lines
            if line and line.split()[0] in of and line.split()[1] not in looks
        ]

    def play(
        self, playbook: Path, groups: dict[str, list[str]], told: dict[str, Any], **given: Any
    ) -> tuple[int, str]:
        """Run a playbook; all hosts of the groups are this machine.

        `told`: as a verb tells it; `given`: by the inventory. Exit status, and what it said, on one
        line.
        """
        of_all = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "managed": True,
            "secured": False,
            "service_manager": "systemd",
            "plan_file": str(self.folder / "plan.json"),
            "inventory_file": str(self.folder / "inventory.json"),
            "kairoscope": str(self.bin / "kairoscope"),
            "unit": "kairosdb",
            "target": "lab",
            "http_port": 8080,
            "telnet_port": 4242,
            **given,
        }
        children = {
            group: {"hosts": {name: {} for name in names}} for group, names in groups.items()
        }
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"vars": of_all, "children": children}}))
        tool = Path(sys.executable).with_name("ansible-playbook")
        done = subprocess.run(
            [tool, "-i", inventory, "--extra-vars", json.dumps(told), playbook],
            env=os.environ
            | {
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "ANSIBLE_GATHERING": "explicit",
                "ANSIBLE_HOME": str(self.folder / "ansible"),
                "ANSIBLE_ROLES_PATH": str(paths.ANSIBLE / "roles"),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).replace("\\n", " ").split())


@pytest.fixture
def made_up(tmp_path):
    return MadeUp(tmp_path)


# A KairosDB node that is removed


def remove(made_up: MadeUp) -> tuple[int, str]:
    """Its playbook on one of two nodes."""
    return made_up.play(
        paths.ANSIBLE / "playbooks" / "remove-kairosdb.yml",
        {"kairosdb": ["kairosdb-1", "kairosdb-2"]},
        {"operate_host": "kairosdb-2"},
    )


DRAINED = "operate await-drained"


@pytest.mark.parametrize("state", ["active", "activating", "inactive"])
def test_one_that_does_not_run_is_started_and_drained_before_it_ends(made_up, state):
    """What it has acknowledged is on its disk, and would go with it."""
    made_up.has(state=state, fails_check_empty="Error: kairosdb-2: 7 points are in its queue")
    status, said = remove(made_up)
    assert status == 0, said
    (drained,) = [call for call in made_up.calls("kairoscope") if DRAINED in call]
    assert drained.endswith("--for-good")
    acts = made_up.calls("systemctl", "kairoscope")
    before = [call for call in acts[: acts.index(drained)] if call.startswith("systemctl")]
    stopped_and_started = ["systemctl stop kairosdb.service", "systemctl start kairosdb.service"]
    if state == "active":
        assert before == []
    else:
        assert before == stopped_and_started[state == "inactive" :]
    assert (made_up.is_("state"), made_up.is_("enabled")) == ("inactive", "disabled")


def test_one_that_does_not_start_stays_with_what_it_has(made_up):
    """Its mount is missing, for example."""
    made_up.has(state="failed", fails_check_empty="Error: kairosdb-2: 7 points are in its queue")
    made_up.has(start_fails="")
    status, said = remove(made_up)
    assert status != 0
    assert "kairosdb-2 does not start, and with its host would go what it has acknowledged" in said
    assert "kairosdb-2: 7 points are in its queue. Mend that (journalctl -u kairosdb" in said
    assert made_up.is_("enabled") == "enabled"


def test_a_machine_that_knows_no_kairosdb_is_not_one_with_nothing(made_up):
    """Somebody has put another one in its place, or has made it anew."""
    made_up.has(state="inactive", unit="")
    status, said = remove(made_up)
    assert status != 0
    assert "kairosdb-2 does not start" in said
    assert "what waits there is not known. Mend that" in said


def test_a_drain_that_fails_again_ends_nothing(made_up):
    made_up.has(state="activating", fails_check_empty="Error: not known")
    made_up.has(fails_await_drained="Error: kairosdb-2 after 300 s: it does not answer")
    status, said = remove(made_up)
    assert status != 0
    assert "kairosdb-2 after 300 s: it does not answer" in said
    assert (made_up.is_("state"), made_up.is_("enabled")) == ("active", "enabled")


def test_one_whose_queue_was_emptied_by_hand_need_not_start(made_up):
    made_up.has(state="activating", start_fails="")
    status, said = remove(made_up)
    assert status == 0, said
    assert not any(DRAINED in call for call in made_up.calls("kairoscope"))
    assert (made_up.is_("state"), made_up.is_("enabled")) == ("inactive", "disabled")
