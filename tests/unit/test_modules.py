"""Names of modules and rooms."""

import re
import sys
import tomllib
from typing import Any

import pytest

from kairoscope import paths
from kairoscope.cli import known

# What stands one above the other: whose rooms, under which heading it is drawn.
FLOORS = [
    ("kairoscope", "## The rooms of kairoscope/"),
    ("kairoscope.stacks.kairosdb", "### The rooms of KairosDB's stack"),
]

# KairosDB has a queue, and a word for it that is its own: what is of it is called so everywhere.
OURS = {"queue"}


def test_no_module_hides_one_of_the_standard_library() -> None:
    """`from kairoscope.hosts import secrets` would: its readers took it for the other one."""
    rooms = ("kairoscope", "loaders", "bench")
    ours = [path for room in rooms for path in (paths.CHECKOUT / room).rglob("*.py")]
    names = {path.stem for path in (*ours, *paths.CHECKOUT.glob("tests/*/*.py"))}
    assert names & sys.stdlib_module_names == OURS


def contracts() -> dict[str, dict[str, Any]]:
    config = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())
    return {c["name"]: c for c in config["tool"]["importlinter"]["contracts"]}


def layers_of(package: str) -> list[str]:
    (found,) = (c["layers"] for c in contracts().values() if c.get("containers") == [package])
    return list(found)


def test_contracts_list_every_target() -> None:
    of = {".".join(type(each).__module__.split(".")[:3]) for each in known.TARGETS}
    assert set(contracts()["Targets do not know each other"]["modules"]) == of
    door = contracts()["Only the door names a concrete target or stack"]
    assert of < set(door["forbidden_modules"])
    # And every room but the door, and theirs.
    floors = layers_of("kairoscope")[:-1]
    rooms = {f"kairoscope.{room}" for floor in floors for room in floor.split(" | ")}
    known_by = {"kairoscope.cli", "kairoscope.targets", "kairoscope.stacks"}
    assert set(door["source_modules"]) == rooms - known_by | {"bench"}


@pytest.mark.parametrize(("package", "heading"), FLOORS)
def test_the_rooms_are_drawn_as_they_are_held(package: str, heading: str) -> None:
    """What docs/architecture.md draws, from the top, and the layers that lint-imports looks at."""
    page = (paths.CHECKOUT / "docs" / "architecture.md").read_text()
    drawing = page.partition(f"\n{heading}\n")[2].split("```")[1]
    floors = re.findall(r"^ (\w+/?(?: │ \w+/?)*)  ", drawing, re.M)
    drawn = [floor.replace("/", "").split(" │ ") for floor in floors]
    held = [floor.split(" | ") for floor in layers_of(package) if " : " not in floor]
    assert [set(floor) for floor in drawn] == [set(floor) for floor in held]
    folder = paths.CHECKOUT / package.replace(".", "/")
    for room in "  ".join(floors).replace(" │ ", "  ").split("  "):
        assert (folder / room).is_dir() if room.endswith("/") else (folder / f"{room}.py").exists()


def test_what_every_room_has_is_in_the_table() -> None:
    page = (paths.CHECKOUT / "docs" / "architecture.md").read_text()
    *floors, below = layers_of("kairoscope")
    for room in (room for floor in floors for room in floor.split(" | ") if room != "cli"):
        assert f"\n| `{room}/` | " in page
    (line,) = (line for line in page.splitlines() if line.startswith(" errors, "))
    assert all(name in line for name in below.split(" : "))
