"""The report of a run that goes on, from a folder that fills."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import report_samples
import run_samples

from kairoscope import report, run_folder
from kairoscope.report import data
from kairoscope.serve.pages import LEAST_MS, Pages
from kairoscope.serve.shelf import Shelf, address
from kairoscope.serve.standing import told
from kairoscope.serve.tails import Tails

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
NAME = "20260921T142640Z-mine-local"
RATE = 20


def loading(folder: Path, **load: Any) -> run_samples.Run:
    """A run whose load goes on: what its loaders wrote is still on their hosts."""
    run = run_samples.run_of(folder / NAME, **load)
    for path in (run.folder / run_folder.LOAD).glob("worker-*"):
        path.unlink()
    run.facts.drain, run.facts.captured = None, False
    run.facts.write(run.folder)
    return run


def look(run: run_samples.Run, second: int, **other: Any) -> None:
    """Write what the loaders told after so many seconds; all is well unless `other` says so."""
    due = second * RATE
    figures = {"due": due, "sent": due, "acknowledged": due, "rejected": 0, "unknown": 0}
    figures |= {"not_sent": 0, "in_flight": 0, "p50_ms": 3.0, "p99_ms": 12.0, "waiting": 14}
    figures |= {"elapsed_s": float(second), "duration_s": 20.0}
    start = run.schedule.spec.start_ms / 1000
    run.state.at("load", start + second, **(figures | other))


def pages(folder: Path) -> Pages:
    return Pages(Shelf(lambda: [folder]), REFERENCE)


def text_of(made: Pages, folder: Path) -> str:
    page = made.page(address(folder))
    assert page is not None
    return page.body.decode()


def outcomes(text: str) -> list[str]:
    return re.findall(r'<td><span class="outcome">. (.*?)</span>', text)


def test_the_page_has_what_the_folder_has_so_far(tmp_path):
    run, made = loading(tmp_path), pages(tmp_path)
    text = text_of(made, run.folder)
    assert "GOING ON" in text
    assert outcomes(text) == ["not yet"] * 5
    assert 'id="chart-throughput"' not in text
    assert "No chart yet." in text
    assert "No chart: " not in text
    for second in range(1, 8):
        look(run, second)
    text = text_of(made, run.folder)
    assert "13 s left of 20 s; 140 points scheduled, 140 acknowledged, 0 behind" in text
    assert "p50 3 ms, p99 12 ms; queue 14 points" in text
    assert "of the warm-up" in text
    assert {'id="chart-throughput"' in text, 'id="chart-client-latency"' in text} == {True}
    for second in range(8, 18):
        look(run, second, acknowledged=second * RATE - 5, sent=second * RATE - 2)
    text = text_of(made, run.folder)
    assert "3 s left of 20 s; 340 points scheduled, 335 acknowledged, 2 behind" in text
    assert outcomes(text) == ["within so far"] * 3 + ["not yet"] * 2
    # None passes before its end, and nothing that is to come is called missing.
    assert "pass</span>" not in text
    assert "Missing from this run" not in text


def test_what_is_behind_or_slow_shows_before_the_end(tmp_path):
    run, made = loading(tmp_path), pages(tmp_path)
    for second in range(1, 18):
        slow = {"p99_ms": 1800.0} if second == 12 else {}
        look(run, second, acknowledged=min(second * RATE, 200), **slow)
    text = text_of(made, run.folder)
    # Whether a second over the limit is more than 1 % of all points only the histograms tell.
    assert outcomes(text)[:2] == ["over so far", "not yet"]
    assert "over 500 ms in 1 of 12 measured seconds, 1,800 ms at most" in text


def test_what_such_servers_cannot_tell_is_not_waited_for(tmp_path):
    run, made = loading(tmp_path), pages(tmp_path)
    captures = run.json(run_folder.MANIFEST)["captures"]
    untold = {"queue": "it tells no queue", "drain": "it tells none"}
    run.change(run_folder.MANIFEST, captures=captures | {"not_judged": untold})
    for second in range(1, 18):
        look(run, second)
    text = text_of(made, run.folder)
    assert outcomes(text)[2:4] == ["not judged"] * 2
    assert "it tells no queue" in text


def test_a_machine_that_is_not_ours_is_said_before_the_end(tmp_path):
    run, made = loading(tmp_path), pages(tmp_path)
    processes = run_folder.JsonLines(run.folder / run_folder.PROCESSES)
    for second in range(31):
        counters = {"cpu_busy_s": 2.0 * second, "cpu_kernel_s": 0.0, "cpu_ours_s": 1.0 * second}
        processes.write(t=run.began_s + second, name="mine", role="host", cpus=2, **counters)
    for second in range(1, 18):
        look(run, second)
    said = "So far the machine was not ours: processes of others used 1.00 of the 2 cores of mine"
    assert said in text_of(made, run.folder)


def test_once_the_loaders_files_are_there_the_verdict_s_own_figures_are_shown(tmp_path):
    run = run_samples.run_of(tmp_path / NAME, duration_s=40)
    run.facts.captured = False
    run.facts.write(run.folder)
    run.state.at("read-back")
    text = text_of(pages(tmp_path), run.folder)
    assert "Every point is read back" in text
    assert 'id="chart-percentiles"' in text
    schedule, latency, _, drain, readback = outcomes(text)
    assert (schedule, latency) == ("within so far", "within so far")
    assert (drain, readback) == ("within so far", "not yet")
    run.read_back()
    assert outcomes(text_of(pages(tmp_path), run.folder))[4] == "within so far"


def test_at_the_end_it_is_the_report(tmp_path):
    run, made = run_samples.run_of(tmp_path / NAME), pages(tmp_path)
    page = made.page(address(run.folder))
    assert page is not None
    assert page.every_ms == LEAST_MS
    run.read_back()
    run.judge()
    html, _ = report.write(run.folder, REFERENCE)
    page = made.page(address(run.folder))
    assert page is not None
    assert (page.body, page.every_ms) == (html.read_bytes(), None)


def test_a_run_that_was_killed_is_drawn_as_the_report_would_be(tmp_path):
    run = loading(tmp_path)
    for second in range(1, 10):
        look(run, second)
    dead = tmp_path / "dead" / NAME
    shutil.copytree(run.folder, dead)  # nobody holds its files
    text = text_of(pages(dead.parent), dead)
    assert text.encode() == report.html(dead, REFERENCE).encode()
    assert "INCOMPLETE" in text
    assert "data-every" not in text
    # What the loaders told is all there is of them.
    assert 'id="chart-throughput"' in text


def test_the_watched_page_asks_for_itself_alone_and_has_no_pictures_of_another_kind(tmp_path):
    run, made = loading(tmp_path), pages(tmp_path)
    for second in range(1, 10):
        look(run, second)
    text = text_of(made, run.folder)
    assert f'<main data-every="{LEAST_MS}">' in text
    assert "connect-src 'self'\"" in text
    # Charts are drawn by one code; the topology is the only picture.
    assert text.count("<svg") == 1
    assert "matplotlib" not in sys.modules or _draws_without_matplotlib(run.folder)


def _draws_without_matplotlib(folder: Path) -> bool:
    """In a process that has nothing imported yet."""
    program = (
        "import sys; from pathlib import Path; from kairoscope import report;"
        "from kairoscope.report import data; folder = Path(sys.argv[1]);"
        "report.watched(data.read(folder), folder, 2000); sys.exit('matplotlib' in sys.modules)"
    )
    return subprocess.run([sys.executable, "-c", program, folder], check=False).returncode == 0


def test_a_line_that_is_being_written_is_not_there_yet(tmp_path):
    path, tails = tmp_path / "queue.jsonl", Tails()
    with pytest.raises(OSError, match=r"queue\.jsonl"):
        tails.lines(path)
    assert tails.records(path) == []
    path.write_text('{"t": 1}\n{"t": 2')
    assert tails.lines(path) == [{"t": 1}]
    with path.open("a") as file:
        file.write('}\nnonsense\n{"t": 3}\n{"t"')
    assert tails.lines(path) == [{"t": 1}, {"t": 2}, None, {"t": 3}]
    assert tails.records(path) == [{"t": 1}, {"t": 2}, {"t": 3}]


def test_only_what_was_appended_is_read(tmp_path, monkeypatch):
    path, tails = tmp_path / "queue.jsonl", Tails()
    path.write_text('{"t": 1}\n' * 1000)
    assert len(tails.lines(path)) == 1000
    parsed = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda line: parsed.append(line) or loads(line))
    with path.open("a") as file:
        file.write('{"t": 2}\n')
    assert len(tails.lines(path)) == 1001
    assert parsed == [b'{"t": 2}']


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    path, tails = tmp_path / "events.jsonl", Tails()
    path.write_text('{"t": 1}\n{"t": 2}\n')
    assert len(tails.lines(path)) == 2
    path.write_text('{"t": 3}\n')
    assert tails.lines(path) == [{"t": 3}]


def test_a_run_goes_on_until_it_lets_go_or_has_a_report(tmp_path):
    run = run_samples.run_of(tmp_path / NAME)
    assert run_folder.goes_on(run.folder)
    (run.folder / run_folder.REPORT_HTML).write_text("")
    assert not run_folder.goes_on(run.folder)
    (run.folder / run_folder.REPORT_HTML).unlink()
    assert run_folder.goes_on(run.folder)
    run.state._progress._file.close()  # as the end of its process does
    assert not run_folder.goes_on(run.folder)
    assert not run_folder.goes_on(tmp_path)


def test_what_is_watched_is_no_evidence(tmp_path):
    """A run is judged the same without it."""
    run = run_samples.run_of(tmp_path / NAME)
    run.read_back()
    run.state.at("judging")
    before = run.judge()
    assert run_folder.PROGRESS not in run.json(run_folder.FACTS)["files"]
    (run.folder / run_folder.PROGRESS).unlink()
    assert run.judge() == before


def test_the_stage_says_since_when():
    looks = [{"t": 5.0, "stage": "load"}, {"t": 10.0, "stage": "drain", "waiting": 90}]
    looks.append({"t": 12.0, "stage": "drain", "waiting": 1200})
    said = told(looks, 14.0)
    assert said == "The load has ended; the queue drains, 1,200 points wait, for 4 s so far."
    assert told([], 14.0) == "The run begins."


def test_a_look_is_no_worker_where_the_workers_files_are(tmp_path):
    folder = report_samples.passing(tmp_path)
    (folder / run_folder.PROGRESS).write_text('{"t": 1795000003, "stage": "load", "due": 60}\n')
    assert len(data.read(folder).progress) == 2


def test_the_list_has_all_runs_with_their_verdicts(tmp_path):
    report_samples.passing(tmp_path)
    run = run_samples.run_of(tmp_path / NAME)
    shutil.copytree(run.folder, tmp_path / "20250101T000000Z-mine-local")
    (tmp_path / "latest").symlink_to(NAME)
    (tmp_path / "notes").mkdir()
    page = pages(tmp_path).page("/")
    assert page is not None
    text = page.body.decode()
    assert re.findall(r'href="(.*?)"', text) == [
        f"/{tmp_path.name}/{name}"
        for name in ("20261118T100000Z-laptop-local", NAME, "20250101T000000Z-mine-local")
    ]
    words = re.findall(r'<span class="outcome">. (.*?)</span>', text)
    assert words == ["pass", "going on", "not judged"]
