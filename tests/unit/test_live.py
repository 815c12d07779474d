"""How far the work is: words, and that they come without a terminal too."""

import io
import threading

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kairoscope import live, paths


@given(st.integers(1, 10**9), st.floats(0.02, 1), st.floats(2, 10**5))
def test_time_left_is_the_rest_at_the_pace_so_far(total, share, elapsed_s):
    done = -(-int(total * share * 1000) // 1000) or 1
    left = live.time_left(done, total, elapsed_s)
    if done >= total * 0.02:
        assert left is not None
        assert abs((elapsed_s + left) * done / total - elapsed_s) < 1e-6 * elapsed_s + 1e-6


def test_nothing_is_guessed_from_too_little():
    assert live.time_left(1, 1000, 60) is None
    assert live.time_left(500, 1000, 1) is None
    assert live.time_left(500, None, 60) is None


def test_what_a_stage_says():
    shown = live.Stage("read back", 3000, "points", "")
    shown(1000)
    assert shown.text(10) == "1,000 of 3,000 points, 10 s, about 20 s left"
    usual = live.Stage("Maven", None, "", "one to four minutes with empty caches")
    assert usual.text(125) == "2:05 min, one to four minutes with empty caches"


def test_nothing_is_silent_for_longer_than_five_seconds():
    assert live.LINE_EVERY_S <= 5
    script = (paths.CHECKOUT / "scripts" / "narrate").read_text()
    assert "SECONDS - told)) -ge 5 ]" in script


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(live, "LINE_EVERY_S", 0.01)
    written = threading.Event()

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            if "7 of 9 points" in text:
                written.set()
            return super().write(text)

    out = Out()
    with live.stage(Console(file=out, width=80), "read back", 9, "points") as shown:
        shown(7)
        assert written.wait(60)
    assert out.getvalue().startswith("read back …\n")


def test_without_a_console_it_is_quiet(capsys):
    with live.stage(None, "read back", 9) as shown:
        shown(7)
    assert capsys.readouterr().out == ""


def test_counted_reports_what_was_taken():
    seen: list[int] = []
    items = live.counted("abc", seen.append)
    assert [next(items), next(items)] == ["a", "b"]
    assert seen == [1]
    assert list(items) == ["c"]
    assert seen == [1, 2, 3]
