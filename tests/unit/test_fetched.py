"""Programs that are fetched and not installed: what of a package stays, and what is said where one
cannot be had. apt's tools are stand-ins."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.stacks import fetched

TOOLS = {
    "apt-get": """
        shift 2
        for package in "$@"; do
            [ "$package" = absent ] && { echo E: no >&2; echo "E: Unable to locate" >&2; exit 100; }
            echo "$package" > "$package.deb"
        done
    """,
    "dpkg-deb": """
        read package < "$2"
        if [ "$1" = --field ]; then
            [ "$package" = tool ] && echo "libc6 (>= 2.36), libown1 | libother, adduser, libnew2"
            exit 0
        fi
        case "$package" in
            tool) mkdir -p "$3/usr/sbin"; printf "\\177ELF" > "$3/usr/sbin/toold" ;;
            *) mkdir -p "$3/usr/lib/x86"; echo "$package" > "$3/usr/lib/x86/$package.so.2.1"
               ln -sf /etc/nowhere "$3/usr/lib/x86/dangling.so.3" ;;
        esac
    """,
    "dpkg-query": """
        [ "$3" = libown1 ] && printf "install ok installed"
        [ "$3" = libc6 ] && printf "install ok installed"
        exit 0
    """,
    "ldd": """
        echo "\tlibc.so.6 => /lib/libc.so.6 (0x00)"
        echo "\tlibown.so.1 => $OWN (0x00)"
    """,
}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-ins are; nothing else is on the path but what they are made of."""
    where = tmp_path / "tools"
    where.mkdir()
    for name, text in TOOLS.items():
        (where / name).write_text(f"#!/bin/sh\n{text}")
        (where / name).chmod(0o755)
    for name in ("mkdir", "ln"):
        found = shutil.which(name)
        assert found
        (where / name).symlink_to(found)
    (tmp_path / "libown.so.1").write_text("ours")
    monkeypatch.setenv("OWN", str(tmp_path / "libown.so.1"))
    monkeypatch.setenv("PATH", str(where))
    monkeypatch.setattr(paths, "BUNDLES", tmp_path / "bundles")
    return where


def fetch(package: str, program: str) -> Path:
    into = fetched.debian_folder(package)
    fetched.from_debian(Console(quiet=True), package, program, into)
    return into


def test_a_program_comes_with_libraries_that_this_machine_lacks_and_has(tools: Path) -> None:
    into = fetch("tool", "toold")
    assert sorted(path.name for path in into.iterdir()) == ["complete", "lib", "toold"]
    # Of what it depends on, of what is here; not of the C library, nor what links to nothing.
    found = sorted(path.name for path in (into / "lib").iterdir())
    assert found == ["libnew2.so.2.1", "libown.so.1"]
    shutil.rmtree(tools)
    assert fetch("tool", "toold") == into


def test_a_whole_package_stays_as_it_is(tools: Path) -> None:
    into = fetched.debian_folder("tool")
    fetched.whole_from_debian(Console(quiet=True), "tool", into)
    assert (into / "usr" / "sbin" / "toold").exists()


@pytest.mark.parametrize(
    ("package", "program", "without", "said"),
    [
        ("absent", "x", "", "apt-get --quiet download failed: E: Unable to locate. It is the pack"),
        ("tool", "other", "", "tool that apt brought has no program other"),
        ("tool", "toold", "apt-get", "apt-get is not on this machine. It is the package tool of"),
        ("tool", "toold", "dpkg-deb", "dpkg-deb is not on this machine"),
        ("tool", "toold", "dpkg-query", "dpkg-query is not on this machine. Every Debian"),
        ("tool", "toold", "ldd", "ldd is not on this machine. Every Debian and Ubuntu has it"),
    ],
)
def test_what_cannot_be_had_is_said_and_nothing_half_stays(
    tools: Path, package: str, program: str, without: str, said: str
) -> None:
    if without:
        (tools / without).unlink()
    with pytest.raises(UserError) as error:
        fetch(package, program)
    assert said in error.value.message
    assert list(paths.BUNDLES.iterdir()) == []


def test_packages_of_python_want_the_python_that_they_are_pinned_for(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("a==1 --hash=sha256:0\n")
    into = tmp_path / "env"
    monkeypatch.setattr(fetched.sys, "version_info", (3, 12, 0))
    with pytest.raises(UserError, match=r"Thing needs a python3\.11: its packages are pinned"):
        fetched.from_pypi(Console(quiet=True), "Thing", lock, into)
    python = tools / "python3.11"
    python.write_text(
        """#!/bin/sh
        [ "$2" = venv ] && { mkdir -p "$4/bin"; ln -sf "$0" "$4/bin/python"; exit 0; }
        echo "ERROR: no matching hash" >&2; exit 1
        """
    )
    python.chmod(0o755)
    with pytest.raises(UserError, match=r"no matching hash\. Is there a way to PyPI\?"):
        fetched.from_pypi(Console(quiet=True), "Thing", lock, into)
    assert not (into / "complete").exists()
    python.write_text(python.read_text().replace("exit 1", "exit 0"))
    fetched.from_pypi(Console(quiet=True), "Thing", lock, into)
    assert (into / "complete").read_text() == lock.read_text()
    python.unlink()
    monkeypatch.setattr(fetched.shutil, "which", lambda _: pytest.fail("it is there"))
    fetched.from_pypi(Console(quiet=True), "Thing", lock, into)
