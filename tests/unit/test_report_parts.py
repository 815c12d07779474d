import dataclasses
import hashlib
import itertools
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import kairoscope.report
from kairoscope.report import draw, units
from kairoscope.report.charts import latency, points
from kairoscope.report.charts.chart import COLOURS, Chart, Series, thinned
from kairoscope.report.data import RunData

ROOT = Path(__file__).parents[2]
Values = list[float | None]


def chart(values: Values, *, log: bool = False, sparse: bool = False) -> Chart:
    return Chart(
        id="c",
        title="T",
        summary="S 1",
        x=tuple(float(i) for i in range(len(values))),
        x_label="x",
        y_label="ms",
        series=(Series("one", tuple(values), COLOURS[0]),),
        log=log,
        sparse=sparse,
    )


positive = st.floats(0.001, 1e6)


@given(st.lists(st.one_of(st.none(), positive), min_size=1, max_size=900), st.integers(1, 400))
def test_thinning_keeps_the_length_within_the_limit_and_the_order(v: Values, limit: int) -> None:
    thin = thinned(chart(v), limit)
    assert len(thin.x) == len(thin.series[0].values) <= limit
    assert list(thin.x) == sorted(set(thin.x))
    assert {x for x in thin.series[0].values if x is not None} <= set(v)


def test_a_load_of_thirty_days_is_drawn() -> None:
    """As long as a step of an experiment may be; times in a record may also be epoch seconds."""
    days_s, start_s = 30 * 86_400, 1_790_000_000.0
    run = RunData("r", manifest={"load": {"start_ms": start_s * 1000}})
    record = {"intervals": [{"t": days_s - 1}, {"t": start_s + days_s - 2}]}
    assert set(latency._by_second(run, record)) == {days_s - 1, days_s - 2}
    counted = {"due": 10, "acknowledged": 10}
    looks = tuple({"t": start_s + t, **counted} for t in (1.0, days_s))
    assert points.throughput(dataclasses.replace(run, progress=(looks,)))


@given(st.lists(positive, min_size=1, max_size=900), st.integers(1, 400))
def test_thinning_never_hides_the_highest_value(v: list[float], limit: int) -> None:
    thin = thinned(chart(list(v)), limit)
    assert max(x for x in thin.series[0].values if x is not None) == max(v)


def test_thinning_keeps_a_hole() -> None:
    values: Values = [1.0] * 1000
    values[400:500] = [None] * 100
    thin = thinned(chart(values), 100)
    assert thin.series[0].values[40:50] == (None,) * 10
    assert thin.series[0].values.count(None) == 10


def test_svg_is_small_and_has_at_most_400_points_a_line() -> None:
    svg = str(draw.svg(chart([float(i % 97 + 1) for i in range(20_000)], log=True)))
    longest = max(len(re.findall(r"[ML] ", d)) for d in re.findall(r'\bd="([^"]*)"', svg))
    assert 100 < longest <= 400 + 2  # simplifying a path may add its ends
    assert len(svg) < 40_000
    assert svg.startswith("<svg ")
    assert ">one</text>" in svg  # the line is labelled, and its label is text


@pytest.mark.parametrize("highest", [5.0, 40_000.0, 3_000_000.0, 45_000_000.0])
def test_the_title_of_an_axis_is_within_the_picture(highest: float) -> None:
    with mpl.rc_context(draw._STYLE):
        figure = Figure(figsize=(draw._WIDTH, draw._HEIGHT))
        draw._draw(figure, chart([0.0, highest]))
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        (axes,) = figure.axes
        assert axes.yaxis.label.get_window_extent(canvas.get_renderer()).x0 >= 0


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [None, 2.0, None], [0.0, 0.0]])
@pytest.mark.parametrize("log", [False, True])
def test_flat_and_short_lines_can_be_drawn(values: Values, log: bool) -> None:
    shown = [v if v or not log else 1.0 for v in values]
    assert "</svg>" in str(draw.svg(chart(shown, log=log, sparse=True)))


@given(st.floats(0, 1))
def test_percent_never_rounds_up(fraction: float) -> None:
    shown = float(units.percent(fraction).removesuffix(" %"))
    assert shown <= fraction * 100 + 1e-9
    assert fraction * 100 - shown < 0.001 + 1e-9


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.percent(0.999), "99.9 %"),
        (units.percent(0.9999999), "99.999 %"),
        (units.percent(1.0), "100 %"),
        (units.percent(None), "–"),
        (units.count(120_000_000), "120,000,000"),
        (units.count(True), "–"),
        (units.count(float("nan")), "–"),
        (units.milliseconds(4.768), "4.77 ms"),
        (units.milliseconds(523.4), "523 ms"),
        (units.milliseconds(12_340), "12.3 s"),
        (units.milliseconds(0), "0 ms"),
        (units.byte_size(12e9), "12 GB"),
        (units.byte_size(118), "118 bytes"),
        (units.duration(2400), "40 min"),
        (units.duration(125), "2 min 5 s"),
        (units.duration(3900), "1 h 5 min"),
        (units.duration(59.96), "60 s"),
        (units.quantity(0.999, "fraction"), "99.9 %"),
        (units.quantity(3, "points"), "3 points"),
        (units.quantity("no", "points"), "no"),
        (units.clock(1_795_000_000_123, millis=True), "2026-11-18 11:06:40.123 UTC"),
        (units.clock("2026-11-18T12:06:40+01:00"), "2026-11-18 11:06:40 UTC"),
        (units.clock("soon"), "soon"),
        (units.offset(125), "2:05"),
        (units.offset(-10), "-0:10"),
    ],
)
def test_figures_as_people_read_them(shown: str, text: str) -> None:
    assert shown == text


def test_assets_are_those_of_their_list() -> None:
    assets = Path(kairoscope.report.__file__).parent / "assets"
    listed = re.findall(r"`([^`]+)` \|.*`([0-9a-f]{64})`", (assets / "README.md").read_text())
    assert [name for name, _ in listed] == ["uPlot.iife.min.js", "uPlot.min.css"]
    for name, checksum in listed:
        assert hashlib.sha256((assets / name).read_bytes()).hexdigest() == checksum


def test_published_figures_are_marked_as_such() -> None:
    path = ROOT / "results" / "reference" / "scylla-kairosdb-2018.yml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [e["id"] for e in document["experiments"]] == ["single-60k", "cluster-180k"]
    for entry in document["experiments"]:
        figures = entry["figures"]
        for name, figure in figures.items():
            assert figure["approximate"] is True, name
            assert figure["status"] in ("published", "derived"), name
            assert ("arithmetic" in figure) == (figure["status"] == "derived"), name
        points, seconds = figures["points"]["value"], figures["duration_s"]["value"]
        assert points == figures["sensors"]["value"] * figures["points_per_sensor"]["value"]
        assert figures["points_per_s"]["value"] == points / seconds
        size = figures["disk_bytes_all_replicas"]["value"]
        assert figures["bytes_per_point_all_replicas"]["value"] == size / points


# What eyes without one kind of cones see of linear RGB: Machado, Oliveira and Fernandes (2009, IEEE
# TVCG 15: 1291-1298), for the whole of the deficiency.
EYES = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
# Linear sRGB to CIE XYZ, whose second row is the luminance, and its white.
XYZ = np.array([[0.412, 0.358, 0.180], [0.213, 0.715, 0.072], [0.019, 0.119, 0.950]])
WHITE = XYZ.sum(axis=1)


def linear(colour: str) -> np.ndarray:
    given = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def lab(colour: str, eyes: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.maximum(XYZ @ np.clip(eyes @ linear(colour), 0, 1) / WHITE, 0.01))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", EYES)
def test_colours_can_be_told_apart(eyes: str) -> None:
    assert len(set(COLOURS)) == len(COLOURS) >= 8
    seen = {colour: lab(colour, np.array(EYES[eyes])) for colour in COLOURS}
    for one, other in itertools.combinations(COLOURS, 2):
        # As far as Okabe and Ito's own are at least; a difference of 2 can just be seen.
        assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)


@pytest.mark.parametrize("page", ["#ffffff", "#14171a"])
def test_colours_are_seen_on_a_light_and_on_a_dark_page(page: str) -> None:
    for colour in COLOURS:
        low, high = sorted(float(XYZ[1] @ linear(each)) for each in (colour, page))
        assert (high + 0.05) / (low + 0.05) > 2.2, colour
