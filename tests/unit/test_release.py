"""`make release`, in a checkout of its own."""

import importlib.util
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from kairoscope import __version__, paths


def loaded(path: Path) -> Any:
    """A file of Python that is in no package."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_loaded", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LONG: dict[str, str] = loaded(paths.CHECKOUT / "tests" / "conftest.py").LONG
SCRIPT = paths.CHECKOUT / "scripts" / "release.py"
FILES = {
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-25\n\n- More.\n",
    "pyproject.toml": '[project]\nversion = "0.1.0"\ndependencies = []\n',
    "loaders/pyproject.toml": '[project]\nversion = "0.1.0"\n',
    "kairoscope/__init__.py": '__version__ = "0.1.0"\n',
    "Makefile": "lint:\n\t@test ! -e untidy\n",
    ".gitignore": ".venv\n.kairoscope\njunit\n",
    # In place of the real one: a bundle that has the version of the checkout in its name.
    ".venv/bin/kairoscope": """#!/bin/sh
set -e
version=$(sed -n 's/^version = "\\(.*\\)"/\\1/p' loaders/pyproject.toml)
mkdir -p .kairoscope/bundles
echo files > .kairoscope/bundles/loader-$version.tar
echo list > .kairoscope/bundles/loader-$version.sha256
test ! -e .venv/broken
""",
}


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / ".venv/bin/kairoscope").chmod(0o755)
    stale = tmp_path / ".kairoscope/bundles/loader-0.1.0.tar"
    stale.parent.mkdir(parents=True)
    stale.write_text("of the release before")
    for command in (
        ["init", "-q", "-b", "main"],
        ["config", "user.email", "t@example.org"],
        ["config", "user.name", "t"],
        ["add", "-A"],
        ["commit", "-qm", "Before"],
    ):
        assert run(tmp_path, "git", *command).returncode == 0
    return tmp_path


def junit(checkout: Path, *, failures: int = 0, after: timedelta = timedelta(minutes=1)) -> str:
    began = (datetime.now(UTC) + after).isoformat()
    path = checkout / "junit" / "test.xml"
    path.parent.mkdir(exist_ok=True)
    cases = [
        '<testcase classname="tests.unit.test_plan" name="a"/>',
        '<testcase classname="tests.unit.test_plan" name="b"/>',
        '<testcase classname="tests.cluster.test_run" name="c"/>',
        '<testcase classname="tests.lab.test_nodes" name="d"><skipped/></testcase>',
        *['<testcase classname="tests.lab.test_nodes" name="e"><failure/></testcase>'] * failures,
    ]
    path.write_text(
        f'<testsuites><testsuite time="12.3" timestamp="{began}">{"".join(cases)}</testsuite>'
        "</testsuites>"
    )
    return "junit/test.xml"


def release(checkout: Path, *ran: str, version: str = "0.2.0") -> subprocess.CompletedProcess[str]:
    """Make a release; what was run beside `ran` stands in a text."""
    (checkout / "junit").mkdir(exist_ok=True)
    (checkout / "junit" / "test-long.md").write_text("on a quiet machine:\nall passed\n")
    return told(checkout, *ran, "junit/test-long.md", version=version)


def told(checkout: Path, *ran: str, version: str = "0.2.0") -> subprocess.CompletedProcess[str]:
    return run(checkout, sys.executable, str(SCRIPT), version, *ran)


def state(checkout: Path) -> tuple[str, ...]:
    commands = (["rev-parse", "HEAD"], ["status", "--porcelain"], ["tag"])
    return tuple(run(checkout, "git", *command).stdout for command in commands)


def test_a_release_is_a_tag_with_its_record(checkout: Path) -> None:
    before = run(checkout, "git", "rev-parse", "HEAD").stdout.strip()
    done = release(checkout, junit(checkout))
    assert done.returncode == 0, done.stderr
    assert "git push origin HEAD v0.2.0" in done.stdout
    for name in ("pyproject.toml", "loaders/pyproject.toml", "kairoscope/__init__.py"):
        assert '"0.2.0"' in run(checkout, "git", "show", f"v0.2.0:{name}").stdout
    record = run(checkout, "git", "show", "v0.2.0:results/releases/0.2.0.md").stdout
    assert f"Made from commit {before}" in record
    # Of the built archive and of its list, by sha256sum.
    sums = re.findall(r"^\| (\S+) \| \d+ \| `(\w+)` \| `(\w+)` \|$", record, re.MULTILINE)
    bundles = checkout / ".kairoscope/bundles"
    for name, archive, listed in sums:
        for path, digest in ((name, archive), (name.replace(".tar", ".sha256"), listed)):
            assert digest in run(bundles, "sha256sum", path).stdout
    assert [name for name, *_ in sums] == ["loader-0.2.0.tar"]  # Not the one of before.
    assert re.search(
        r"^\| test.xml \| \S+ \S+ \| cluster 1, unit 2 \| 1 \| 12 \|$", record, re.MULTILINE
    )
    assert state(checkout)[1] == ""
    assert record in run(checkout, "git", "tag", "-n99", "--format=%(contents)").stdout


def test_a_statement_of_what_was_run_is_a_record_too(checkout: Path) -> None:
    assert release(checkout, junit(checkout)).returncode == 0
    record = (checkout / "results/releases/0.2.0.md").read_text()
    assert "| test-long.md | on a quiet machine: all passed |" in record


def test_each_kind_of_long_test_must_have_been_run(checkout: Path) -> None:
    whole, before = junit(checkout), state(checkout)
    of_each = [f"junit/test-long-{kind}.md" for kind in LONG]
    for path in of_each:
        (checkout / path).write_text("all passed\n")
    done = told(checkout, whole, *of_each[:-2])
    assert done.returncode == 1
    missing = ", ".join(f"make test-long ONLY={kind}" for kind in [*LONG][-2:])
    assert f"no record that these were run: {missing}. " in done.stderr
    assert "these were run: make test, make test-long. " in told(checkout).stderr
    assert state(checkout) == before
    assert told(checkout, whole, *of_each).returncode == 0
    record = (checkout / "results/releases/0.2.0.md").read_text()
    assert all(f"| {Path(path).name} |" in record for path in of_each)


def test_the_kinds_that_a_release_asks_for_are_those_that_there_are() -> None:
    parts = loaded(SCRIPT).PARTS
    assert parts["test-long"] == tuple(LONG)
    assert all((paths.CHECKOUT / "tests" / layer).is_dir() for layer in parts["test"])


def test_each_verb_has_records_of_its_own() -> None:
    """`make test-long ONLY=lab` wrote over what `make test-long` and all others had written."""
    for arguments, name in (
        (["test"], "test"),
        (["test", "ONLY=unit"], "test-unit"),
        (["test-long"], "test-long"),
        (["test-long", "ONLY=lab"], "test-long-lab"),
        (["test-long", "ARGS=-k one"], "part"),
    ):
        done = run(paths.CHECKOUT, "make", "-n", *arguments)
        assert f"--junitxml=.kairoscope/tests/{name}.xml " in done.stdout, done.stderr


def test_ci_runs_every_kind_of_long_test() -> None:
    jobs = yaml.safe_load((paths.CHECKOUT / ".github/workflows/ci.yml").read_text())["jobs"]
    assert jobs["test-long"]["strategy"]["matrix"] == {"only": list(LONG)}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: (c / "CHANGELOG.md").write_text("changed"), "files are changed"),
        (lambda c: run(c, "git", "tag", "v0.2.0"), "there is a tag v0.2.0 already"),
        (lambda c: (c / "junit/test.xml").unlink(), "there is no such file"),
        (lambda c: (c / "junit/test.xml").write_text("<testsuites>"), "no JUnit XML of pytest"),
        (lambda c: junit(c, failures=1), "1 of 5 tests failed"),
        (lambda c: junit(c, after=timedelta(hours=-1)), "ran before the last commit"),
        (lambda c: (c / ".venv/broken").touch(), "bundles could not be built"),
        (lambda c: (c / ".git/hooks/pre-commit").symlink_to("/bin/false"), "git commit"),
        # After the commit, for which no test has run: the next try would refuse all records.
        (lambda c: (c / ".git/refs/tags/v0.2.0.lock").touch(), "commit was taken back"),
    ],
)
def test_refused_and_nothing_changed(checkout: Path, spoil, message: str) -> None:  # type: ignore[no-untyped-def]
    path = junit(checkout)
    spoil(checkout)
    before = state(checkout)
    done = release(checkout, path)
    assert done.returncode == 1
    assert message in done.stderr
    assert state(checkout) == before


@pytest.mark.parametrize(
    ("version", "message"),
    [("0.3.0", "no section"), ("v0.2", "three numbers"), ("01.2.3", "three")],
)
def test_refused_versions(checkout: Path, version: str, message: str) -> None:
    done = release(checkout, junit(checkout), version=version)
    assert done.returncode == 1
    assert message in done.stderr


def test_changes_in_no_version_are_not_released(checkout: Path) -> None:
    path = checkout / "CHANGELOG.md"
    path.write_text(path.read_text().replace("[Unreleased]\n", "[Unreleased]\n\n- New.\n"))
    run(checkout, "git", "commit", "-qam", "New")
    done = release(checkout, junit(checkout))
    assert done.returncode == 1
    assert "in no version: move them to [0.2.0]" in done.stderr


def test_untidy_code_is_not_released(checkout: Path) -> None:
    (checkout / "untidy").touch()
    for command in (["add", "untidy"], ["commit", "-qm", "Untidy"]):
        run(checkout, "git", *command)
    before = state(checkout)
    done = release(checkout, junit(checkout))
    assert "make lint complains" in done.stderr
    assert state(checkout) == before


def test_the_version_stands_at_each_place() -> None:
    found = [
        re.findall(r'^(?:__)?version(?:__)? = "(.*)"$', text, re.MULTILINE) for text in texts()
    ]
    assert found == [[__version__]] * 3


def texts() -> list[str]:
    names = ("pyproject.toml", "loaders/pyproject.toml", "kairoscope/__init__.py")
    return [(paths.CHECKOUT / name).read_text() for name in names]


@pytest.mark.parametrize(
    "lock",
    [
        str(path.relative_to(paths.CHECKOUT))
        for pattern in ("requirements*.lock", "kairoscope/stacks/*/requirements.lock")
        for path in sorted(paths.CHECKOUT.glob(pattern))
    ],
)
def test_the_update_bot_understands_how_a_lock_is_made(lock: str) -> None:
    """Renovate runs the command at the top, and takes options in no other spelling."""
    command = (paths.CHECKOUT / lock).read_text().split("\n")[1]
    assert command.startswith("#    uv pip compile ")
    known = (
        "--python-version=",
        "--generate-hashes",
        "--all-extras",
        "--output-file=",
        "--universal",
    )
    options = [word for word in command.split() if word.startswith("-")]
    assert all(option.startswith(known) for option in options), options
    # Run where the lock is, of a file that is there.
    path = paths.CHECKOUT / lock
    assert f"--output-file={path.name}" in options
    assert (path.parent / command.split()[-1]).exists()
