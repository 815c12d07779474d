"""The matrix of faults: what is run, what cannot be had and why, and what a run came to."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from kairoscope import experiment as experiments
from kairoscope import paths, run_folder
from kairoscope.cli import known
from kairoscope.cli.main import main
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment
from kairoscope.experiment.faults import ACTIONS, OF_SERVERS, hosts_of
from kairoscope.plan.faults import hosts_there
from kairoscope.series import fault_page, fault_runs, faults
from kairoscope.series.driver import Wanted
from kairoscope.series.fault_runs import Record
from kairoscope.series.faults import Cell

BASE = experiments.load("faults")
NAMES = hosts_there(BASE, {"storage": "storage", "kairosdb": "kairosdb"})
LAB = known.target("lab").levers


def on_lab(action: str, on: str) -> str:
    return known.target("lab").lacks(action, on, "cassandra", secured=True)


def anything(action: str, on: str) -> str:
    return ""


def test_the_matrix_has_every_action_on_every_kind_or_says_why_not() -> None:
    cells = faults.matrix(BASE, LAB, NAMES, on_lab)
    assert cells[0] == Cell(faults.CONTROL, "")
    had = [cell.name for cell in cells if not cell.why]
    assert had == [
        "no fault",
        *(
            f"{action} {on}"
            for action in ACTIONS
            for on in ("storage-2", "kairosdb-1", "loader-1", "storage")
            if on != "loader-1" or action not in OF_SERVERS
        ),
    ]
    lacking = {cell.action for cell in cells if cell.why}
    assert lacking == set(OF_SERVERS)
    local = faults.matrix(BASE, known.target("local").levers, NAMES, anything)
    lacking = {cell.action for cell in local if cell.why == "this target has no lever for it"}
    assert lacking == set(ACTIONS) - {"kill", "freeze", "restart"}
    scylla = faults.matrix(
        BASE, LAB, NAMES, lambda *of: known.target("lab").lacks(*of, "scylla", secured=True)
    )
    assert [c.on for c in scylla if c.action == "fill-disk" and not c.why] == ["kairosdb-1"]


def test_every_cell_that_can_be_had_is_an_experiment_that_its_target_takes() -> None:
    for target in ("local", "lab"):
        for cell in faults.matrix(BASE, known.target(target).levers, NAMES, on_lab):
            if not cell.why:
                document = faults.of_cell(BASE, cell)
                longer = cell.name in ("kill storage", "restart storage") or cell.action in (
                    *("fill-disk", "clock", "expire-certificate"),
                )
                starts = 2 if cell.name == "expire-certificate storage" else int(longer)
                assert document["load"]["duration_s"] == 75 + starts * faults.STARTS_S
                made = known.plan(Experiment.model_validate(document), target)
                more = {"loss": " 20 %", "clock": " by 5s", "delay": " by 0.05s"}.get(
                    cell.action, ""
                )
                assert [fault.text for fault in made.experiment.faults] == (
                    [] if cell.action == faults.CONTROL else [cell.name + more]
                )
    assert BASE.load.duration_s is not None
    assert BASE.load.duration_s >= faults.least_s(BASE)


def test_some_of_it_is_chosen_by_action_host_or_both() -> None:
    cells = faults.matrix(BASE, LAB, NAMES, on_lab)
    assert {cell.action for cell in faults.chosen(cells, ["kill"])} == {"kill"}
    assert {cell.on for cell in faults.chosen(cells, ["storage"])} == {"storage"}
    assert [cell.name for cell in faults.chosen(cells, ["freeze loader-1"])] == ["freeze loader-1"]
    assert faults.chosen(cells, []) == cells


@pytest.mark.parametrize("target", ["local", "lab"])
def test_a_seed_gives_the_same_sequence_again(target: str) -> None:
    levers = known.target(target).levers
    made = [faults.sequence(BASE, levers, NAMES, on_lab, 10, seed) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    for document in made:
        planned = known.plan(Experiment.model_validate(document), target)
        assert len(planned.experiment.faults) > 10
        assert not any(fault.on.startswith("loader") for fault in planned.experiment.faults)
        assert planned.experiment.load.duration_s == 600


@pytest.mark.parametrize("seed", range(20))
def test_at_random_no_host_is_hit_while_it_comes_back(seed: int) -> None:
    document = faults.sequence(BASE, LAB, NAMES, on_lab, 30, seed)
    back: dict[str, float] = {}
    for fault in Experiment.model_validate(document).faults:
        hosts = hosts_of(fault.on, NAMES)
        assert all(fault.at_s >= back.get(host, 0) for host in hosts), fault.text
        starts = fault.action not in ("freeze", "partition", "loss", "delay", "slow-disk")
        back |= dict.fromkeys(hosts, fault.at_s + fault.for_s + starts * faults.RESTS_S)
        assert fault.at_s + fault.for_s + faults.RESTS_S <= 30 * 60


def test_at_random_too_short_a_load_has_no_fault() -> None:
    assert faults.sequence(BASE, LAB, NAMES, on_lab, 1.5, 1)["faults"] == []


GOOD = {"outcome": "as before", "silence_s": 0.5, "recovery_s": 2.0, "text": "x", "said": "y"}
BOOK = {"acknowledges": True, "acknowledged": 100, "stored": 100, "queued": 0, "missing": 0}


@pytest.mark.parametrize(
    ("cell", "verdict", "fault", "book", "word"),
    [
        (Cell("kill", "storage-2"), "fail", GOOD, BOOK, "held"),
        (Cell("kill", "storage-2"), "pass", GOOD, BOOK | {"stored": 99, "missing": 1}, "lost"),
        (Cell("kill", "storage-2"), "pass", GOOD | {"outcome": "unknown"}, BOOK, "not as before"),
        (Cell("kill", "storage-2"), "incomplete", GOOD, {}, "incomplete"),
        (
            Cell("kill", "storage-2"),
            "incomplete",
            GOOD | {"outcome": "not carried out"},
            BOOK,
            "incomplete",
        ),
        (Cell("freeze", "loader-1"), "invalid", GOOD | {"outcome": "unknown"}, BOOK, "held"),
        (Cell("freeze", "loader-1"), "pass", GOOD, BOOK, "passed wrongly"),
        (Cell("kill", "loader-1"), "incomplete", GOOD, BOOK, "held"),
        # Of a loader host that never came back.
        (
            Cell("kill", "loader-1"),
            "incomplete",
            GOOD,
            BOOK | {"acknowledged": 0, "stored": 0},
            "incomplete",
        ),
        (Cell("kill", "loader-1"), "fail", GOOD, BOOK, "passed wrongly"),
        (Cell("partition", "loader-1"), "fail", GOOD, BOOK, "held"),
        (Cell("partition", "loader-1"), "invalid", GOOD, BOOK, "held"),
        (Cell("partition", "loader-1"), "pass", GOOD, BOOK, "passed wrongly"),
        # Beside a neighbour on the machine: of silence and recovery nothing is known.
        (Cell("kill", "storage-2"), "invalid", GOOD, BOOK, "invalid"),
        (Cell(faults.CONTROL, ""), "invalid", GOOD, BOOK, "invalid"),
        (Cell("kill", "storage-2"), "invalid", GOOD, BOOK | {"stored": 99, "missing": 1}, "lost"),
        (Cell(faults.CONTROL, ""), "fail", GOOD, BOOK, "not as before"),
        (Cell(faults.CONTROL, ""), "pass", GOOD, BOOK, "held"),
    ],
)
def test_what_a_run_came_to(
    cell: Cell, verdict: str, fault: dict[str, Any], book: dict[str, Any], word: str
) -> None:
    outcome = "pass" if book.get("stored") == 100 else "fail"
    parts = {"readback": {"outcome": outcome, "text": ""}} if book else {}
    document = {"verdict": verdict, "reasons": [], "parts": parts, "faults": [fault]}
    assert faults.came("run", cell, document, book).word == word


@pytest.mark.parametrize(
    ("verdict", "outcomes", "word"),
    [
        # The next one began before all was as before: only after the last is that asked.
        ("fail", ("not as before", "as before"), "held"),
        ("fail", ("as before", "not as before"), "not as before"),
        ("fail", ("not carried out", "as before"), "incomplete"),
        # One was not undone.
        ("incomplete", ("not as before", "as before"), "incomplete"),
        ("invalid", ("as before", "as before"), "invalid"),
    ],
)
def test_what_a_sequence_at_random_came_to(
    verdict: str, outcomes: tuple[str, str], word: str
) -> None:
    told = [GOOD | {"outcome": outcome} for outcome in outcomes]
    document = {"verdict": verdict, "reasons": [], "parts": {}, "faults": told}
    cell = Cell(faults.RANDOM, "seed 1")
    assert faults.came("run", cell, document, BOOK).word == word


def test_an_exit_status_for_all() -> None:
    assert faults.exit_status(["held", "held"]) == 0
    assert faults.exit_status(["held", "not as before"]) == 2
    assert faults.exit_status(["held", None]) == 2
    assert faults.exit_status(["held", "invalid"]) == 2
    assert faults.exit_status(["incomplete", "lost", None]) == 1
    assert faults.exit_status(["passed wrongly"]) == 1
    assert faults.exit_status([]) == 2


class Driver:
    """Leaves a run folder for each load; refuses or is interrupted where it is told to."""

    def __init__(self, *refused: str, interrupted: str = "", commit: str = "0" * 40) -> None:
        self.refused, self.interrupted = list(refused), interrupted
        self.about = {"machine": {"cpus": 2}, "git": {"commit": commit, "dirty": False}}
        self.prepared: list[str] = []

    def prepare(self, wanted: Wanted) -> None:
        self.prepared.append(Path(wanted.experiment).stem)

    def load(self, wanted: Wanted, into: Path) -> Path:
        name = Path(wanted.experiment).stem
        if name == self.interrupted:
            raise KeyboardInterrupt
        if name in self.refused:
            self.refused.remove(name)
            raise UserError("storage-2 does not run")
        made = into / f"run-{name}"
        made.mkdir()
        told = yaml.safe_load(Path(wanted.experiment).read_text())["faults"]
        verdict = {"verdict": "pass", "reasons": [], "parts": {}, "faults": [GOOD] * len(told)}
        run_folder.write_json(made / run_folder.VERDICT, verdict)
        run_folder.write_json(made / run_folder.LEDGER, BOOK)
        run_folder.write_json(made / run_folder.MANIFEST, self.about)
        return made


def test_an_interrupted_matrix_goes_on_where_it_was(tmp_path: Path) -> None:
    folder, printed = tmp_path / "faults", io.StringIO()
    console = Console(file=printed, width=100)
    wanted = ["no fault", "kill storage-2", "kill kairosdb-1", "kill loader-1", "restart loader-1"]
    cells = [cell for cell in faults.matrix(BASE, LAB, NAMES, on_lab) if cell.name in wanted]
    record = Record("faults", "lab", {"only": []}, cells)
    fault_runs.start(record, folder, BASE, None)
    driver = Driver("kill-storage-2", interrupted="kill-kairosdb-1")
    with pytest.raises(KeyboardInterrupt):
        fault_runs.run(record, folder, driver, console, fault_page.write)
    # Deployed once, and again where the load was refused.
    assert driver.prepared == ["no-fault", "kill-storage-2"]

    again = Record.read(folder)
    assert again == record
    assert [cell.name for cell in again.left()] == ["kill kairosdb-1", "kill loader-1"]
    assert again.exit_status == 2
    assert "2 not run yet; 1 cannot be had" in fault_page.sentence(again)
    fault_runs.run(again, folder, Driver(commit="f" * 40), console, fault_page.write)
    assert list(again.done) == wanted[:4]
    counts = re.findall(r"\(\d of \d\)", printed.getvalue())
    assert counts == [f"({number} of 4)" for number in (1, 2, 3, 3, 4)]
    # The verdict of a run whose loader was killed is none.
    assert again.done["kill loader-1"].word == "passed wrongly"
    assert again.exit_status == 1
    page, text = ((folder / name).read_text() for name in (fault_page.HTML, fault_page.MARKDOWN))
    for said in (page, text):
        assert "0 of 400 acknowledged points lost" in said
        assert "restart of loader-1" in said
        assert "passed wrongly" in said
        assert "commit: 000000000000; ffffffffffff" in said
        assert "machine: None, 2 cores" in said
    assert 'href="run-kill-storage-2/report.html"' in page


@pytest.mark.parametrize(
    ("options", "other"),
    [(["--only", "freeze"], "only"), (["--minutes", "5", "--seed", "0"], "minutes, seed")],
)
def test_going_on_with_other_options_is_refused(
    options: list[str], other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "results_dir", lambda: tmp_path)
    cells = faults.chosen(faults.matrix(BASE, LAB, NAMES, on_lab), ["kill"])
    record = Record("faults", "lab", {"only": ["kill"], "minutes": None}, cells)
    fault_runs.start(record, tmp_path / "faults" / "begun", BASE, None)
    done = CliRunner().invoke(main, ["faults", "--target", "lab", "--resume", "begun", *options])
    assert done.exit_code == 2
    assert f"--resume begun: that one has other {other}: " in " ".join(done.output.split())


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    run_folder.write_json(tmp_path / fault_runs.FILE, {"format": 1, "cells": [{"x": 1}]})
    with pytest.raises(UserError, match="not what it holds"):
        Record.read(tmp_path)
    run_folder.write_json(tmp_path / fault_runs.FILE, {"format": 0})
    with pytest.raises(UserError, match="another version"):
        Record.read(tmp_path)
