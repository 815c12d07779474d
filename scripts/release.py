"""`make release VERSION=x.y.z`: a tagged commit whose record says what it is made of and what ran.

Refuses before it changes anything: a version that is none or is there already, changed files, no
section of CHANGELOG.md, a linter that complains, tests that failed or ran before the commit. Then
it writes the version where it stands, builds the run-time bundles from nothing, writes
results/releases/<version>.md with their checksums and with what ran before, commits and tags. It
pushes nothing. What fails on the way leaves the files as they were.

    .venv/bin/python scripts/release.py 0.2.0 .kairoscope/tests/test*.xml

Every file after the version is a record of what was run: JUnit XML of pytest, or a text (.md, .txt)
that says so. Its name says of what: `test` and `test-long` are the whole of these verbs,
`test-lab` and `test-long-faults` what they run with ONLY=; all of both must have been run.
"""

import argparse
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

# Where the version stands, as `version = "…"` or `__version__ = "…"` at the start of a line.
VERSIONED = ("pyproject.toml", "loaders/pyproject.toml", "kairoscope/__init__.py")
_VERSION_LINE = re.compile(r'^((?:__)?version(?:__)? = )"[^"]*"$', re.MULTILINE)
BUNDLES = Path(".kairoscope/bundles")
RECORDS = Path("results/releases")
PARTS = {
    "test": ("unit", "cluster", "lab", "cloud"),
    "test-long": ("day_two", "faults", "secured", "scylla", "lab", "aws", "alerts", "panels"),
}
"""What the verbs run with ONLY=; a test holds the long ones and tests/conftest.py equal."""


class Refused(Exception):
    """Why there is no release, in a sentence for whoever asked for it."""


def main() -> None:
    """Make the release. Exits with 1 and a sentence where it refuses."""
    parser = argparse.ArgumentParser(description="Make a release: record, commit and tag.")
    parser.add_argument("version", help="Such as 0.2.0; its section in CHANGELOG.md must be there")
    parser.add_argument("ran", nargs="*", type=Path, help="JUnit XML or texts: what was run")
    given = parser.parse_args()
    try:
        record = release(given.version, given.ran)
    except Refused as why:
        fail(str(why))
    print(f"released {given.version}: {record}, tag v{given.version}; to publish it:")
    print(f"  git push origin HEAD v{given.version}")


def fail(why: str) -> NoReturn:
    """End with status 1 and a sentence."""
    sys.exit(f"release: {why}")


def release(version: str, ran: list[Path]) -> Path:
    """Make the release of the checkout in the working folder; the path of its record.

    Raises:
        Refused: something is not as it must be; nothing was changed.
    """
    check(version)
    tested = git("rev-parse", "HEAD")
    rows = [was_run(path) for path in ran]
    if left := not_run(ran):
        raise Refused(
            f"no record that these were run: {', '.join(left)}. Run them, or name one in RAN=; "
            "what was run elsewhere is a text of the record's name, such as test-long-lab.md"
        )
    print("make lint")
    if subprocess.run(["make", "lint"], check=False).returncode != 0:
        raise Refused("make lint complains; nothing was changed")

    before = {path: Path(path).read_text() for path in VERSIONED}
    record = RECORDS / f"{version}.md"
    try:
        for path, text in before.items():
            Path(path).write_text(_VERSION_LINE.sub(rf'\g<1>"{version}"', text, count=1))
        bundles = build()
        RECORDS.mkdir(parents=True, exist_ok=True)
        record.write_text(text_of(version, tested, bundles, rows))
        git("add", "--", *VERSIONED, str(record))
        git(
            "commit",
            "-m",
            f"Release {version}\n\nWhat it is made of, and what ran before: {record}",
        )
        git(
            "tag",
            "--cleanup=verbatim",
            "-a",
            f"v{version}",
            "-m",
            f"Kairoscope {version}",
            "-m",
            record.read_text(),
        )
    except BaseException:
        if not git("tag", "--list", f"v{version}"):
            if git("rev-parse", "HEAD") != tested:
                # With it all records would be of before the last commit, and be refused.
                git("reset", "--quiet", "--soft", tested)
                print("release: there is no tag, so the commit was taken back", file=sys.stderr)
            git("reset", "--quiet", "--", *VERSIONED, str(RECORDS))
            for path, text in before.items():
                Path(path).write_text(text)
            record.unlink(missing_ok=True)
        raise
    return record


def check(version: str) -> None:
    """Refused if this checkout cannot become that version."""
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise Refused(f"VERSION={version}: a version is three numbers, such as 0.2.0")
    if changed := git("status", "--porcelain"):
        raise Refused(f"files are changed, commit them first:\n{changed}")
    if git("tag", "--list", f"v{version}"):
        raise Refused(f"there is a tag v{version} already")
    changelog = Path("CHANGELOG.md").read_text()
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |^\[|\Z)"
    section = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise Refused(f"CHANGELOG.md has no section ## [{version}] - YYYY-MM-DD with what changed")
    unreleased = re.search(
        r"^## \[Unreleased\]\n(.*?)(?=^## )", changelog, re.MULTILINE | re.DOTALL
    )
    if unreleased and unreleased[1].strip():
        raise Refused(
            "CHANGELOG.md has changes under [Unreleased] that would be released and are in no "
            f"version: move them to [{version}]"
        )
    for path in VERSIONED:
        if not _VERSION_LINE.search(Path(path).read_text()):
            raise Refused(f'{path} has no line version = "…"')


def not_run(ran: list[Path]) -> list[str]:
    """The verbs that no record is of, each with its ONLY= where others of it are there."""
    names = {path.stem for path in ran}
    left = []
    for verb, parts in PARTS.items():
        if verb in names:
            continue
        missing = [part for part in parts if f"{verb}-{part}" not in names]
        whole = len(missing) == len(parts)
        left += [f"make {verb}"] if whole else [f"make {verb} ONLY={part}" for part in missing]
    return left


def was_run(path: Path) -> str:
    """A row of the record. Refused if tests failed, or ran before the commit that is released."""
    if not path.exists():
        raise Refused(f"RAN={path}: there is no such file")
    if path.suffix != ".xml":
        return f"| {path.name} | {' '.join(path.read_text().split())} | | | |"
    try:
        suites = list(ET.parse(path).getroot().iter("testsuite"))  # noqa: S314 (pytest's own)
        began = min(datetime.fromisoformat(suite.get("timestamp", "")) for suite in suites)
    except (ET.ParseError, ValueError) as error:
        raise Refused(f"RAN={path}: no JUnit XML of pytest: {error}") from error
    cases = [case for suite in suites for case in suite.iter("testcase")]
    ended = Counter(child.tag for case in cases for child in case)
    if bad := ended["failure"] + ended["error"]:
        raise Refused(f"{path}: {bad} of {len(cases)} tests failed")
    passed = Counter(layer(case) for case in cases if case.find("skipped") is None)
    if not passed:
        raise Refused(f"{path}: no test was run")
    committed = datetime.fromisoformat(git("log", "-1", "--format=%cI"))
    if began.astimezone(UTC) < committed:
        raise Refused(
            f"{path}: ran before the last commit ({committed:%Y-%m-%d %H:%M}); run again, or "
            "remove it where other records are of the same"
        )
    of_layers = ", ".join(f"{name} {count}" for name, count in sorted(passed.items()))
    seconds = sum(float(suite.get("time", 0)) for suite in suites)
    return (
        f"| {path.name} | {began:%Y-%m-%d %H:%M} | {of_layers} | {ended['skipped']} "
        f"| {seconds:.0f} |"
    )


def layer(case: ET.Element) -> str:
    """The folder of a test: unit of tests.unit.test_plan."""
    return [*case.get("classname", "").split("."), ""][1]


def build() -> list[Path]:
    """Build all run-time bundles from nothing, so that none is left of an older version."""
    shutil.rmtree(BUNDLES, ignore_errors=True)
    if subprocess.run([".venv/bin/kairoscope", "bundles", "--with-java"], check=False).returncode:
        raise Refused("the bundles could not be built; the version is what it was")
    return sorted(BUNDLES.glob("*.tar"))


def text_of(version: str, tested: str, bundles: list[Path], rows: list[str]) -> str:
    """The record of a release."""
    lines = [
        f"# Kairoscope {version}, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"Made from commit {tested} on {platform.platform()}, Python {platform.python_version()}.",
        "",
        "## Run-time bundles",
        "",
        "Built from nothing. Archives have times in them; the list of a bundle's files with their",
        "checksums (`SHA256SUMS` in it) is the same in every build of the same sources.",
        "",
        "| bundle | bytes | SHA-256 | SHA-256 of its list |",
        "|---|---|---|---|",
    ]
    for path in bundles:
        listed = path.with_suffix(".sha256")
        lines.append(
            f"| {path.name} | {path.stat().st_size} | `{sha256(path)}` | `{sha256(listed)}` |"
        )
    lines += [
        "",
        "## What ran before",
        "",
        "`make lint` complained of nothing. Tests of that commit:",
        "",
        "| record | began | passed | skipped | s |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git(*arguments: str) -> str:
    """What git prints. Refused with what it says if it fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
