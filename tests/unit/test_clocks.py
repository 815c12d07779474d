"""Clocks of loader hosts that were set while a load went on."""

from pathlib import Path
from typing import Any

import pytest
import run_samples

from kairoscope import run_folder
from kairoscope.verdict import clocks


def host(before_us: int, after_us: int | None, rtt_us: int = 200) -> dict[str, Any]:
    after = None if after_us is None else {"offset_us": after_us, "rtt_us": rtt_us}
    return {"host": "loader-1", "offset_us": before_us, "rtt_us": rtt_us, "after": after}


@pytest.mark.parametrize(
    ("found", "off", "moved"),
    [
        (host(300, 812_000), True, False),
        (host(300, -25_000), True, False),
        (host(300, 9_000), False, True),
        (host(15_000, 17_000), False, False),  # off all the time, and refused beyond the limit
        (host(300, 25_000, rtt_us=20_000), False, False),  # perhaps, and perhaps not
        (host(300, None), False, False),
        ({"host": "loader-1", "offset_us": 1, "rtt_us": 1}, False, False),
    ],
)
def test_a_clock_that_was_set(found: dict[str, Any], off: bool, moved: bool) -> None:
    assert bool(clocks.off([found], 20)) == off
    assert bool(clocks.moved([found], 20)) == moved


def test_what_is_said() -> None:
    was = "clock of loader-1 was 0.3 ± 0.1 ms ahead before the load and"
    assert clocks.off([host(300, 812_000)], 20) == [
        f"loader: the {was} 812.0 ± 0.1 ms ahead after it (limits.clock_offset_ms: 20 ms)"
    ]
    assert clocks.moved([host(300, -9_000)], 20) == [f"The {was} 9.0 ± 0.1 ms behind after it"]


@pytest.mark.parametrize(
    ("after_us", "word"), [(400, "pass"), (9_000, "pass"), (50_000, "invalid")]
)
def test_a_clock_that_was_set_is_in_the_verdict(tmp_path: Path, after_us: int, word: str) -> None:
    run = run_samples.run_of(tmp_path / "run")
    run.read_back()
    hosts = [host(300, after_us), host(300, 300) | {"host": "loader-2"}]
    run_folder.write_json(run.folder / run_folder.LOAD_HOSTS, hosts)
    verdict = run.judge()
    assert verdict.verdict == word
    assert ("clock of loader-1" in verdict.summary) is (after_us > 400)
    assert "clock of loader-2" not in verdict.summary
