"""The scripts that run before there is a package."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from kairoscope import paths
from kairoscope.cli import options
from kairoscope.hosts import operation

SCRIPTS = paths.CHECKOUT / "scripts"


def narrate(log: object, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPTS / "narrate"), "doing it, some seconds", str(log), "sh", "-c", command],
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_command_prints_goes_to_its_log_only(tmp_path):
    log = tmp_path / "new" / "log"
    done = narrate(log, "echo DEPRECATION: something >&2; echo more")
    assert (done.returncode, done.stdout, done.stderr) == (0, "doing it, some seconds …\n", "")
    assert log.read_text() == "DEPRECATION: something\nmore\n"


def test_a_command_that_fails_shows_its_end_and_keeps_its_status(tmp_path):
    log = tmp_path / "log"
    done = narrate(log, "seq 100; echo no such package >&2; exit 7")
    assert done.returncode == 7
    assert done.stderr.count("\n") < 25
    assert "no such package" in done.stderr
    assert str(log) in done.stderr
    assert log.read_text().startswith("1\n2\n")


def test_what_no_package_has_is_missed_before_others_are_installed(tmp_path):
    """Terraform is in no Debian: that is said before minutes of apt and pip."""
    for name in ("bash", "cat", "env", "grep", "id"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    for name in ("apt-get", "sudo"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)

    def checked(*tools):
        command = [str(SCRIPTS / "need"), "--check", *tools]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)}
        )

    assert checked("maven").returncode == 0
    done = checked("maven", "terraform")
    assert done.returncode == 1
    assert "Terraform 1.11 or newer is missing" in done.stderr
    assert "maven" not in done.stderr


def programs(folder, **texts):
    """A PATH of these shell scripts, and of what the scripts use of the system."""
    for name in ("bash", "cat", "env", "dirname", "grep", "mkdir", "mktemp", "rm", "sleep", "tail"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "TMPDIR": str(folder)}


def need(environment, *tools):
    command = [str(SCRIPTS / "need"), *tools]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_all_that_is_missing_is_named(tmp_path):
    done = need(programs(tmp_path), "maven", "terraform", "ssh")
    assert done.returncode == 1
    for what in ("Maven (mvn) is missing", "Terraform 1.11", "the SSH client (ssh) is missing"):
        assert what in done.stderr


def test_apt_waits_for_another_apt(tmp_path):
    """As that of a new machine, which installs its updates: the lists are locked, then not."""
    apt = f"""
if [ "$2" != update ]; then echo "$*" > {tmp_path}/called; ln -s /bin/true {tmp_path}/mvn
elif [ ! -e {tmp_path}/tried ]; then
  : > {tmp_path}/tried; echo 'E: Could not get lock /var/lib/apt/lists/lock.' >&2; exit 100
fi"""
    tools = {"apt-get": apt, "id": "echo 0", "ln": 'exec /usr/bin/ln "$@"'}
    done = need(programs(tmp_path, **tools), "maven")
    assert done.returncode == 0, done.stderr
    assert "DPkg::Lock::Timeout=300" in (tmp_path / "called").read_text()
    assert not list(tmp_path.glob("kairoscope-apt.*"))


def test_apt_that_fails_otherwise_is_told_at_once(tmp_path):
    tools = {"apt-get": "echo 'E: no way there' >&2; exit 100", "id": "echo 0"}
    done = need(programs(tmp_path, **tools), "maven")
    assert done.returncode == 1
    assert "E: no way there" in done.stderr
    assert "Maven (mvn) is missing" in done.stderr


def test_sudo_leaves_apt_its_proxy(tmp_path):
    told = tmp_path / "told"
    tools = {"sudo": f'echo "$*" >> {told}', "id": "echo 1000", "apt-get": ""}
    environment = programs(tmp_path, **tools)
    need(environment, "maven")
    assert "--preserve-env" not in told.read_text()
    told.unlink()
    need(environment | {"http_proxy": "http://proxy.example:3128"}, "maven")
    asked, installed = told.read_text().splitlines()
    for line in (asked, installed):
        assert line.startswith("-n --preserve-env=http_proxy,https_proxy,no_proxy ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_command_has_started_ends_with_it(tmp_path, number):
    """As apt-get below its shell, which went on and held its lock."""
    started = tmp_path / "started"
    line = f"bash -c 'echo $$ > {started}; exec sleep 300'; echo goes on"
    process = subprocess.Popen(
        [str(SCRIPTS / "narrate"), "doing it", str(tmp_path / "log"), "sh", "-c", line],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    while not (started.exists() and started.read_text()):
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(10) == -number
    assert process.stderr and process.stderr.read() == b""
    left = int(started.read_text())
    for _ in range(250):
        if not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.02)
    else:
        pytest.fail("it runs still")
    assert "goes on" not in (tmp_path / "log").read_text()


def make(*words):
    return subprocess.run(
        ["make", "-C", str(paths.CHECKOUT), *words], capture_output=True, text=True, check=False
    )


def test_a_verb_that_is_none_is_told_with_those_that_are():
    done = make("frobnicate")
    assert done.returncode == 2
    assert "there is no such verb. There are: demo plan deploy" in done.stderr


def test_a_target_that_is_none_is_refused_before_anything_is_set_up():
    done = subprocess.run(
        ["make", "-C", str(paths.CHECKOUT), "-n", "demo", "TARGET=lokal"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    ready = next(i for i, line in enumerate(lines) if "scripts/ready" in line and "lokal" in line)
    setting_up = ("venv", "pip", "kairoscope deploy")
    assert not any(word in line for line in lines[:ready] for word in setting_up)


@pytest.mark.parametrize("verb", ["demo", "deploy", "search", "ab", "faults"])
def test_a_server_of_ones_own_reaches_each_verb_that_deploys(verb):
    given = ["TARGET=local", "ENGINE=scylla", "SCYLLA=my server"]
    done = subprocess.run(
        ["make", "-C", str(paths.CHECKOUT), "-n", verb, *given],
        capture_output=True,
        text=True,
        check=True,
    )
    called = done.stdout.replace("\\\n", " ").splitlines()
    (line,) = [line for line in called if f"bin/kairoscope {verb} " in line]
    assert "--scylla 'my server'" in line
    assert "--engine 'scylla'" in line


def test_a_server_of_ones_own_is_found_from_another_folder():
    file = Path("my.tar.gz")
    given = options.host_arguments(Path("account"), None, None, file)
    assert given[given.index("--scylla") + 1] == str(file.absolute())
    assert "--scylla" not in options.host_arguments(Path("account"), None, None, None)


@pytest.mark.parametrize(
    ("verb", "what_for"),
    [
        *(("demo", "deploy"), ("deploy", "deploy"), ("search", "deploy"), ("setup", "setup")),
        *(("ab", "series"), ("bakeoff", "series"), ("faults", "series")),
    ],
)
def test_each_verb_that_deploys_is_refused_before_anything_is_set_up(verb, what_for):
    done = subprocess.run(
        ["make", "-C", str(paths.CHECKOUT), "-n", verb, "TARGET=hosts", "INVENTORY=my.yml"],
        capture_output=True,
        text=True,
        check=True,
    )
    first = next(line for line in done.stdout.splitlines() if "scripts/ready" in line)
    assert f"' {what_for} 'TARGET=hosts'" in first
    assert "'INVENTORY=my.yml'" in first


def dry(*words):
    done = make("-n", *words)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_what_scales_an_experiment_reaches_each_verb_that_runs_it():
    scaled = ("SENSORS=7", "RATE=2", "DURATION=50", "PROTOCOL=telnet-put")
    for verb in (["demo"], ["deploy"], ["load"], ["faults"], ["ab", "A=laptop", "WITH=fleet"]):
        said = dry(*verb, *scaled)
        for option in ("--sensors '7'", "--rate '2'", "--duration '50'", "--protocol 'telnet-put'"):
            assert option in said, (verb, option)


def test_the_experiment_that_is_asked_for_is_the_one_of_the_faults():
    assert "kairoscope faults 'laptop'" in dry("faults", "EXPERIMENT=laptop")
    assert "kairoscope faults --target" in dry("faults")


def test_a_search_says_that_it_scales_by_itself():
    done = make("search", "SENSORS=7")
    assert done.returncode == 2
    assert "make search scales the experiment by itself (FROM=, TO=)" in done.stderr


def test_an_environment_that_cannot_run_here_is_made_anew(tmp_path):
    """Its programs name the folder it was made in; its Python is a link to the system's."""
    for name in ("requirements.lock", "pyproject.toml", "scripts/need", "Makefile"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(paths.CHECKOUT / name, tmp_path / name)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"

    def made_anew(where: Path, runs: str) -> bool:
        (venv / "pyvenv.cfg").write_text(f"command = /usr/bin/python3 -m venv --clear {where}\n")
        python.unlink(missing_ok=True)
        python.symlink_to(runs)
        (venv / "installed").touch()
        line = ["make", "-C", str(tmp_path), "-n", "plan"]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        assert not done.stderr
        return "-m venv --clear .venv" in done.stdout

    assert not made_anew(venv, "/bin/true")
    assert made_anew(tmp_path / "before" / ".venv", "/bin/true")
    assert made_anew(venv, "/usr/bin/python3.0")
    assert made_anew(venv, "/bin/false")  # As a Python that finds none of its packages.


@pytest.fixture
def clone(tmp_path):
    """One in which set-up takes a second, and writes down what it does."""
    for name in ("requirements.lock", "pyproject.toml", "Makefile"):
        shutil.copyfile(paths.CHECKOUT / name, tmp_path / name)
    python = tmp_path / "python"
    # As `-m venv --clear .venv` makes one, by a script that is its own programs too.
    python.write_text(f"""#!/bin/bash
if [ "$2" = venv ]; then
  echo began >> {tmp_path}/done; sleep 1
  mkdir -p .venv/bin; cp {tmp_path}/python .venv/bin/python; cp {tmp_path}/python .venv/bin/pip
  cp {tmp_path}/python .venv/bin/kairoscope
  echo "command = x $PWD/.venv" > .venv/pyvenv.cfg; echo ended >> {tmp_path}/done
fi
""")
    (tmp_path / "scripts").mkdir()
    for name, does in (("need", f"echo {python}"), ("ready", ""), ("narrate", 'shift 2; "$@"')):
        (tmp_path / "scripts" / name).write_text(f"#!/bin/bash\n{does}\n")
    for script in (python, *(tmp_path / "scripts").iterdir()):
        script.chmod(0o755)
    return tmp_path


def begun(clone):
    kept = {name: it for name, it in os.environ.items() if name != "KAIROSCOPE_HOME"}
    line = ["make", "-C", str(clone), "plan"]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=kept)


def test_two_that_set_up_at_once_do_it_one_after_the_other(clone):
    """Each removed under the other what it had installed."""
    both = [begun(clone) for _ in range(2)]
    said = [process.communicate(timeout=60)[0].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert (clone / "done").read_text() == "began\nended\n"
    assert sum("another make sets up in this folder: waiting" in text for text in said) == 1
    assert not any("up to date" in text for text in said)


@pytest.mark.parametrize("name", ["change", "series", "load"])
def test_no_environment_is_made_anew_under_what_runs_by_it(clone, name):
    """As after `git pull`, beside a search."""
    lock = clone / ".kairoscope" / "local" / f"{name}.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("")
    with operation.hold(lock, ""):
        process = begun(clone)
        said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 2
    assert "a command runs by it" in said
    assert str(lock.relative_to(clone)) in said
    assert not (clone / "done").exists()
    process = begun(clone)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_what_is_cleaned_was_built():
    """Backups, evidence, and what a target of one's own hosts is known by stay."""
    (removed,) = [part for part in dry("clean").split(" done ") if part.startswith("rm ")]
    assert " .kairoscope " not in f"{removed} "
    for kept in ("backups", "evidence", "hosts", "aws", "runs"):
        assert kept not in removed


@pytest.mark.parametrize("there", ["local", "lab", "aws/plan.json"])
@pytest.mark.parametrize("given", [None, "elsewhere"])
def test_nothing_is_cleaned_under_a_deployment_wherever_its_home_is(tmp_path, there, given):
    shutil.copyfile(paths.CHECKOUT / "Makefile", tmp_path / "Makefile")
    home = tmp_path / (given or ".kairoscope")
    (home / there).mkdir(parents=True)
    (tmp_path / ".venv").mkdir()

    def clean():
        line = ["make", "-C", str(tmp_path), "clean"]
        kept = {name: it for name, it in os.environ.items() if name != "KAIROSCOPE_HOME"}
        environment = kept | ({"KAIROSCOPE_HOME": str(home)} if given else {})
        return subprocess.run(line, capture_output=True, text=True, check=False, env=environment)

    target = there.partition("/")[0]
    done = clean()
    assert done.returncode == 2
    assert f"target {target} is still deployed" in done.stderr
    assert f"make destroy TARGET={target} first" in done.stderr
    assert (tmp_path / ".venv").exists()
    (home / there).rmdir()
    assert clean().returncode == 0
    assert not (tmp_path / ".venv").exists()
