"""What a page shows could be typed: verbs, options and variables are there, and an experiment's
fields."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from test_docs import PAGES

from kairoscope import paths
from kairoscope.cli import known
from kairoscope.cli.main import main
from kairoscope.experiment import fields

MAKEFILE = (paths.CHECKOUT / "Makefile").read_text()
VERBS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
VARIABLES = set(re.findall(r"^([A-Z]+) \?=", MAKEFILE, re.MULTILINE))
# Of the environment, which may as well stand behind `make`.
ENVIRONMENT = {"KAIROSCOPE_HOME", "KAIROSCOPE_LOCAL_NET"}
# Which ONLY= a verb takes, by its line of `make help`.
ONLY = {
    verb: set(only.split("|"))
    for verb, only in re.findall(r"^([a-z-]+):.*##.*\bONLY=([\w|]+)", MAKEFILE, re.MULTILINE)
}

# Pages of the past say how it was, the changelog what was there in which release.
NOW = [name for name in PAGES if not name.startswith(("results/published/", "CHANGELOG"))]

_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`((?:[^`\n]|\n(?!\n))+)`")
_COMMAND = re.compile(
    r"(?:^|\s)(?:sudo )?(?P<what>make|(?:\S*/)?kairoscope)(?P<rest>(?: [^|;&\n]*)?)$"
)
# What stands for something, or is cut short: <run>, [--into FOLDER], …
_OPEN = re.compile(r"[<>…\[\]$]|^\.+$")


def commands(text: str) -> Iterator[list[str]]:
    """What a page's code blocks and code words call of ours, a list of words each."""
    blocks = "\n".join(_BLOCK.findall(text)).replace("\\\n", " ")
    words = [" ".join(code.split()) for code in _CODE.findall(_BLOCK.sub("", text))]
    for line in [*blocks.split("\n"), *words]:
        # Behind a # or a gap it is explained.
        typed = re.split(r"(?:^|\s)#|(?<=\S) {3,}", re.sub(r"<[^>]*>", "<…>", line))[0]
        for part in re.split(r"&&|\||;", typed):
            if found := _COMMAND.search(part.rstrip()):
                yield [Path(found["what"]).name, *shlex.split(found["rest"])]


def wrong_with_make(words: list[str]) -> Iterator[str]:
    """What `make` would not know."""
    verbs = [word for word in words if "=" not in word and not _OPEN.search(word)]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    yield from (f"verb {verb}" for verb in verbs if verb not in VERBS)
    yield from (f"variable {name}" for name in given if name not in VARIABLES | ENVIRONMENT)
    there = {
        "TARGET": {target.name for target in known.TARGETS},
        "EXPERIMENT": {path.stem for path in paths.EXPERIMENTS.glob("*.yml")},
        "VERB": set(main.commands["operate"].commands),  # type: ignore[attr-defined]
    }
    if offered := [ONLY[verb] for verb in verbs if verb in ONLY]:
        there["ONLY"] = set().union(*offered)
    for name, value in given.items():
        own = _OPEN.search(value) or value.startswith(("my-", "./"))
        if name in there and not own and not set(value.split("|")) <= there[name]:
            yield f"{name}={value}"


def wrong_with_kairoscope(words: list[str]) -> Iterator[str]:
    """What the command line would not know."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if _OPEN.search(name):
            return
        if name not in command.commands:
            yield f"verb {name}"
            return
        command = command.commands[name]
    if command.name in ("terraform", "exec"):
        return
    options = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in words:
        option = word.strip("[]").partition("=")[0]
        if option.startswith("-") and option not in options | {"--help", "-h", "--version"}:
            yield f"option {option}"
    plain = not any(word.startswith("-") or _OPEN.search(word) for word in words)
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    if plain and all(one.nargs == 1 for one in arguments) and len(words) > len(arguments):
        yield f"argument {words[len(arguments)]}"


def wrong(words: list[str]) -> list[str]:
    """What of a command is not there."""
    looked = wrong_with_make if words[0] == "make" else wrong_with_kairoscope
    return list(looked(words[1:]))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("make demo SENSORS=500 KAIROSCOPE_LOCAL_NET=127.0.7", []),
        ("make demos", ["verb demos"]),
        ("make demo SENSOR=500", ["variable SENSOR"]),
        ("make deploy load TARGET=laps", ["TARGET=laps"]),
        ("make plan EXPERIMENT=single-61k", ["EXPERIMENT=single-61k"]),
        ("make plan EXPERIMENT=my-own.yml", []),
        ("make operate VERB=evict TARGET=lab", ["VERB=evict"]),
        ("make test ONLY=faults", ["ONLY=faults"]),
        ("make test-long ONLY=faults", []),
        ("make bench ONLY=million", []),
        ("kairoscope lode", ["verb lode"]),
        ("kairoscope queue dorp --dead", ["verb dorp"]),
        ("kairoscope load --untl PATH", ["option --untl"]),
        ("kairoscope ab EXP1 EXP2 --rounds 6 [--sensors … --rate …] [--factor …]", []),
        ("kairoscope judge RUN RUN", ["argument RUN"]),
        ("kairoscope lab exec storage-1 -- find -maxdepth 1", []),
    ],
)
def test_what_is_wrong_is_seen(line: str, found: list[str]) -> None:
    assert [wrong(words) for words in commands(f"```\n{line}   # so\n```\n")] == [found]
    assert [wrong(words) for words in commands(f"and `{line}`, too")] == [found]


def test_there_are_commands() -> None:
    found = list(commands((paths.CHECKOUT / "README.md").read_text()))
    assert ["make", "demo"] in found
    assert ["kairoscope", "lab", "kill", "storage-2"] in found


@pytest.mark.parametrize("name", NOW)
def test_every_command_of_a_page_is_there(name: str) -> None:
    for words in commands((paths.CHECKOUT / name).read_text()):
        assert not (off := wrong(words)), f"{name}: {' '.join(words)}: {off}"


SECTIONS = {name: set(model.model_fields) for name, model in fields.sections().items() if name}
# KairosDB has settings of its own under that name, and a run and a matrix have files of it.
_NAMES = "|".join(name for name in SECTIONS if name not in ("kairosdb", "load.steps", "faults"))
_FIELD = re.compile(rf"(?<![\w./-])({_NAMES})\.(?!py\b|json\b)(\w+)")
_GIVEN = re.compile(rf"\b(kairosdb|{_NAMES}): {{(\w+):")


@pytest.mark.parametrize("name", NOW)
def test_every_field_of_an_experiment_is_there(name: str) -> None:
    text = (paths.CHECKOUT / name).read_text()
    for code in _CODE.findall(_BLOCK.sub("", text)):
        for section, field in (*_FIELD.findall(code), *_GIVEN.findall(code)):
            assert field in SECTIONS[section], f"{name}: `{code}`"
