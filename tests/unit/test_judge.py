"""A run folder is judged again: the same words from the files alone, or one sentence why not."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import load_samples
import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from run_samples import NODES, Run, run_of

from kairoscope import run_folder
from kairoscope.cli.main import main
from kairoscope.compare import history
from kairoscope.run import finishing
from kairoscope.run_folder import Facts, JsonLines
from kairoscope.verdict import conclude
from kairoscope.verdict.settlement import FailedPoint

DOCUMENTS = (run_folder.MANIFEST, run_folder.PLAN, run_folder.FACTS)
STATUS = {"pass": 0, "fail": 1, "incomplete": 2}

# What has no psutil, no driver and no server to ask: a machine that only has the run folder.
ELSEWHERE = """
import sys
for name in ("psutil", "cassandra", "aiohttp", "kairoscope.run", "kairoscope.hosts"):
    sys.modules[name] = None
from pathlib import Path
from kairoscope.verdict import conclude
print(conclude.again(Path(sys.argv[1])).verdict.verdict)
"""


def passing(folder: Path) -> Run:
    """A run in which all went well, judged; its servers were killed after it."""
    run = run_of(folder)
    run_folder.write_json(folder / run_folder.STORE_WINDOW, {"nodes": {}})
    run_folder.write_json(folder / run_folder.KILLED, {"t": run.began_s + 25})
    run.read_back()
    assert run.judge().verdict == "pass"
    return run


def failing(folder: Path) -> Run:
    """A run that lost seven points, of which KairosDB says of three that it gave them up."""
    run = run_of(folder)
    points = load_samples.points_of(run.schedule, next(iter(run.schedule.series())))
    name = run.schedule.spec.metric_name(next(iter(run.schedule.series())).number)
    first = next(iter(run.schedule.series())).number
    failed = [FailedPoint(name, t, "TTL of 22 years") for t, _ in points[:3]]
    run.read_back(lost={first: 5, first + 1: 2}, failed=failed)
    assert run.judge().verdict == "fail"
    return run


def interrupted(folder: Path) -> Run:
    """A run that was ended by Ctrl-C under load: one worker left no final figures."""
    run = run_of(folder)
    (folder / "load" / "worker-2.json").unlink()
    run.facts.incomplete.insert(0, "interrupted by the user (Ctrl-C)")
    run.facts.drain, run.facts.captured = None, False
    assert run.judge().verdict == "incomplete"
    return run


def never_loaded(folder: Path) -> Run:
    """A run that was ended before anything was sent."""
    run = run_of(folder)
    shutil.rmtree(folder / "load")
    (folder / "load").mkdir()
    run.state.schedule = None
    run.facts.incomplete.insert(0, "interrupted by the user (Ctrl-C)")
    run.facts.drain, run.facts.captured = None, False
    assert run.judge().verdict == "incomplete"
    return run


RUNS = (passing, failing, interrupted, never_loaded)


def results(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes()
        for name in run_folder.RESULTS
        if (folder / name).exists()
    }


def judge(folder: Path | None = None, home: Path | None = None) -> Result:
    environment = {"KAIROSCOPE_HOME": str(home)} if home else {}
    return CliRunner().invoke(main, ["judge", *([str(folder)] if folder else [])], env=environment)


def refused(folder: Path) -> str:
    """Judge what cannot be judged: one sentence, status 2, and nothing is changed."""
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    done = judge(folder)
    assert done.exit_code == 2, done.output
    assert done.output.startswith("Error: ")
    assert len(done.output.strip().splitlines()) == 1
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    return done.output.removeprefix("Error: ")


@pytest.mark.parametrize("made", RUNS)
def test_judged_again_it_says_the_same(tmp_path, made, capsys):
    run = made(tmp_path / "run")
    before = results(run.folder)
    files = {path for path in run.folder.rglob("*") if path.is_file()}
    first, second = judge(run.folder), judge(run.folder)
    assert results(run.folder) == before
    assert {path for path in run.folder.rglob("*") if path.is_file()} == files
    said = json.loads(before[run_folder.VERDICT])
    assert first.exit_code == STATUS[said["verdict"]]
    assert first.output == second.output
    assert f"verdict: {said['verdict']}  " in first.output
    # make says no more than that there was an error.
    last = f"exit status {first.exit_code}: the verdict is {said['verdict']}"
    assert (first.output.splitlines()[-1] == last) == (first.exit_code != 0)
    for part in said["parts"].values():
        assert part["text"] in first.output


@pytest.mark.parametrize("made", RUNS)
def test_another_machine_says_the_same(tmp_path, made):
    """With none of what a run needs, and from a copy in another place."""
    run = made(tmp_path / "run")
    before = results(run.folder)
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(run.folder, copy)
    for name in before:
        (copy / name).unlink()
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, copy],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("KAIROSCOPE")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == json.loads(before[run_folder.VERDICT])["verdict"]
    assert results(copy) == before


def test_the_ledger_names_what_is_lost_and_what_was_given_up(tmp_path):
    run = failing(tmp_path / "run")
    book = run.json(run_folder.LEDGER)
    assert (book["missing"], book["failed_logged"], book["stored"]) == (4, 3, 400 - 7)
    gaps = [json.loads(line) for line in (run.folder / run_folder.LEDGER_GAPS).open()]
    assert [gap["count"] for gap in gaps] == [2, 2]
    assert book["failed_reasons"] == [{"reason": "TTL of 22 years", "points": 3}]


@pytest.mark.parametrize(
    ("limits", "part"),
    [
        ({"p99_ms": 1}, "latency"),
        ({"achieved": 1.0}, None),
        ({"drain_s": 0.1}, "drain"),
    ],
)
def test_another_limit_gives_another_verdict(tmp_path, limits, part):
    run = passing(tmp_path / "run")
    run.limit(**limits)
    done = judge(run.folder)
    said = run.json(run_folder.VERDICT)
    failed = [name for name, of in said["parts"].items() if of["outcome"] == "fail"]
    assert failed == ([part] if part else [])
    assert done.exit_code == (1 if part else 0)
    assert said["verdict"] == ("fail" if part else "pass")


def test_a_longer_limit_says_nothing_of_a_queue_that_was_watched_no_longer(tmp_path):
    run = run_of(tmp_path / "run")
    run.read_back()
    run.drained(60.2, 5)
    assert run.judge().parts["drain"].outcome == "fail"
    run.limit(drain_s=90)
    assert judge(run.folder).exit_code == 2
    part = run.json(run_folder.VERDICT)["parts"]["drain"]
    assert (part["outcome"], "60 s alone" in part["text"]) == ("unknown", True)


def test_what_judging_does_not_give_any_more_is_gone(tmp_path):
    run = failing(tmp_path / "run")
    run.read_back()
    run.facts.end(run.folder)
    assert judge(run.folder).exit_code == 0
    assert not (run.folder / run_folder.LEDGER_GAPS).exists()


def needed(folder: Path) -> list[str]:
    return [*DOCUMENTS, *Facts.read(folder).files]


@pytest.mark.parametrize("made", RUNS)
def test_no_needed_file_can_be_missing(tmp_path, made):
    run = made(tmp_path / "run")
    names = needed(run.folder)
    if made is passing:
        kinds = ("readback.json", "readback-gaps.jsonl", "failed.jsonl", "queue.jsonl")
        load = ("load/spec.json", "load/hosts.json", "load/worker-3.json", "load/worker-0.jsonl")
        others = ("events.jsonl", "processes.jsonl", run_folder.CAPTURES, "latency/worker-1.hlog")
        decide = (run_folder.STORE_WINDOW, run_folder.KILLED)
        assert {*kinds, *load[:3], *others, *decide} <= set(names)
        assert not set(run_folder.RESULTS) & set(names)
    for name in names:
        path = run.folder / name
        content = path.read_bytes()
        path.unlink()
        said = refused(run.folder)
        assert name in said
        assert "missing" in said or "no manifest.json" in said
        path.write_bytes(content)
    assert judge(run.folder).exit_code in (0, 1, 2)


@pytest.mark.parametrize("made", [passing, interrupted])
def test_no_needed_file_can_be_cut_off(tmp_path, made):
    run = made(tmp_path / "run")
    for name in needed(run.folder):
        path = run.folder / name
        content = path.read_bytes()
        if not content:
            continue
        path.write_bytes(content[: -(len(content) // 3 + 1)])
        said = refused(run.folder)
        assert name in said or (name == run_folder.PLAN and "plan.json" in said)
        path.write_bytes(content)


def test_of_a_run_that_was_killed_it_says_so(tmp_path):
    """SIGKILL while points were read back: nothing of it is listed, lines may be cut off."""
    run = run_of(tmp_path / "run")
    for name in (run_folder.QUEUE, run_folder.PROCESSES, run_folder.EVENTS):
        with (run.folder / name).open("a") as file:
            file.write('{"t": 17900')
    assert (run.folder / "load" / "worker-0.hlog").exists(), "not moved yet"
    done = judge(run.folder)
    assert done.exit_code == 2
    said = run.json(run_folder.VERDICT)
    assert said["verdict"] == "incomplete"
    assert said["reasons"][0].startswith("the run did not come to its end")
    assert said["parts"]["latency"]["outcome"] == "pass"
    assert run.json(run_folder.LEDGER)["stored"] is None
    before = results(run.folder)
    assert judge(run.folder).output == done.output
    assert results(run.folder) == before


def test_a_run_that_was_killed_never_passes(tmp_path):
    """Whatever of it is missing."""
    run = passing(tmp_path / "run")
    names = needed(run.folder)
    run.facts.ended, run.facts.files = False, {}
    run.facts.write(run.folder)
    for name in names:
        path = run.folder / name
        content = path.read_bytes()
        path.unlink()
        done = judge(run.folder)
        assert done.exit_code == 2, name
        assert "Traceback" not in done.output
        assert done.output.startswith("Error: ") or "verdict: incomplete" in done.output
        path.write_bytes(content)


def test_a_run_of_an_older_kairoscope_is_left_as_it_is(tmp_path):
    run = passing(tmp_path / "run")
    (run.folder / run_folder.FACTS).unlink()
    assert "older Kairoscope" in refused(run.folder)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (run_folder.FACTS, {"format": 1}, "another version"),
        (run_folder.FACTS, {"format": 2, "incomplete": []}, "missing or unknown"),
        (run_folder.FACTS, [], "not a JSON object"),
        (run_folder.MANIFEST, {"run": "x"}, "another version"),
        (run_folder.PLAN, {"format": 1}, "plan.json"),
    ],
)
def test_a_document_of_another_kind_is_refused(tmp_path, name, content, why):
    run = passing(tmp_path / "run")
    (run.folder / name).write_text(json.dumps(content))
    assert why in refused(run.folder)


def test_a_file_that_holds_something_else_is_refused(tmp_path):
    """Of the same length, so that only its reader can tell."""
    run = passing(tmp_path / "run")
    path = run.folder / "load" / "worker-1.json"
    path.write_text(path.read_text().replace('"send_error_us"', '"sent_error_us"'))
    assert "cannot be judged" in refused(run.folder)


def test_what_is_no_run_folder_is_refused(tmp_path):
    (tmp_path / "other.txt").write_text("x")
    assert "no manifest.json" in refused(tmp_path)
    done = judge(tmp_path / "nothing")
    assert (done.exit_code, "No run folder" in done.output) == (2, True)


def test_the_latest_run_is_judged_if_none_is_named(tmp_path):
    passing(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "latest").symlink_to("one")
    done = judge(home=tmp_path)
    assert done.exit_code == 0, done.output
    assert judge(home=tmp_path / "other").exit_code == 2


def test_a_folder_that_cannot_be_written_keeps_its_results(tmp_path):
    """The ledger's draft cannot be, when others have been written already."""
    run = failing(tmp_path / "run")
    before = results(run.folder)
    run.limit(p99_ms=1)
    in_the_way = run.folder / f".{run_folder.LEDGER_GAPS}.part"
    in_the_way.mkdir()
    assert "could not be written" in refused(run.folder)
    assert results(run.folder) == before
    in_the_way.rmdir()
    assert judge(run.folder).exit_code == 1
    assert results(run.folder) != before


def test_a_document_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.json"
    run_folder.write_json(path, {"a": 1})

    def records():
        yield {"a": 2}
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        run_folder.write_lines(path, records())
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_step_in_which_no_request_was_due_is_refused(tmp_path):
    """As a plan refuses it by now."""
    lengths = [{"rate": 1.0, "duration_s": seconds} for seconds in (60, 50, 30)]
    run = run_of(tmp_path / "run", rate=None, duration_s=None, steps=lengths)
    (run.folder / run_folder.QUEUE).unlink()
    queue = JsonLines(run.folder / run_folder.QUEUE)
    for second in range(150):
        for node in NODES:
            queue.write(t=run.began_s + second, node=node, waiting=7)
    run.change(run_folder.LOAD_SPEC, points_per_request=60)
    run.end()
    assert "cannot be judged" in refused(run.folder)


def test_a_history_that_cannot_be_written_leaves_a_run_that_can_be_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as root's, of a load on the lab."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    (tmp_path / history.NAME).mkdir()
    run = run_of(tmp_path / "run")
    run.read_back()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert finishing.finish(run.state, Console(width=200)) == "pass"
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "not in the history: " in capsys.readouterr().out
    assert conclude.again(run.folder).verdict.verdict == "pass"
