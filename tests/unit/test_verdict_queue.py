"""Whether KairosDB's queue grew, on queues made of a saw-tooth, noise and growth."""

from collections.abc import Callable

import numpy as np
import pytest
from test_stats_series import noise

from kairoscope.run_folder import Drain
from kairoscope.verdict import drain, queue

T0 = 1_790_000_000.0
# README's run: 60,000 points/s, and so much noise, that forgets in 3 s.
NOISE = 6_800 / 60_000


def told(length_s: float, depth: Callable[[float], float]) -> list[tuple[float, float]]:
    """A look a second, from before the window until after it."""
    return [(T0 + s, depth(s)) for s in np.arange(-3.0, length_s + 4)]


def asked(length_s: float, rate: float = 60_000, kept_s: float = 15) -> queue.Asked:
    return queue.Asked((T0, T0 + length_s), rate, kept_s, 0.01)


def judged(
    length_s: float,
    growth: float,
    *,
    kept_s: float = 15,
    rough: float = NOISE,
    tooth: float = 0.0,
    rate: float = 60_000,
    seed: int = 0,
) -> queue.Part:
    """A queue of half a window; `growth`, `rough` and `tooth` as shares of what comes in a second,
    the tooth of the height of so many windows."""
    rng = np.random.default_rng(seed)
    rough_looks = noise(rng, int(length_s) + 10, 3) * rough * rate
    start = rng.uniform(0, 15)

    def depth(s: float) -> float:
        phase = ((s + start) / kept_s % 1 - 0.5) * tooth * kept_s if kept_s else 0.0
        return rate * (kept_s / 2 + growth * s + phase) + float(rough_looks[int(s + 3)])

    looks = {"kairosdb-1": told(length_s, depth)}
    return queue.queue_part(looks, asked(length_s, rate, kept_s), {})


def outcomes(count: int, length_s: float, growth: float, **how: float) -> dict[str, float]:
    """Shares of the outcomes of so many queues."""
    said = [judged(length_s, growth, seed=s, **how).outcome for s in range(count)]
    return {word: said.count(word) / count for word in ("pass", "fail", "undecided")}


@pytest.mark.parametrize("tooth", [0.0, 0.2])
@pytest.mark.parametrize(
    ("length_s", "kept_s"),
    # laptop; laptop-60k; single-60k for a tenth of its length.
    [(105, 15), (60, 30), (190, 0)],
)
def test_shipped_experiments_decide(length_s, kept_s, tooth):
    """A flat queue passes, one that grows by 2 % of the load fails; a saw-tooth is no growth."""
    how = {"kept_s": kept_s, "tooth": tooth}
    assert outcomes(60, length_s, 0.0, **how)["pass"] >= 0.95
    assert outcomes(60, length_s, 0.02, **how)["fail"] >= 0.95


def test_on_a_busy_machine_it_is_undecided_and_not_guessed():
    """As `make demo` beside others: 24,000 points/s, a slope with an error of 165 points/s."""
    found = outcomes(100, 105, 0.0, rough=0.86, rate=24_000)
    assert found["fail"] <= 0.03
    found = outcomes(100, 105, 0.0, rough=0.86, rate=24_000)
    assert found["undecided"] > 0.3
    short = outcomes(100, 45, 0.0, rough=0.3)
    assert short["fail"] <= 0.03
    assert short["undecided"] > 0.3


def test_undecided_says_how_long_would_do():
    part = judged(45, 0.008, rough=0.3)
    assert part.outcome == "undecided"
    assert "undecided: the window is too short (about " in part.text
    assert judged(20, 0.0).text.endswith(
        "too short a window to see growth in; about 45 s are enough"
    )


def test_the_end_is_judged_for_itself():
    """The store stops for good 100 s before the end of half an hour: 0.8 % over all of it."""
    rate = 60_000
    looks = {"a": told(1940, lambda s: rate * max(0.0, s - 1840))}
    part = queue.queue_part(looks, asked(1940, rate, 0.1), {})
    assert part.outcome == "fail"
    assert "at the end it held 97.5 s of the load" in part.text


def test_a_store_that_stops_at_the_very_end_is_no_pass():
    """6 s before the end: too late to tell whether it would go on."""
    looks = {"a": told(60, lambda s: 60_000 * (15 + max(0.0, s - 52)))}
    part = queue.queue_part(looks, asked(60, 60_000, 30), {})
    assert part.outcome != "pass"


def test_a_deep_queue_that_does_not_grow_passes():
    looks = {"a": told(60, lambda s: 5000.0 + 100 * (s % 2))}
    assert queue.queue_part(looks, asked(60, 1000, 10), {}).outcome == "pass"


def test_nodes_need_not_tell_in_the_same_second():
    """One answers every three seconds: what it told is put on the others' grid."""
    every = told(105, lambda s: 10 * s)
    third = [look for i, look in enumerate(every) if i % 3 == 0]
    part = queue.queue_part({"a": every, "b": third}, asked(105, 1000), {})
    assert part.figure == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        (range(5, 105), "b did not tell its depth for 101 s, from 4 s on"),
        (range(-3, 7), "b did not tell its depth for 7 s, from 0 s on"),
        (range(50, 54), ""),
        (range(50, 56), "b did not tell its depth for 7 s, from 49 s on"),
        (range(-3, 200), "b did not tell its depth once in 105 s"),
        (range(103, 200), "b did not tell its depth in the last 3 s"),
    ],
)
def test_a_node_must_tell_throughout(gone, why):
    every = told(105, lambda s: 7.0)
    some = [(t, depth) for t, depth in every if round(t - T0) not in gone]
    part = queue.queue_part({"a": every, "b": some}, asked(105, 1000), {})
    assert part.outcome == ("unknown" if why else "pass")
    assert why in part.text


def test_a_node_that_was_replaced_meanwhile_could_not_grow():
    every = told(105, lambda s: 7.0)
    some = [(t, depth) for t, depth in every if round(t - T0) not in range(50, 70)]
    processes = [
        {"name": "b", "t": T0 + s, "pid": 7 if s < 55 else 8}
        for s in range(0, 105, 2)
        if s not in range(52, 60)
    ]
    excused = {"b": queue.replaced(processes, "b")}
    assert excused == {"b": [(T0 + 50, T0 + 60)]}
    part = queue.queue_part({"a": every, "b": some}, asked(105, 1000), excused)
    assert part.outcome == "pass"


def test_a_node_may_have_been_replaced_just_before():
    looks = [(t, 7.0) for t in (T0 - 4, *(T0 + s for s in range(6, 109)))]
    assert "for 6 s, from 0 s on" in queue.untold(looks, (T0, T0 + 105))
    assert queue.untold(looks, (T0, T0 + 105), [(T0 - 3, T0 - 2)]) == ""


@pytest.mark.parametrize("length_s", [11, 60])
def test_all_that_comes_in_is_no_limit(length_s):
    looks = {"a": told(length_s, lambda s: 500 + 300 * s * (-1) ** int(s / 3))}
    unlimited = queue.Asked((T0, T0 + length_s), 300, 15, 1.0)
    assert queue.queue_part(looks, unlimited, {}).outcome == "pass"
    limited = queue.Asked((T0, T0 + length_s), 300, 15, 0.01)
    assert queue.queue_part(looks, limited, {}).outcome == "undecided"


def test_drain():
    due = T0 + 100

    def drained(left: int | None, watched_s: float) -> drain.Part:
        looks = {"a": [(due - 1, 0.0), (due + 3, 0.0)], "b": [(due + 1, 5.0), (due + 2.5, 0.0)]}
        return drain.drain_part(Drain(left, due + watched_s), looks, due, due, 60)

    assert (drained(0, 4).outcome, drained(0, 4).figure) == ("pass", 3)
    late = drained(77, 60)
    assert (late.outcome, late.figure) == ("fail", None)
    assert "77 points still waited 60 s" in late.text
    assert "not every node told" in drained(None, 61).text
    assert drained(77, 20).outcome == "unknown"
    assert drain.drain_part(None, {}, due, due, 60).outcome == "unknown"
