"""Names of modules and rooms."""

import re
import sys
import tomllib

from kairoscope import paths
from kairoscope.cli import known

# KairosDB has a queue, and a word for it that is its own: what is of it is called so everywhere.
OURS = {"queue"}


def test_no_module_hides_one_of_the_standard_library() -> None:
    """`from kairoscope.hosts import secrets` would: its readers took it for the other one."""
    rooms = ("kairoscope", "loaders", "bench")
    ours = [path for room in rooms for path in (paths.CHECKOUT / room).rglob("*.py")]
    names = {path.stem for path in (*ours, *paths.CHECKOUT.glob("tests/*/*.py"))}
    assert names & sys.stdlib_module_names == OURS


def test_contracts_list_every_target() -> None:
    config = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())
    contracts = {c["name"]: c for c in config["tool"]["importlinter"]["contracts"]}
    of = {".".join(type(each).__module__.split(".")[:3]) for each in known.TARGETS}
    assert set(contracts["Targets do not know each other"]["modules"]) == of
    door = contracts["Only the door names a concrete target or stack"]
    assert of < set(door["forbidden_modules"])
    # And every room but the door, and theirs.
    (layers,) = (c for c in contracts.values() if c["type"] == "layers")
    rooms = {f"kairoscope.{room}" for layer in layers["layers"][:-1] for room in layer.split(" | ")}
    known_by = {"kairoscope.cli", "kairoscope.targets", "kairoscope.stacks"}
    assert set(door["source_modules"]) == rooms - known_by | {"bench"}


def test_the_rooms_are_drawn_as_they_are_held() -> None:
    """What docs/architecture.md draws, from the top, and the layers that lint-imports looks at."""
    page = (paths.CHECKOUT / "docs" / "architecture.md").read_text()
    drawing = page.partition("## The rooms of kairoscope/")[2].split("```")[1]
    drawn = [
        re.findall(r"(\w+)/", line) for line in re.findall(r"^ (\w+/(?: │ \w+/)*)", drawing, re.M)
    ]
    config = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())
    (layers,) = (c for c in config["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    *held, below = (layer.split(" | ") for layer in layers["layers"])
    assert [set(floor) for floor in drawn] == [set(floor) for floor in held]
    for name in below[0].split(" : "):
        assert name in drawing.splitlines()[-1]
    for room in (room for floor in drawn for room in floor if room != "cli"):
        assert f"\n| `{room}/` | " in page
