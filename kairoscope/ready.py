"""What can be refused before anything is there: `make` runs this before it installs a package.

So nothing but the standard library may be imported here, of Python 3.11. What needs the plan or the
driver is in `preflight`, which has these checks too.

    python3 kairoscope/ready.py setup|deploy|series TARGET=local EXPERIMENT=laptop SENSORS= …

`deploy` is of EXPERIMENT, `series` of something else or of more. What has no value was not given.
"""

import math
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]

# Known to make before the packages are there that know them better; a test holds them equal.
TARGETS = ("local", "lab", "aws", "hosts")
VERBS = (
    "add-kairosdb",
    "add-storage",
    "backup",
    "check-backup",
    "clear-snapshots",
    "decommission",
    "evidence",
    "remove-kairosdb",
    "repair",
    "replace",
    "restore",
    "rolling-config",
    "rolling-restart",
    "schedule-backups",
    "upgrade",
    "upgrade-scylla",
    "upgrade-system",
)

ENGINES = ("cassandra", "scylla")
PROTOCOLS = (
    "rest",
    "rest-gzip",
    "telnet-put",
    "telnet-putm",
    "line",
    "remote-write",
    "plaintext",
    "pickle",
    "measures",
    "cql",
)

NUMBERS = {
    "SENSORS": "of sensors, such as 2000",
    "RATE": "of points a second of each sensor, such as 0.5",
    "DURATION": "of seconds, such as 300",
}
"""What scales an experiment by a number, and what that is of; their bounds are the schema's."""
SCALING = (*NUMBERS, "PROTOCOL", "ENGINE")

SETUP_DISK_MIB = 1_500
"""Packages (710 MiB), run-time bundles (320) and Maven's cache (165), as on 2026-11-25."""

DEFAULT_EXPERIMENT = "laptop"
DEFAULT_MEMORY_MIB = 6_808
DEFAULT_DISK_MIB = 3_922
"""What the default experiment needs on this machine, so that who has just cloned does not wait for
packages to be told; `preflight` computes it for all others. A test holds the two equal."""

# Bundles by how their names begin: of hosts of their own, and of what watches a target.
_OF_HOSTS = ("java", "jlink.log")
_OF_MONITORING = ("monitoring", "node-exporter-")

PORTS = {9042: "CQL", 7000: "node-to-node", 8778: "counts", 8080: "REST", 4242: "telnet"}
"""What the servers of target local listen on, each on an address of its own."""

# The longest path of a Unix socket on Linux is 107 bytes; supervisord appends its process id.
SOCKET_PATH_MAX = 107 - len(".4194304")

_EXAMPLES = {
    "INVENTORY": "ansible/inventory-sample.yml",
    "ACCOUNT": "terraform/account.tfvars.example",
    "BACKEND": "terraform/backend.hcl.example",
}

_LISTENING = "0A"
# A group with hosts; without any it has `hosts: {}`.
_WATCHED = re.compile(r"^ +monitoring:\n +hosts:\n", re.MULTILINE)
_ODD = re.compile(r"[^\w./+@,=-]")


def home() -> Path:
    """As `paths.home`, which this module cannot import where it is run by itself."""
    given = os.environ.get("KAIROSCOPE_HOME")
    return Path(given).resolve() if given else CHECKOUT / ".kairoscope"


def checkout_problem(checkout: Path) -> str | None:
    """Why nothing can be set up in this checkout, or None."""
    if _ODD.search(str(checkout)):
        return (
            f"the checkout's path {checkout} has blanks or special characters, which command lines "
            "of the servers and of Python cannot carry. Move it, e.g. to ~/kairoscope; "
            "KAIROSCOPE_HOME= does not help, as programs stay in the checkout."
        )
    return None


def odd_problem(folder: Path) -> str | None:
    """Why the name of a folder of deployments cannot be used, or None."""
    if _ODD.search(str(folder)):
        return (
            f"the path {folder} has blanks or special characters, which command lines of the "
            "servers cannot carry. Move the checkout, or set KAIROSCOPE_HOME= to another folder."
        )
    return None


def path_problem(state: Path) -> str | None:
    """Why the name of target local's folder cannot be used, or None."""
    if problem := odd_problem(state):
        return problem
    sock = state / "supervisor" / "sock"
    if len(str(sock)) > SOCKET_PATH_MAX:
        return (
            f"the path {sock} is longer than a Unix socket's may be ({SOCKET_PATH_MAX}). "
            "Set KAIROSCOPE_HOME= to a shorter folder."
        )
    return None


def folder_problem(folder: Path, what: str, instead: str) -> str | None:
    """Why nothing can be written to a folder that is there or is to be made, or None."""
    for there in (folder, *folder.parents):
        if not os.path.lexists(there):
            continue
        if not there.is_dir():
            return f"{what} {folder}: {there} is a file, and no folder. {instead}"
        try:
            Path(tempfile.mkdtemp(prefix=".kairoscope-", dir=there)).rmdir()
        except OSError as error:
            return f"{what} {folder}: {there} cannot be written ({error.strerror}). {instead}"
        break
    return None


def owner_problem(checkout: Path, given: Mapping[str, str]) -> str | None:
    """Why set-up cannot write anew what an earlier one made, as root with sudo, or None.

    A checkout that is not ours as a whole is none of our business: whoever has set it up for others
    keeps it so, and they need write nothing there; nor is a bundle that the target does without.
    """
    if not os.access(checkout, os.W_OK):
        return None
    made = checkout / ".kairoscope"
    bundles = made / "bundles"
    targets = sorted(path for path in _below(checkout / "kairosdb-conf") if path.name == "target")
    written = (path for path in bundles.glob("*") if not path.name.startswith(_unused(given)))
    # What is below a virtual environment is many thousand files, which it is removed with.
    inside = {bundles: written, **{target: _below(target) for target in targets}}
    theirs = [
        folder
        for folder in (checkout / ".venv", bundles, *targets)
        if not all(_ours(path) for path in (folder, *inside.get(folder, ())))
    ]
    orders = []
    if not _ours(made):
        # Not with all in it: the lab's hosts are root's.
        orders.append(f"sudo chown {os.geteuid()} {made}")
    if theirs:
        orders.append(f"sudo chown -R {os.geteuid()} {' '.join(map(str, theirs))}")
    if not orders:
        return None
    return (
        "what an earlier set-up made cannot be written by you: it was made by another user, as "
        f"with sudo. First: {' && '.join(orders)}"
    )


def _unused(given: Mapping[str, str]) -> tuple[str, ...]:
    """How the names begin of bundles that the target does without, so that nobody writes them."""
    if given["TARGET"] != "local":
        return ()
    watched = given.get("MONITORING", "") not in ("", "false") or _stays_watched(home() / "local")
    return _OF_HOSTS if watched else (*_OF_HOSTS, *_OF_MONITORING)


def _stays_watched(state: Path) -> bool:
    """Whether a host watches the others of what is deployed: as `Target.watched`, which the first
    deploy with MONITORING decides, by the text of an inventory as `inventory.write` has it."""
    try:
        text = (state / "inventory.yml").read_text(errors="replace")
    except OSError:
        return False
    return bool(_WATCHED.search(text))


def _below(folder: Path) -> Iterator[Path]:
    """All files and folders below one, without those that somebody removes meanwhile.

    By os.walk: a glob fails there, as beside Maven, which removes what it has built.
    """
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))


def _ours(path: Path) -> bool:
    """Whether it is not there, ours whatever its mode, or another's that we may write."""
    try:
        return path.lstat().st_uid == os.geteuid() or os.access(path, os.W_OK)
    except FileNotFoundError:
        return True


def home_problem(folder: Path) -> str | None:
    """Why deployments cannot be kept in this folder, or None."""
    given = os.environ.get("KAIROSCOPE_HOME")
    what = "KAIROSCOPE_HOME" if given else "the folder of deployments"
    return folder_problem(folder, what, "Set KAIROSCOPE_HOME= to a folder of yours.")


def _near(word: str, known: list[str], what: str) -> str | None:
    if word in known:
        return None
    return f"{what} {word!r} is not known. There are: {', '.join(sorted(known))}"


def name_problems(given: Mapping[str, str]) -> Iterator[str]:
    """Names that nothing has, each with those that there are; numbers that are none."""
    if problem := _near(given["TARGET"], list(TARGETS), "TARGET"):
        yield problem
    for variable in ("EXPERIMENT", "A", "WITH"):
        if variable in given and (problem := _experiment_problem(given[variable], variable)):
            yield problem
    for variable, known in (("VERB", VERBS), ("ENGINE", ENGINES), ("PROTOCOL", PROTOCOLS)):
        name = given.get(variable)
        if name and (problem := _near(name, list(known), variable)):
            yield problem
    for variable, what in NUMBERS.items():
        text = given.get(variable)
        if text and not _is_number(text):
            yield f"{variable} {text!r} is no number {what}"


def _experiment_problem(experiment: str, variable: str) -> str | None:
    if "/" not in experiment and not experiment.endswith((".yml", ".yaml")):
        known = [path.stem for path in (CHECKOUT / "experiments").glob("*.yml")]
        problem = _near(experiment, known, variable)
        return problem and problem + "; or the path of a file of yours"
    if not Path(experiment).is_file():
        return f"{variable} {experiment}: there is no such file"
    return None


def _is_number(text: str) -> bool:
    """Whether it is one above 0. Some verbs take 1,000,000 and 1e6, which the others refuse."""
    try:
        return 0 < float(text.replace(",", "")) < math.inf
    except ValueError:
        return False


SCYLLA_PAGE = (
    "https://docs.scylladb.com/manual/stable/getting-started/installation-common/"
    "unified-installer.html"
)
_SCYLLA_FOLDER = (
    "https://downloads.scylladb.com/downloads/scylla/relocatable/scylladb-<line, as 2026.1>/"
)
# The only one on record: github.com/scylladb/scylladb/issues/13181.
_SCYLLA_SIZE = "one of March 2023 was 177 MB to fetch, the folder it is in says how big today's is"


def scylla_to_get(target: str) -> str:
    """Three lines for somebody who wants ScyllaDB and has not said where one is."""
    return (
        f"ENGINE=scylla on target {target} needs SCYLLA=, a ScyllaDB server of yours; none comes "
        "with Kairoscope.\n"
        f"Get its maker's archive scylla-unified-<version>.{platform.machine()}.tar.gz, by "
        f"{SCYLLA_PAGE}, from {_SCYLLA_FOLDER}: {_SCYLLA_SIZE}.\n"
        "Then the same command with SCYLLA=that file, or a folder in which it was unpacked."
    )


def given_problems(given: Mapping[str, str], *, first: bool) -> Iterator[str]:
    """What a deploy of the target takes, and is not given; `first`: nothing is deployed yet.

    Who deploys it anew has to be root, and gives hosts or an account, the first time or not.
    """
    target, server = given["TARGET"], given.get("SCYLLA")
    if target == "lab" and os.geteuid() != 0:
        yield (
            "TARGET lab makes hosts, with mounts and networks: it needs root. Run the same command "
            "with sudo, or use TARGET=local, which does not"
        )
    if target == "hosts" and not given.get("INVENTORY"):
        yield "TARGET hosts needs INVENTORY=, a file that says where they are (docs/hosts.md)"
    of_target = {"hosts": ("INVENTORY",), "aws": ("ACCOUNT", "BACKEND")}.get(target, ())
    for variable in of_target:
        file = given.get(variable)
        if file and not Path(file).is_file():
            example = _EXAMPLES[variable]
            yield f"{variable} {file}: there is no such file. {example} is one to copy and change"
    if server and not Path(server).exists():
        yield f"SCYLLA {server}: there is no such file or folder"
    here = target in ("local", "lab")
    if here and first and given.get("ENGINE") == "scylla" and not server:
        yield scylla_to_get(target)


def free_mib(folder: Path) -> int:
    """Free disk where a folder is, or would be made."""
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    return shutil.disk_usage(there).free // 2**20


def _available_mib() -> int | None:
    text = Path("/proc/meminfo").read_text()
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) // 1024 if found else None


def listening(proc: Path = Path("/proc/net")) -> set[tuple[str, int]]:
    """IPv4 addresses and ports of this machine that somebody listens on; IPv6's `::` as 0.0.0.0."""
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_ = line.split()
            if state == _LISTENING:
                address, port = local.split(":")
                raw = bytes.fromhex(address[-8:])[::-1]
                found.add((".".join(map(str, raw)), int(port, 16)))
    return found


def port_problem(net: str, taken: set[tuple[str, int]]) -> str | None:
    """Which ports of the first servers of target local somebody listens on, or None."""
    first, every = f"{net}.1", "0.0.0.0"  # noqa: S104 - looked for, not bound
    clashes = [
        f"{port} ({purpose})"
        for port, purpose in PORTS.items()
        if (first, port) in taken or (every, port) in taken
    ]
    if not clashes:
        return None
    return (
        f"ports of {first} are taken by another deployment or another program: "
        f"{', '.join(clashes)}. Which it is: ss -ltnp. End it, or deploy on other addresses: "
        "KAIROSCOPE_LOCAL_NET=127.0.7"
    )


def setup_problem() -> str | None:
    """Why there is no room for what a set-up brings, or None."""
    if (CHECKOUT / ".venv" / "installed").exists() or free_mib(CHECKOUT) >= SETUP_DISK_MIB:
        return None
    return (
        f"too little disk: {SETUP_DISK_MIB:,} MiB are needed to set up, {free_mib(CHECKOUT):,} MiB "
        f"are free at {CHECKOUT}"
    )


def machine_problems(*, default: bool) -> Iterator[str]:
    """What this machine lacks for a first deployment of target local.

    `default`: of the default experiment, as it is.
    """
    net = os.environ.get("KAIROSCOPE_LOCAL_NET", "127.0.0")
    if problem := port_problem(net, listening()):
        yield problem
    if not default:
        return
    available = _available_mib()
    if available is not None and available < DEFAULT_MEMORY_MIB:
        yield (
            f"too little memory: the experiment {DEFAULT_EXPERIMENT} needs at least "
            f"{DEFAULT_MEMORY_MIB:,} MiB, {available:,} MiB are available. End other programs, or "
            "give an experiment with fewer or smaller nodes (experiments/README.md)"
        )
    if free_mib(home()) < DEFAULT_DISK_MIB:
        yield (
            f"too little disk: the experiment {DEFAULT_EXPERIMENT} needs at least "
            f"{DEFAULT_DISK_MIB:,} MiB, {free_mib(home()):,} MiB are free at {home()}. Free some, "
            "lower SENSORS= or DURATION=, or set KAIROSCOPE_HOME= to a larger disk"
        )


def problems(what_for: str, given: Mapping[str, str]) -> list[str]:
    """All that is in the way of `what_for` (setup, deploy, series), a sentence each."""
    target = given["TARGET"]
    # Before all others, whose advice is of no help then.
    if problem := owner_problem(CHECKOUT, given):
        return [problem]
    found = list(name_problems(given))
    found += [text for text in (checkout_problem(CHECKOUT), home_problem(home())) if text]
    if problem := folder_problem(Path.home(), "your home folder", "Set HOME= to one."):
        found.append(f"{problem} pip and Maven keep what they fetch there.")
    odd = path_problem(home() / target) if target == "local" else odd_problem(home())
    # Of a checkout's path it is said already.
    if odd and not (found and home().is_relative_to(CHECKOUT)):
        found.append(odd)
    if problem := setup_problem():
        found.append(problem)
    if what_for == "setup":
        return found
    first = not (home() / target / "plan.json").exists()
    found += given_problems(given, first=first)
    if not found and target == "local" and first:
        scaled = any(given.get(variable) for variable in SCALING)
        default = given.get("EXPERIMENT") == DEFAULT_EXPERIMENT and not scaled
        found += machine_problems(default=what_for == "deploy" and default)
    return found


def main(arguments: list[str]) -> int:
    """Say what is in the way on stderr: 2 if anything is, else 0."""
    what_for, *given = arguments
    values = {name: value for name, _, value in (each.partition("=") for each in given)}
    found = problems(what_for, values)
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
