import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_samples

from kairoscope.report import first, write
from kairoscope.report.advice import ADVICE
from kairoscope.report.data import read

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
CHARTS = ["throughput", "client-latency", "percentiles", "store-latency", "queue", "cpu"]
VOID = {"meta", "br", "use", "path", "line", "input", "link", "img"}


class Page(HTMLParser):
    """Text in reading order, elements with their attributes, and nesting that must close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(filter(None, self.words)))

    def charts(self) -> list[str]:
        return [
            str(a["id"]).removeprefix("chart-")
            for tag, a in self.elements
            if tag == "figure" and a.get("class") == "chart"
        ]


def report(run: Path) -> tuple[Page, str, str]:
    html, markdown = write(run, REFERENCE)
    assert (html, markdown) == (run / "report.html", run / "report.md")
    text = html.read_text(encoding="utf-8")
    return Page(text), text, markdown.read_text(encoding="utf-8")


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def in_order(text: str, *phrases: str) -> bool:
    at = [text.index(phrase) for phrase in phrases]
    return at == sorted(at)


def test_passing_run_says_so_before_anything_else(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.passing(tmp_path))
    assert in_order(
        page.text.split("Kairoscope", 1)[1],  # after the title of the window
        "✓ PASS",
        "5,000 sensors sustained: all five parts hold.",
        "99.998 % 99.9 %",
        "Target and achieved",
        "The ledger: where",
        "Client latency over time",
        "Latency at the store",
        "KairosDB queue depth",
        "CPU per point",
        "Published figures beside",
        "resolved settings",
        "Git commit",
    )
    assert markdown.startswith("# PASS: Experiment laptop, target local\n")
    assert "Missing from this run" not in page.text + markdown
    assert "It balances" in page.text
    assert "No series has a gap" in page.text


def test_page_fetches_nothing(tmp_path: Path) -> None:
    page, text, _ = report(report_samples.failing(tmp_path))
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "href", "xlink:href", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), (tag, name, value)
        assert tag not in ("link", "iframe", "object", "embed", "base")
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    policy = [a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]


def test_each_chart_is_drawn_twice_and_described(tmp_path: Path) -> None:
    page, text, _ = report(report_samples.failing(tmp_path))
    assert page.charts() == CHARTS
    assert sum(tag == "svg" for tag, _ in page.elements) == len(CHARTS) + 1  # the topology
    labels = [a["aria-label"] for _, a in page.elements if a.get("role") == "img"]
    assert len(labels) == len(CHARTS) + 1
    assert all(label and re.search(r"\d", label) for label in labels)
    data = [json.loads(script) for script in page.scripts if script.startswith("{")]
    assert len(data) == len(CHARTS)
    for chart in data:
        assert {len(s["values"]) for s in chart["series"]} == {len(chart["x"])}
    identifiers = [a["id"] for _, a in page.elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    assert "#010203" not in text  # the ink that stands for the colour of the page


def test_outage_shows_as_a_hole_and_a_spike(tmp_path: Path) -> None:
    page, _, _ = report(report_samples.failing(tmp_path))
    charts = dict(zip(CHARTS, [json.loads(s) for s in page.scripts if s[0] == "{"], strict=True))
    latency = charts["client-latency"]
    p99 = dict(zip(latency["x"], latency["series"][2]["values"], strict=True))
    assert [t for t, v in p99.items() if v is None] == [float(t) for t in range(50, 62)]
    assert p99[62] > 12_000
    assert latency["shade"] == [0, 15]
    assert latency["marks"] == [50, 62]
    queue = charts["queue"]
    depth = dict(zip(queue["x"], queue["series"][0]["values"], strict=True))
    assert depth[54] is None
    assert depth[62] == 40_000
    kairosdb = next(s for s in charts["cpu"]["series"] if s["label"] == "kairosdb-1")
    assert min(v for v in kairosdb["values"] if v is not None) >= 0  # a restart is no negative use


def test_failing_run_names_what_failed_and_what_is_lost(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.failing(tmp_path))
    for text in (page.text, markdown):
        assert ADVICE["readback"].means in text
        assert ADVICE["readback"].look in text
        assert ADVICE["schedule"].means not in text
    assert "✗ FAIL" in page.text
    assert "It does not balance" in page.text
    assert "acknowledged = stored + queued + logged as failed 600,000 599,997 ✗ no" in page.text
    for text in (page.text, markdown):
        assert "SENSOR_12" in text
        assert "2026-11-18 11:07:29.250" in text
        assert "SENSOR_4711" in text
        assert "11.2 s" in text
        assert "3 acknowledged points not found" in text
    assert "process died kairosdb-1: signal 9" in page.text
    assert "4,998 without a gap, 2 with one" in page.text
    assert "connection refused 1,224" in page.text


def test_percentiles_stand_beside_their_count(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.passing(tmp_path))
    assert "p99 38.2 ms 525,000 5,250" in page.text
    assert "| p99 | 38.2 ms | 525,000 | 5,250 |" in markdown


def test_proxyhistograms_as_nodetool_prints_them_under_load(tmp_path: Path) -> None:
    page, text, markdown = report(report_samples.passing(tmp_path))
    shown = re.findall(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)
    assert len(shown) == 3 * 4  # per node: the last under load, and one of each phase to open
    assert shown[0].splitlines()[0] == "proxy histograms"
    assert "99%                      0.00            8856.00            8856.00" in shown[0]
    assert "99%                      0.00            8856.00            8856.00" in markdown
    assert page.text.count("last during the load, 2026-11-18 11:08:30 UTC, 1:50 after") == 3
    assert "half-life of 60 s" in page.text


def test_proxyhistograms_are_rebuilt_where_the_raw_text_is_gone(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    for raw in run.glob("proxyhistograms/*/*.txt"):
        raw.unlink()
    _, text, _ = report(run)
    assert f"Percentile{'Read Latency':>19}{'Write Latency':>19}{'Range Latency':>19}" in text
    assert f"99%       {'0.00':>19}{'8856.00':>19}" in text


def test_raw_captures_show_though_the_list_was_never_written(tmp_path: Path) -> None:
    run = report_samples.interrupted(tmp_path)
    raw = run / "proxyhistograms" / "storage-1" / "during-20261118T110700Z.txt"
    raw.parent.mkdir(parents=True)
    raw.write_text("proxy histograms\nPercentile  Write Latency\n99%  77.00\n")
    page, _, _ = report(run)
    assert "last during the load, 2026-11-18 11:07:00 UTC" in page.text
    assert "99% 77.00" in page.text


def test_capture_outside_the_run_folder_is_not_read(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    (tmp_path / "secret.txt").write_text("hidden elsewhere")
    listed = json.loads((run / "proxyhistograms/captures.json").read_text())
    for entry in listed:
        entry["file"] = "../secret.txt"
    (run / "proxyhistograms/captures.json").write_text(json.dumps(listed))
    _, text, _ = report(run)
    assert "hidden elsewhere" not in text


def test_published_figures_say_whose_they_are_and_what_compares(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.passing(tmp_path))
    for text in (page.text, markdown):
        assert "60,000 sensors on one KairosDB node" in text
        assert "180,000 sensors" not in text  # the experiment names the other one
        assert "Published by ScyllaDB" in text
        assert "~12 GB with RF 3" in text
        assert "derived: 12 GB / 120,000,000 points" in text
    assert "Storage engine scylla cassandra no : another engine" in page.text
    assert "Replication factor 3 3 yes : the same" in page.text
    assert "Client p99 not published 38.2 ms of 525,000 points no :" in page.text


def test_run_without_a_named_reference_stands_beside_all(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    plan = json.loads((run / "plan.json").read_text())
    del plan["experiment"]["reference"]
    (run / "plan.json").write_text(json.dumps(plan))
    page, _, _ = report(run)
    assert "60,000 sensors on one" in page.text
    assert "180,000 sensors on three" in page.text


def test_on_scylla_the_shards_are_shown(tmp_path: Path) -> None:
    page, html, markdown = report(report_samples.scylla(tmp_path))
    # Each node has both pictures, between the store's latency and KairosDB's queue.
    pictures = [f"shard-{what}-{n}" for n in (1, 2, 3) for what in ("load", "requests")]
    assert page.charts() == [*CHARTS[:4], *pictures, *CHARTS[4:]]
    assert "Storage engine: shards" in page.text
    assert "27 looks, 3 of them without an answer; 4 times it is not known" in page.text
    assert "1,024 are left in all" in page.text
    assert "Not known of storage-2: a node's counts begin anew" in page.text
    assert "## Storage engine: shards" in markdown
    assert 'href="#shards"' in html


def test_a_run_on_scylla_without_looks_says_so(tmp_path: Path) -> None:
    run = report_samples.scylla(tmp_path)
    (run / "scylla.jsonl").unlink()
    page, _, markdown = report(run)
    assert "scylla.jsonl not there. Not known: how busy the store's shards were" in page.text
    assert page.charts() == CHARTS
    assert "Nothing was captured." in markdown


def test_nothing_of_shards_is_said_of_cassandra(tmp_path: Path) -> None:
    _, html, markdown = report(report_samples.passing(tmp_path))
    assert "shards" not in html[html.index("<body>") : html.index('id="store"')].lower()
    assert 'id="shards"' not in html
    assert "scylla.jsonl" not in html
    assert "shard" not in markdown.lower()


def test_interrupted_run_says_what_is_missing(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.interrupted(tmp_path))
    assert "… INCOMPLETE" in page.text
    assert page.text.count("? unknown – –") == page.text.count("? unknown not judged") == 5
    for text in (page.text, markdown):
        assert "nothing was read back" in text
        for name in ("verdict.json", "ledger.json", "latency/merged.json", "queue.jsonl"):
            assert name in text
    assert "manifest.json" not in page.text
    assert page.charts() == []
    assert page.text.count("No chart:") >= 4
    assert "kairosdb.batch_size" in page.text


def test_empty_folder_still_gives_a_report(tmp_path: Path) -> None:
    page, _, markdown = report(tmp_path)
    assert "INCOMPLETE" in page.text
    assert "manifest.json" in page.text
    assert markdown.startswith(f"# INCOMPLETE: {tmp_path.name}")


def test_loader_counts_stand_in_for_a_ledger(tmp_path: Path) -> None:
    run = report_samples.failing(tmp_path)
    (run / "ledger.json").unlink()
    (run / "load/worker-1.json").unlink()  # killed: only its interval records are left
    page, _, markdown = report(run)
    assert "There is no ledger" in page.text
    assert "load/worker-1.json not there" in page.text
    assert "acknowledged 600,000 the server answered that it took them" in page.text
    assert "| acknowledged | 600,000 | the server answered that it took them |" in markdown


@pytest.mark.parametrize("content", ["", "{", "null", "[]", "{}", "[null, 3]", '{"parts": [1]}'])
def test_damaged_files_do_not_stop_the_report(tmp_path: Path, content: str) -> None:
    run = report_samples.failing(tmp_path)
    for path in run.rglob("*.json*"):
        path.write_text(content)
    page, _, _ = report(run)
    assert "INCOMPLETE" in page.text
    if content in ("", "{"):
        assert page.text.count("unreadable (") >= 7


def test_cut_last_line_is_reported_and_the_rest_used(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    text = (run / "queue.jsonl").read_text()
    (run / "queue.jsonl").write_text(text[:-20])
    page, _, _ = report(run)
    assert "queue.jsonl 1 unreadable line(s)" in page.text
    assert "queue" in page.charts()


@pytest.mark.parametrize("field", ["warmup_count", "p98_ms", "max_ms", "mean_ms", "intervals"])
def test_absent_latency_field_leaves_only_itself_out(tmp_path: Path, field: str) -> None:
    run = report_samples.passing(tmp_path)
    merged = json.loads((run / "latency/merged.json").read_text())
    del merged[field]
    (run / "latency/merged.json").write_text(json.dumps(merged))
    page, _, _ = report(run)
    assert "p99 38.2 ms 525,000" in page.text
    assert ("client-latency" in page.charts()) == (field != "intervals")


def test_where_the_latency_is(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    page, _, markdown = report(run)
    assert "kairosdb-2 4.1 ms 37.5 ms 90.1 ms 240 ms 525,000" in page.text
    assert "waiting for a connection" in page.text
    assert "| loader-1 | 4.1 ms" not in markdown, "the only one is the whole"
    for damage in ([], [1], [{}], None):
        change(run / "latency/merged.json", nodes=damage, wait=damage)
        assert "kairosdb-2 4.1 ms" not in report(run)[0].text


def test_values_are_escaped(tmp_path: Path) -> None:
    run = report_samples.failing(tmp_path)
    evil = '</script><script>alert(1)</script><img src="https://example.org/x">&amp;|$x^2$'
    verdict = run / "verdict.json"
    change(verdict, summary=evil, reasons=[evil])
    change(run / "manifest.json", experiment=evil, command=evil)
    text = (run / "queue.jsonl").read_text().replace("kairosdb-1", json.dumps(evil)[1:-1])
    (run / "queue.jsonl").write_text(text)
    (run / "events.jsonl").write_text(json.dumps({"t": 1, "what": evil, "detail": evil}) + "\n")
    ledger = json.loads((run / "ledger.json").read_text())
    ledger["gaps"][0]["series"] = evil
    (run / "ledger.json").write_text(json.dumps(ledger))
    page, html, markdown = report(run)
    assert evil in page.text  # as text
    assert "<script>alert" not in html
    assert not any(tag == "img" for tag, _ in page.elements)
    assert sum(tag == "script" for tag, _ in page.elements) == len(CHARTS) + 1
    assert "\\</script>" in markdown
    rows = [line for line in markdown.splitlines() if "alert" in line and line.startswith("| ")]
    assert rows
    assert all("\\|$x^2$" in row for row in rows)


def test_report_is_the_same_twice(tmp_path: Path) -> None:
    run = report_samples.failing(tmp_path)
    _, first, _ = report(run)
    _, second, _ = report(run)
    assert first == second
    assert not list(run.glob(".report*"))


def test_no_run_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no run folder"):
        write(tmp_path / "absent", REFERENCE)


def test_absent_reference_folder_is_said(tmp_path: Path) -> None:
    html, _ = write(report_samples.passing(tmp_path), tmp_path / "absent")
    assert "No published figures" in html.read_text()


def test_ledger_without_a_readback_is_not_called_unbalanced(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    sent = {"text": "scheduled = sent + not sent", "left": 9, "right": 9, "holds": True}
    stored = {"text": "acknowledged = stored", "left": 9, "right": None, "holds": False}
    change(run / "ledger.json", balanced=False, stored=None, equations=[sent, stored])
    page, _, markdown = report(run)
    assert "It could not be closed" in page.text
    assert "acknowledged = stored 9 – ? unknown" in page.text
    assert "It does not balance" not in page.text + markdown


def test_many_gaps_are_counted_and_the_first_named(tmp_path: Path) -> None:
    run = report_samples.failing(tmp_path)
    gaps = [
        {"series": f"SENSOR_{n}", "timestamps_ms": [1_795_000_000_000], "count": 30}
        for n in range(200)
    ]
    change(run / "ledger.json", gaps=gaps, gap_series=1234, gap_count=1300)
    page, _, markdown = report(run)
    assert "1,234 series; the first 200 of 1,300 gaps are named here" in page.text
    assert "3,766 without a gap, 1,234 with one" in page.text
    assert "SENSOR_199" in page.text
    assert "2026-11-18 11:06:40.000 and 29 more" in page.text
    assert "SENSOR_19 " in markdown
    assert "SENSOR_20 " not in markdown


def test_missing_points_are_told_apart_by_what_every_replica_has(tmp_path: Path) -> None:
    run = report_samples.failing(tmp_path)
    found = {"read_at": "QUORUM", "looked_for": 380, "repaired": 373, "not_found": 0, "lost": 7}
    change(run / "ledger.json", at_all={**found, "problem": ""})
    page, _, markdown = report(run)
    assert "read back after a read at ALL, which repairs 373" in page.text
    assert "on no replica 7" in page.text
    assert "| on no replica | 7 |" in markdown
    unasked = dict.fromkeys(("repaired", "not_found", "lost")) | {"problem": "storage-2 is | away"}
    change(run / "ledger.json", at_all={**found, **unasked})
    page, _, markdown = report(run)
    assert "not looked for: storage-2 is | away 380" in page.text
    assert "by a read at ALL" in markdown
    change(run / "ledger.json", at_all=None)
    assert "by a read at ALL" not in report(run)[0].text


def test_late_and_skipped_samples_make_neither_spikes_nor_holes(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    late = run / "load/worker-1.jsonl"
    records = [json.loads(line) for line in late.read_text().splitlines()]
    for n, record in enumerate(records):  # up to 0.9 s late, counting up to that moment
        record["t"] += (n % 10) / 10
        for key in ("due", "acknowledged"):
            record[key] = 2500 * (record["t"] - report_samples.START - 0.2)
    del records[40:42]
    late.write_text("".join(json.dumps(r) + "\n" for r in records))
    queue = [json.loads(line) for line in (run / "queue.jsonl").read_text().splitlines()]
    for n, sample in enumerate(queue):
        sample["t"] += (n % 4) / 10
        sample["waiting"] = n
    del queue[30]
    (run / "queue.jsonl").write_text("".join(json.dumps(r) + "\n" for r in queue))
    page, _, _ = report(run)
    charts = dict(zip(CHARTS, [json.loads(s) for s in page.scripts if s[0] == "{"], strict=True))
    for line in charts["throughput"]["series"]:
        inner = line["values"][3:-3]
        assert min(inner) == pytest.approx(5000, rel=0.001)
        assert max(inner) == pytest.approx(5000, rel=0.001)
    depth = charts["queue"]["series"][0]["values"]
    assert depth == [n for n in range(len(queue) + 1) if n != 30]


def test_looks_that_come_in_pairs_are_no_holes(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    start = report_samples.START
    times = [start + 2.2 * n + late for n in range(54) for late in (0.0, 0.6)]
    looks = [{"t": t, "node": "kairosdb-1", "waiting": n} for n, t in enumerate(times)]
    (run / "queue.jsonl").write_text("".join(json.dumps(look) + "\n" for look in looks))
    page, _, _ = report(run)
    charts = dict(zip(CHARTS, [json.loads(s) for s in page.scripts if s[0] == "{"], strict=True))
    assert charts["queue"]["series"][0]["values"] == list(range(len(looks)))


def test_nodes_without_a_capture_are_said(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    path = run / "proxyhistograms/captures.json"
    path.write_text(
        json.dumps([c for c in json.loads(path.read_text()) if c["node"] == "storage-1"])
    )
    page, _, _ = report(run)
    assert "Captures exist of 1 of 3 storage nodes only" in page.text


def test_all_that_a_fleet_has_is_shown(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.fleet(tmp_path))
    assert page.charts() == [*CHARTS[:3], "query-latency", *CHARTS[3:]]
    for text in (page.text, markdown.replace("|", "").replace("  ", " ")):
        assert "REST with gzip" in text
        assert "each request up to 50 ms later at random" in text
        assert "sensor.temperature with sensor=s-{n}, site=site-{n%20}" in text
        assert "0.5 points/s for 1 min, then 1 points/s for 1 min" in text
        assert "a sensor is replaced by a new one after 1 min" in text
        assert "14,321 series, none with a gap" in text
        assert "loader-2 10.0.0.12 4 3.11.7 1 -3.40 ± 0.19 ms 4.2 ms 300,000" in text
        assert "kairosdb-2 2,500 240,000 40 % 240,000" in text
        assert "count and sum in buckets 70 65 3 0 2 0" in text
        assert "all 210 200 5 0 5 0" in text
        assert "61,234 points were due in the answers 15 s after their time; 17 were" in text
        assert "17 were not yet (0.028 %)." in text
        assert "after a window of 10 s at most" in text
        assert "p99 131 ms 180 2" in text
        assert "7 missed by a query that was asked after their acknowledgement" in text
        assert "p99 1.24 s 1,190" in text
        assert "16 sensors were asked for 236 times, 1.04 s apart, at most 11.2 s" in text
        assert "9 reads had no answer, which says nothing." in text
        assert "found again" not in text.split("Followed")[1].split("of those in the")[0]
    assert in_order(
        page.text.split("Events", 1)[1],
        "process ended kairosdb-2",
        "node down kairosdb-2: no answer (seen by 2 of 2 workers)",
        "node up kairosdb-2",
    )
    charts = [json.loads(s) for s in page.scripts if s[0] == "{"]
    throughput, queries = charts[0], charts[3]
    due = next(s["values"] for s in throughput["series"] if s["label"] == "scheduled")
    assert due[0] == pytest.approx(250, abs=30)  # the ramp begins with the first second
    assert (due[30], due[90]) == (pytest.approx(2500), pytest.approx(5000))
    assert throughput["marks"] == [65, 70, 88]
    assert [s["label"] for s in queries["series"]] == ["median", "max"]
    assert queries["x"] == [t for t in range(21, 120) if t not in range(70, 76)]


def test_points_that_vanished_are_named(tmp_path: Path) -> None:
    run = report_samples.fleet(tmp_path)
    queries = json.loads((run / "queries.json").read_text())
    point = {"series": "s{sensor=s-7}", "timestamp_ms": 1_763_719_685_250, "acknowledged_t": None}
    times = {"found_t": 1_763_719_687.1, "missed_t": 1_763_719_690.2, "found_again": True}
    queries["followed"] |= {"vanished": 1, "found_again": 1, "vanished_points": [point | times]}
    (run / "queries.json").write_text(json.dumps(queries))
    page, _, markdown = report(run)
    for text in (page.text, markdown.replace("|", "").replace("  ", " ")):
        assert "1 found, and missed by a later query" in text
        assert (
            "s{sensor=s-7} 2025-11-21 10:08:05.250 – 2025-11-21 10:08:07.100 "
            "2025-11-21 10:08:10.200 yes" in text
        )
    found = first.verdict(read(run))
    assert "queries" in first.opened(read(run), found)


def test_plain_runs_have_no_sections_for_what_they_lack(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.passing(tmp_path))
    for text in (page.text, markdown):
        assert "Queries beside" not in text
        assert "Loader hosts" not in text
        assert "Balance of" not in text
        assert "How it was sent" not in text


def test_planned_queries_without_a_record_are_missing(tmp_path: Path) -> None:
    run = report_samples.fleet(tmp_path)
    (run / "queries.json").unlink()
    page, _, _ = report(run)
    assert "queries.json not there. Not known: what became of the queries" in page.text
    assert "Queries beside" not in page.text


def test_telnet_is_never_called_acknowledged(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.telnet(tmp_path))
    for text in (page.text, markdown):
        assert "telnet, putm (acknowledges nothing)" in text
        assert "600,000 handed to the socket (100 %)" in text
        assert "unknown = stored + queued + logged as failed" in text
        assert "every point sent is read back" in text
    assert "The protocol acknowledges nothing" in page.text
    labels = [s["label"] for s in json.loads(page.scripts[0])["series"]]
    assert labels == ["scheduled", "handed to the socket"]
    assert "ours ends with the hand-over to the socket" in page.text


def test_a_replay_is_not_judged_by_latency(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.replay(tmp_path))
    assert page.text.count("– not judged –") == 2
    assert "as fast as acknowledged 81,234" in page.text
    assert "Time that the history covers, and that it took 24 h" in page.text
    assert "while no node's queue holds more than 500,000 points" in page.text
    assert "## Client latency, from the start of the request to the acknowledgement" in markdown
    charts = dict(zip(CHARTS, [json.loads(s) for s in page.scripts if s[0] == "{"], strict=True))
    assert [s["label"] for s in charts["throughput"]["series"]] == ["acknowledged"]
    assert not any("limit" in s["label"] for s in charts["client-latency"]["series"])


def test_damaged_extras_do_not_stop_the_report(tmp_path: Path) -> None:
    run = report_samples.fleet(tmp_path)
    for content in ("{", "null", "[]", "[3, null]", '{"answers": [1], "latency": {"count": "x"}}'):
        (run / "queries.json").write_text(content)
        (run / "load/hosts.json").write_text(content)
        page, _, _ = report(run)
        assert "PASS" in page.text


def test_what_the_store_counted_stands_beside_its_sample(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    page, _, markdown = report(run)
    assert "exactly the measured time" not in page.text + markdown, "nothing was counted"
    write_ = {"count": 180_000, "p50_us": 640, "p99_us": 10_240, "p99_9_us": None}
    nodes = {"storage-1": {"begin": 1, "end": 2, "write": write_, "read": {"count": 0}}}
    (run / "proxyhistograms/window.json").write_text(json.dumps({"nodes": nodes}))
    page, _, markdown = report(run)
    for text in (page.text, markdown):
        assert "Counted by the store in exactly the measured time" in text
        assert "180,000" in text
    assert "storage-1 write 180,000 0.64 ms" in page.text
    (run / "proxyhistograms/window.json").write_text("[")
    page, _, _ = report(run)
    assert "exactly the measured time" not in page.text
