"""Storage nodes that were stopped while a load went on, by their CPU time."""

from pathlib import Path
from typing import Any

import pytest
import run_samples
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import run_folder
from kairoscope.verdict import idle


def looks(
    name: str = "storage-1",
    *,
    cores: float = 0.3,
    stopped: tuple[float, float] = (0, 0),
    unseen: tuple[float, float] = (0, 0),
    every_s: float = 2,
    role: str = "storage",
) -> list[dict[str, Any]]:
    """Looks of two minutes at a server; while it is stopped it uses nothing."""
    found, used, t = [], 5.0, 0.0
    while t < 120:
        if not unseen[0] <= t < unseen[1]:
            found.append({"t": 1000 + t, "name": name, "role": role, "pid": 7, "cpu_s": used})
        ran = every_s - max(0.0, min(t + every_s, stopped[1]) - max(t, stopped[0]))
        used = round(used + cores * ran, 2)
        t += every_s
    return found


def test_a_node_that_was_stopped_for_20_s_is_named() -> None:
    samples = looks() + looks("storage-2", stopped=(40.5, 60.5)) + looks("storage-3")
    assert idle.remarks(samples, 1000, 1120) == [
        "Storage node storage-2 used no CPU for at least 18 s, from 42 s after the load's start "
        "on: it was stopped"
    ]


@pytest.mark.parametrize(
    "samples",
    [
        looks(cores=0.01),  # a server at rest: two ticks in two seconds
        looks(stopped=(40, 45)),
        looks(unseen=(40, 60)),
        looks("kairosdb-1", role="kairosdb", stopped=(40, 60)),
        looks(every_s=30),
        [{"t": 1050, "name": "machine", "role": "machine", "cpu_busy_s": 1}],
        [],
    ],
)
def test_what_is_no_silence(samples: list[dict[str, Any]]) -> None:
    assert idle.silent(samples, 1000, 1120) == []


def test_before_and_after_the_load_a_node_may_do_nothing() -> None:
    assert idle.silent(looks(stopped=(0, 30)), 1032, 1120) == []
    assert idle.silent(looks(stopped=(90, 120)), 1000, 1092) == []


@pytest.mark.parametrize("other", [{"pid": 8}, {"started_s": 1030.0}])
def test_a_process_that_was_started_again_is_another(other: dict[str, Any]) -> None:
    """A container that boots again has the same pids."""
    again = looks()
    first = again[30]["cpu_s"]
    for look in again[30:]:
        look |= {"cpu_s": look["cpu_s"] - first + 0.01, **other}
    assert idle.silent(again, 1000, 1120) == []


@given(st.floats(0, 100), st.floats(0, 40), st.sampled_from([0.05, 0.3, 1.8]))
def test_it_is_never_longer_than_it_was(at: float, length: float, cores: float) -> None:
    """By more than the ticks that may be its own: half a second of a node that does little."""
    for _, since, found in idle.silent(looks(cores=cores, stopped=(at, at + length)), 1000, 1120):
        assert found <= length + 0.6
        assert since >= 1000 + at - 0.6


def test_a_silent_node_under_a_passing_load_is_in_the_sentence(tmp_path: Path) -> None:
    run = run_samples.run_of(tmp_path / "run")
    run.read_back()
    path = run.folder / run_folder.PROCESSES
    samples = list(run_folder.records(path))
    for sample in samples:
        if sample["name"] == "storage-2":
            sample["cpu_s"] = min(sample["cpu_s"], 0.8)
    path.write_text("".join(run_folder.lines_text(samples)))
    verdict = run.judge()
    assert verdict.verdict == "pass"
    assert "Storage node storage-2 used no CPU for" in verdict.summary
    assert "storage-1" not in verdict.summary
