"""Two experiments that take turns, on a deployment that is made up."""

import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from compare_samples import finished
from rich.console import Console

from kairoscope.cli.main import main
from kairoscope.errors import UserError
from kairoscope.series import ab, driver
from kairoscope.series.ab import Series, turns
from kairoscope.series.driver import Wanted

OURS, STOCK = Wanted("ours.yml"), Wanted("stock.yml")


class Deployment:
    """Runs that take no time; `warming`: the machine gets faster by so much with every run."""

    def __init__(
        self, warming: float = 0.0, stop_at: int | None = None, word: str = "pass"
    ) -> None:
        self.calls: list[str] = []
        self._made = 0
        self._warming, self._stop_at, self._word = warming, stop_at, word
        self._rng = np.random.default_rng(3)

    def prepare(self, wanted: Wanted) -> None:
        self.calls.append(f"prepare {Path(wanted.experiment).stem}")

    def load(self, wanted: Wanted, into: Path) -> Path:
        name = Path(wanted.experiment).stem
        self.calls.append(f"load {name}")
        self._made += 1
        cost = (4.0 if name == "stock" else 1.0) * (1 + self._warming) ** -self._made
        stops = self._made == self._stop_at
        made = finished(
            into,
            f"run-{self._made:02d}-{name}",
            at=3 * self._made,
            experiment=name,
            cpu=cost * float(np.exp(self._rng.normal(0, 0.01))),
            word="incomplete" if stops else self._word,
        )
        if stops:
            raise KeyboardInterrupt
        return made


@pytest.fixture
def console() -> Console:
    with Path("/dev/null").open("w") as nowhere:
        yield Console(file=nowhere)


def series(rounds: int, first: Wanted = STOCK, second: Wanted = OURS) -> Series:
    return Series(rounds=rounds, target="local", first=first, second=second)


def begun(folder: Path, rounds: int, **more: Any) -> Series:
    made = series(rounds, **more)
    ab.start(made, folder, lambda wanted: None)
    return made


def test_sides_take_turns_and_a_pair_more_is_thrown_away() -> None:
    order = "".join("A" if turn.side == "first" else "B" for turn in turns(5))
    assert order == "ABBAABBAABBA"
    assert [turn.pair for turn in turns(1)] == [0, 0, 1, 1]


def test_a_series(tmp_path: Path, console: Console) -> None:
    folder, deployment = tmp_path / "series", Deployment()
    found = ab.run(begun(folder, 4), folder, deployment, console)
    assert (found.word, found.exit_status) == ("better", 0)
    assert (found.first.label, found.second.label) == ("stock", "ours")
    # Each load is on a deployment brought to it, whatever was before.
    assert deployment.calls[:8] == [
        *("prepare stock", "load stock", "prepare ours", "load ours"),
        *("prepare ours", "load ours", "prepare stock", "load stock"),
    ]
    index = json.loads((folder / "index.json").read_text())
    assert [each["kept"] for each in index["done"]] == [False] * 2 + [True] * 8
    assert {each["verdict"] for each in index["done"]} == {"pass"}
    assert all((folder / each["run"]).is_dir() for each in index["done"])
    assert index["word"] == "better"
    assert "A B B A A B B A A B" in found.notes[-1]
    assert "run-01-stock, run-02-ours" in found.notes[-1]
    assert found.first.runs[0].name == "run-04-stock"
    assert (folder / "compare.html").exists()
    assert json.loads((folder / "compare.json").read_text())["word"] == "better"


def test_an_experiment_beside_itself_on_a_machine_that_warms_up(
    tmp_path: Path, console: Console
) -> None:
    """Ours always first and nothing thrown away told identical sides apart (issue 24, A14)."""
    folder = tmp_path / "series"
    found = ab.run(begun(folder, 6, first=OURS), folder, Deployment(warming=0.05), console)
    assert found.word in ("same", "undecided")
    assert (found.first.label, found.second.label) == ("A (ours)", "B (ours)")


def test_an_interrupted_series_goes_on(tmp_path: Path, console: Console) -> None:
    folder = tmp_path / "series"
    with pytest.raises(KeyboardInterrupt):
        ab.run(begun(folder, 3), folder, Deployment(stop_at=4), console)
    left = Series.read(folder)
    assert [len(left.done), left.stopped] == [3, ["run-04-stock"]]
    deployment = Deployment()
    deployment._made = 4
    found = ab.run(left, folder, deployment, console)
    assert deployment.calls[1] == "load stock"
    assert len(Series.read(folder).done) == 8
    assert [len(found.first.runs), len(found.second.runs)] == [3, 3]
    assert not found.left_out


def test_runs_that_are_not_judged_stay_and_do_not_count(tmp_path: Path, console: Console) -> None:
    folder = tmp_path / "series"
    found = ab.run(begun(folder, 3), folder, Deployment(word="invalid"), console)
    assert (found.word, len(found.left_out)) == ("not comparable", 6)


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "s", 3)
    index = json.loads((tmp_path / "s" / "index.json").read_text())
    for document, sentence in (
        (index | {"format": 9}, "another version"),
        ({"format": 1, "rounds": 3}, "not what a series writes"),
    ):
        (tmp_path / "s" / "index.json").write_text(json.dumps(document))
        with pytest.raises(UserError, match=sentence):
            Series.read(tmp_path / "s")


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(main, ["ab", *arguments])


def test_command(call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployments = [Deployment(stop_at=3), Deployment()]
    deployments[1]._made = 3
    made: list[tuple[Any, ...]] = []

    def verbs(*of: Any) -> Deployment:
        made.append(of)
        return deployments.pop(0)

    monkeypatch.setattr(driver, "Verbs", verbs)
    monkeypatch.chdir(tmp_path)
    arguments = ("laptop", "laptop-60k", "--rounds", "3", "--sensors", "500", "--duration", "120")
    stopped = call(*arguments, "--inventory", "mine.yml")
    # Its verbs are called from another folder.
    assert made[0][3][-2:] == ("--inventory", str(tmp_path / "mine.yml"))
    assert stopped.exit_code == 2
    (folder,) = (tmp_path / "series").iterdir()
    assert "interrupted after 2 runs; the same command goes on" in stopped.output
    assert f"--resume {folder.name}" in stopped.output
    index = json.loads((folder / "index.json").read_text())
    assert index["first"]["options"] == ["--duration", "120", "--sensors", "500"]
    other = call("laptop", "fleet", "--resume", folder.name)
    assert (other.exit_code, "that series is of laptop and laptop-60k" in other.output) == (2, True)
    emptied = call(*arguments, "--empty", "--resume", folder.name)
    assert (emptied.exit_code, "with other options" in emptied.output) == (2, True)
    meant = ("--factor", "durability", "--tolerance", "7%")
    done = call(*arguments, *meant, "--resume", folder.name)
    assert (done.exit_code, "compare.html" in done.output) == (0, True)
    index = json.loads((folder / "index.json").read_text())
    assert (index["factors"], index["tolerance"]) == (["durability"], 0.07)
    assert json.loads((folder / "compare.json").read_text())["tolerance"] == 0.07


def test_the_store_is_emptied_once_its_servers_are_as_wanted(
    monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    calls: list[str] = []

    def called(_: Any, *words: str, **how: Any) -> None:
        calls.append(" ".join(words))

    monkeypatch.setattr(driver.Verbs, "_call", called)
    hosts = ("--inventory", "/mine.yml")
    verbs = driver.Verbs(
        "nowhere", console, lambda side: calls.append(f"empty {side.experiment}"), hosts
    )
    verbs.prepare(OURS)
    assert calls == ["deploy ours.yml --inventory /mine.yml", "empty ours.yml"]


def test_a_quiet_verb_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "kairoscope"
    program.write_text("#!/bin/sh\necho of its own\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    out = io.StringIO()
    driver.Verbs("nowhere", Console(file=out))._call("deploy", "ours.yml", "--engine", quiet=True)
    assert out.getvalue() == "deploy ours.yml …\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_verb_that_fails_as_it_was_interrupted_interrupts_the_series(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    """It is no failure of what was deployed, after which the next one would have its turn."""
    program = tmp_path / "kairoscope"
    script = (
        "import os, signal\nos.kill(os.getppid(), {0})\nsignal.sigwait([{0}])\nraise SystemExit(2)"
    )
    block = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [{0}])\n"
    program.write_text(f"#!{sys.executable}\n" + (block + script).format(int(number)))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            driver.Verbs("nowhere", Console(file=io.StringIO()))._call("deploy", "ours.yml")
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("laptop", "nothing-like-it"), "nothing-like-it"),
        (("laptop", "laptop", "--resume", "no-such"), "there is no such series"),
        (("laptop", "laptop", "--target", "moon"), "TARGET=moon"),
        (("laptop", "laptop", "--factor", "moon"), "--factor moon"),
        (("laptop", "laptop", "--empty", "--target", "hosts"), "may hold others' than ours"),
        (("laptop", "laptop", "--empty", "--target", "aws"), "it is for local and lab"),
    ],
)
def test_bad_input_is_a_sentence(
    call: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = call(*arguments)
    assert done.exit_code == 2
    assert sentence in done.output
    assert not (tmp_path / "series").exists()
