"""What a run says on the screen."""

import dataclasses
import io
import subprocess
import sys
from pathlib import Path

import load_samples
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from run_samples import run_of

from kairoscope import live
from kairoscope.report.advice import ADVICE
from kairoscope.report.first import PARTS
from kairoscope.run import finishing, tell
from kairoscope.run.show import show
from kairoscope.verdict import sustained
from loaders.emulator import Progress

NOTHING = Progress(0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 120.0)


@given(st.integers(0, 10**12 - 1))
def test_a_count_is_short_and_right(count):
    said = tell.short(count)
    assert len(said) <= 6
    size = {"k": 10**3, "M": 10**6, "G": 10**9}.get(said[-1], 1)
    read = float(said.rstrip("kMG").replace(",", "")) * size
    assert abs(read - count) <= count * 0.006


def test_a_line_tells_the_worst_second_since_the_last() -> None:
    slow = {3: 900.0, 14: 40.0}
    lines = tell.Lines()
    looks = [dataclasses.replace(NOTHING, elapsed_s=t, p99_ms=slow.get(t, 5.0)) for t in range(25)]
    told = [(line.elapsed_s, line.p99_ms) for now in looks if (line := lines.due(now))]
    assert told == [(0, 5.0), (5, 900.0), (10, 5.0), (15, 40.0), (20, 5.0)]


@given(
    points=st.integers(0, 10**11),
    share=st.floats(0, 1),
    p99_ms=st.floats(0, 60_000),
    waiting=st.none() | st.integers(0, 10**10),
    elapsed_s=st.floats(-5, 360_000),
    replay=st.booleans(),
)
def test_the_live_line_is_whole_at_80_columns(points, share, p99_ms, waiting, elapsed_s, replay):
    spec = dataclasses.replace(load_samples.spec_of(), replay=replay)
    sent = int(points * share)
    now = dataclasses.replace(
        NOTHING,
        due=points,
        sent=sent,
        acknowledged=sent,
        p99_ms=p99_ms,
        elapsed_s=elapsed_s,
        duration_s=360_000,
    )
    figures = tell.figures(spec, points, now, waiting)
    console = Console(width=80, force_terminal=True, file=io.StringIO(), color_system=None)
    with live.bar(console) as bar:
        bar.add_task("load", total=points, figures=figures)
        console.print(bar.get_renderable())
    assert figures in console.file.getvalue()  # type: ignore[attr-defined]


def test_behind_counts_points_that_should_have_been_sent_and_were_not():
    spec = load_samples.spec_of()
    now = dataclasses.replace(NOTHING, due=1000, sent=880, acknowledged=700, not_sent=20)
    assert "behind 120 " in tell.figures(spec, 3000, now, 0)
    early = dataclasses.replace(NOTHING, due=10, sent=12, elapsed_s=-1.0)
    said = tell.figures(spec, 3000, early, None)
    assert "behind 0 " in said
    assert "queue ?" in said


def test_the_time_that_is_left():
    spec = load_samples.spec_of()
    now = dataclasses.replace(NOTHING, elapsed_s=75.0)
    assert tell.figures(spec, 10, now, 0).endswith("45 s left")
    over = dataclasses.replace(NOTHING, elapsed_s=121.0)
    assert tell.figures(spec, 10, over, 0).endswith("ending")
    # A replay goes by what is done of it: a third in 30 s.
    replay = dataclasses.replace(spec, replay=True)
    third = dataclasses.replace(NOTHING, acknowledged=1000, elapsed_s=30.0)
    assert tell.figures(replay, 3000, third, 0).endswith("60 s left")


def test_every_part_has_an_advice():
    assert list(ADVICE) == [key for key, *_ in PARTS]


def verdict(incomplete: list[str], invalid: list[str], **outcomes: str) -> sustained.Verdict:
    parts = {
        key: sustained.Part(0.5, 1.0, "s", outcomes.get(key, "pass"), f"about {key}")  # type: ignore[arg-type]
        for key in ADVICE
    }
    return sustained.verdict_of(parts, invalid, incomplete)


def shown(judged: sustained.Verdict) -> str:
    console = Console(width=200, file=io.StringIO(), soft_wrap=True)
    show(judged, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_failed_part_says_what_it_means_once():
    said = shown(verdict([], [], latency="fail", drain="fail"))
    assert "verdict: fail  failed: latency, drain." in said
    for key in ("latency", "drain"):
        assert said.count(f"about {key}") == 1
        assert said.count(ADVICE[key].means) == said.count(ADVICE[key].look) == 1
    assert said.count("limit 1 s") == 2
    assert ADVICE["queue"].means not in said
    assert "also:" not in said


def test_other_reasons_are_told_once_too():
    judged = verdict(
        ["interrupted by the user (Ctrl-C)", "queue.jsonl ends early"], [], drain="unknown"
    )
    judged.happened.append("During the run ended: storage-2")
    said = shown(judged)
    for text in ("interrupted by the user", "queue.jsonl ends early", "about drain"):
        assert said.count(text) == 1
    assert "not known: drain" in said
    assert "During the run ended: storage-2." in said


def test_a_pass_is_told_as_it_is():
    judged = verdict([], [])
    said = shown(judged)
    assert f"verdict: pass  {judged.summary}\n" in said
    assert "means:" not in said


def test_a_load_imports_no_chart_library_to_its_end(tmp_path):
    folder = run_of(tmp_path / "run").folder
    code = (
        "import sys; from pathlib import Path; from kairoscope.run import finishing;"
        "print(finishing._draw(Path(sys.argv[1]))); sys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_text().startswith("<!doctype html>")


def test_a_report_that_cannot_be_drawn_says_why(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run folder at"):
        finishing._draw(tmp_path / "nowhere")
