"""`kairoscope search` on the stub, with simulated loads: what it writes, says and refuses."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from stub.stack import Server, StubStack
from stub.target import StubTarget
from test_seams import EXPERIMENT, call, home

from kairoscope.cli import known
from kairoscope.errors import UserError
from kairoscope.experiment import load as experiment
from kairoscope.hosts import operation, provenance
from kairoscope.run import run
from kairoscope.run_folder import write_json
from kairoscope.series import command, record, trials
from kairoscope.series.bounds import Bounds
from kairoscope.series.hopeless import Hopeless, grown
from kairoscope.series.search import Result
from loaders.emulator import Progress

assert home  # the fixture


SERVER = Server()


CONDITIONS = {
    "machine": {"cpus": 2},
    "hosts": [],
    "versions": {"stub": "1"},
    "git": {"commit": "0123456789abcdef", "dirty": False},
}
OTHER_COMMIT = {"git": {"commit": "fedcba9876543210", "dirty": True}}


class Loads:
    """Stands in for `run.load`: sustains `capacity` sensors."""

    def __init__(self, capacity: float, interrupt_at: int = -1, **manifest) -> None:
        self.capacity, self.interrupt_at = capacity, interrupt_at
        self.manifest = CONDITIONS | manifest
        self.plans = []

    def __call__(self, plan, stack, console, *, always_read_back, until, into) -> run.Ran:
        folder = into / f"run-{len(list(into.iterdir())):02d}"
        stopped = len(self.plans) == self.interrupt_at
        self.plans.append(plan)
        sensors = plan.load["sensors"]
        good = sensors <= self.capacity
        read = good or always_read_back
        points = sensors * 75
        parts = {
            "latency": {"outcome": "pass" if good else "fail", "text": "p99 2,000 ms"},
            "readback": {"outcome": "pass" if read else "unknown", "text": "not read back"},
        }
        reasons = [] if good else ["latency: p99 2,000 ms"]
        if not read:
            reasons = [f"{run.NOT_READ_BACK}: p99", "readback: not read back", *reasons]
        word = "pass" if good else "fail" if read else "incomplete"
        folder.mkdir()
        write_json(folder / "manifest.json", self.manifest)
        write_json(
            folder / "verdict.json",
            {"verdict": word, "parts": parts, "reasons": reasons, "invalid": []},
        )
        write_json(
            folder / "ledger.json",
            {
                "acknowledges": True,
                "acknowledged": points,
                "stored": points if read else None,
                "missing": 0 if read else None,
                "queued": 0,
            },
        )
        return run.Ran(folder, "pass" if good else "fail", stopped)


@pytest.fixture
def stubbed(home: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "stubbed.yml").write_text(EXPERIMENT)
    monkeypatch.setattr(known, "TARGETS", (*known.TARGETS, StubTarget(tmp_path / "hosts")))
    monkeypatch.setattr(known, "STACKS", (*known.STACKS, StubStack(SERVER)))
    # A deploy is Ansible's business, which test_seams has.
    monkeypatch.setattr(
        command.deploy, "deploy", lambda *_: (home / "stub").mkdir(parents=True, exist_ok=True)
    )
    monkeypatch.setattr(trials.inventory, "load", lambda _: None)
    monkeypatch.setattr(provenance, "git", lambda: CONDITIONS["git"])
    monkeypatch.setattr(provenance, "this_machine", lambda: CONDITIONS["machine"])
    # Two that are begun within a second have folders of their own.
    numbers = itertools.count()
    monkeypatch.setattr(record.run_folder, "stamp", lambda _: f"2099123{next(numbers)}T000000Z")
    return str(tmp_path / "stubbed.yml")


def search(stubbed, *more: str) -> tuple[int, str]:
    return call("search", stubbed, "--target", "stub", "--from", "100", "--to", "5000", *more)


def documents(home: Path) -> list[dict]:
    return [json.loads(p.read_text()) for p in sorted((home / "series").glob("*/search.json"))]


def test_a_search_finds_writes_and_shows(stubbed, home, monkeypatch):
    loads = Loads(700)
    monkeypatch.setattr(run, "load", loads)
    status, said = search(stubbed, "--confirm", "--confirm-s", "120")
    assert status == 0, said
    (found,) = documents(home)
    result = found["result"]
    assert result["lower"] <= 700 < result["upper"]
    assert result["confirmed"] == result["lower"]
    assert result["sentence"] in said.replace("\n", " ")
    assert found["conditions"]["machine"] == {"cpus": 2}
    assert len(found["warm_ups"]) == 1
    # Servers as deployed for the upper end; the load and its length as the trial has it.
    assert {plan.load["duration_s"] for plan in loads.plans} == {122, 62}
    assert loads.plans[0].load["sensors"] == 100
    (page,) = (home / "series").glob("*/search.html")
    text = page.read_text()
    assert "FOUND" in text and "uPlot" in text
    assert all(trial["outcome"]["run"] in text for trial in found["trials"])


def test_a_queue_that_there_is_none_of_is_not_waited_for(stubbed, home, monkeypatch):
    told_none = StubStack(SERVER, dict.fromkeys(("queue", "drain"), "nothing waits there"))
    monkeypatch.setattr(known, "STACKS", (*known.STACKS[:-1], told_none))
    monkeypatch.setattr(run, "load", Loads(700))
    status, said = search(stubbed)
    assert status == 0, said


@pytest.mark.parametrize("emptied", [True, False])
def test_a_store_is_emptied_before_each_load_if_asked(stubbed, home, monkeypatch, emptied):
    loads, found = Loads(700), []

    def load(*arguments, **more) -> run.Ran:
        found.append(dict(SERVER.points))
        SERVER.points["left"] = {0: 1}
        return loads(*arguments, **more)

    SERVER.points["left"] = {0: 0}
    monkeypatch.setattr(run, "load", load)
    monkeypatch.setattr(StubTarget, "thrown_away", True)
    assert search(stubbed, *(["--empty"] if emptied else []))[0] == 0
    assert len(found) > 3
    assert any(found) is not emptied


def test_an_interrupted_search_goes_on_where_it_was(stubbed, home, monkeypatch):
    whole = Loads(700)
    monkeypatch.setattr(run, "load", whole)
    assert search(stubbed)[0] == 0
    stops = Loads(700, interrupt_at=5)
    monkeypatch.setattr(run, "load", stops)
    (home / "series").rename(home / "before")
    status, said = search(stubbed)
    assert (status, "the same command goes on" in said) == (2, True)
    (begun,) = documents(home)
    assert len(begun["trials"]) == 4  # the warm-up is none
    assert begun["result"] is None
    status, said = search(stubbed)
    assert status == 0
    assert "goes on after 4 trials" in said
    (ended,) = documents(home)
    before = json.loads(next((home / "before").glob("*/search.json")).read_text())
    assert ended["result"] == before["result"]
    # Ended: the same command begins another one.
    monkeypatch.setattr(run, "load", Loads(400))
    assert search(stubbed)[0] == 0
    assert len(documents(home)) == 2


def interrupted(stubbed, monkeypatch) -> None:
    monkeypatch.setattr(run, "load", Loads(700, interrupt_at=4))
    assert search(stubbed)[0] == 2
    monkeypatch.setattr(run, "load", Loads(700))


@pytest.mark.parametrize(
    ("of", "other"),
    [
        ("rate: 1.0", "rate: 2.0"),
        ("rate: 1.0", "rate: 1.0, sensors_per_request: 10"),
        ("rate: 1.0", "rate: 1.0, points_per_request: 2"),
        ("rate: 1.0", "rate: 1.0, jitter_ms: 500"),
        ("rate: 1.0", "rate: 1.0, tags: {sensor: '{n}'}"),
        ("\ncluster:", "\nqueries: {rate: 1}\ncluster:"),
        ("\ncluster: {", "\ncluster: {loader_hosts: 2, "),
    ],
)
def test_trials_of_another_load_are_not_gone_on_with(stubbed, home, monkeypatch, of, other):
    interrupted(stubbed, monkeypatch)
    Path(stubbed).write_text(EXPERIMENT.replace(of, other, 1))
    status, said = search(stubbed)
    assert (status, "goes on after" in said) == (0, False), said
    assert len(documents(home)) == 2


def test_how_many_sensors_an_experiment_has_and_how_long_is_no_other_load(
    stubbed, home, monkeypatch
):
    interrupted(stubbed, monkeypatch)
    fewer = EXPERIMENT.replace("sensors: 20", "sensors: 30").replace("duration_s: 12", "points: 9")
    Path(stubbed).write_text(fewer)
    status, said = search(stubbed)
    assert (status, "goes on after 3 trials" in said) == (0, True), said


def test_an_experiment_of_the_same_name_in_another_file_has_a_search_of_its_own(
    stubbed, home, monkeypatch
):
    """As the experiments of two bake-offs, of which the later would be refused for the earlier."""
    interrupted(stubbed, monkeypatch)
    other = Path(stubbed).rename(Path(stubbed).with_name("other.yml"))
    assert search(str(other))[0] == 0
    assert len(documents(home)) == 2


@pytest.mark.parametrize(
    ("what", "other", "says"),
    [
        ("git", OTHER_COMMIT["git"], "commit 0123456789ab and fedcba987654, changed"),
        ("this_machine", {"cpus": 4}, "cpus 2 and 4"),
    ],
)
def test_another_commit_or_machine_is_refused_before_the_deploy(
    stubbed, home, monkeypatch, what, other, says
):
    interrupted(stubbed, monkeypatch)
    monkeypatch.setattr(provenance, what, lambda: other)
    deployed = []
    monkeypatch.setattr(command.deploy, "deploy", lambda *_: deployed.append(1))
    status, said = search(stubbed)
    said = " ".join(said.split())
    assert (status, says in said, "--anew" in said) == (2, True, True), said
    assert (deployed, len(documents(home))) == ([], 1)
    assert search(stubbed, "--anew")[0] == 0


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"versions": {"stub": "2"}}, "version of stub 1 and 2"),
        ({"hosts": [{"name": "storage-1", "role": "storage", "cpus": 8}]}, "hosts [] and"),
    ],
)
def test_other_servers_are_refused_once_they_tell(stubbed, home, monkeypatch, other, says):
    interrupted(stubbed, monkeypatch)
    monkeypatch.setattr(run, "load", Loads(700, **other))
    status, said = search(stubbed)
    assert (status, says in " ".join(said.split())) == (2, True), said
    assert [len(d["trials"]) for d in documents(home)] == [3]


@pytest.mark.parametrize("other", [OTHER_COMMIT, {"versions": {"stub": "2"}}])
def test_a_search_begins_again_where_it_may_not_go_on(stubbed, home, monkeypatch, other):
    """As a bake-off's, whose systems are there already: of another commit, or other servers."""
    interrupted(stubbed, monkeypatch)
    ((before,), *_) = (d["trials"][:1] for d in documents(home))
    monkeypatch.setattr(run, "load", Loads(700, **other))
    monkeypatch.setattr(provenance, "git", lambda: (CONDITIONS | other)["git"])
    status, said = search(stubbed, "--or-anew")
    assert (status, "goes on after" in said and "git" in other) == (0, False), said
    (found,) = documents(home)
    assert before["outcome"]["run"] not in [trial["outcome"]["run"] for trial in found["trials"]]
    assert found["conditions"] == CONDITIONS | other
    assert len(found["commits"]) == 1
    # Of the same it goes on.
    interrupted(stubbed, monkeypatch)
    monkeypatch.setattr(provenance, "git", lambda: CONDITIONS["git"])
    status, said = search(stubbed, "--or-anew")
    assert (status, "goes on after 3 trials" in said) == (0, True), said


@pytest.mark.parametrize("other", [OTHER_COMMIT, {"versions": {"stub": "2"}}])
def test_a_search_that_begins_again_and_ends_in_its_warm_up_is_of_no_trial(
    stubbed, home, monkeypatch, other
):
    """What its former trials were made with would stand beside a loss that is not of it."""

    def loses(*arguments, **more) -> run.Ran:
        ran = Loads(700, **other)(*arguments, **more)
        file = ran.folder / "ledger.json"
        book = json.loads(file.read_text())
        write_json(file, book | {"stored": 0, "missing": book["acknowledged"]})
        return ran

    interrupted(stubbed, monkeypatch)
    monkeypatch.setattr(run, "load", loses)
    monkeypatch.setattr(provenance, "git", lambda: (CONDITIONS | other)["git"])
    assert search(stubbed, "--or-anew")[0] == 1
    (found,) = documents(home)
    assert (found["result"]["how"], found["trials"]) == ("lost", [])
    assert (found["conditions"], found["commits"]) == (None, [])


def test_a_checkout_that_changes_meanwhile_is_told(stubbed, home, monkeypatch):
    loads = Loads(700)

    def load(*arguments, **more) -> run.Ran:
        loads.manifest |= OTHER_COMMIT if len(loads.plans) > 3 else {}
        return loads(*arguments, **more)

    monkeypatch.setattr(run, "load", load)
    assert search(stubbed)[0] == 0
    (found,) = documents(home)
    assert found["commits"] == ["0123456789ab", "fedcba987654, changed"]
    (page,) = (home / "series").glob("*/search.html")
    assert "0123456789ab, fedcba987654, changed" in page.read_text()


def test_a_second_search_is_refused_before_it_deploys(stubbed, home, monkeypatch):
    deployed, locked = [], []
    deploy = command.deploy.deploy

    def while_another_is_asked_for(*arguments) -> None:
        deploy(*arguments)
        deployed.append(arguments)
        if len(deployed) == 1:
            locked.append(search(stubbed))

    monkeypatch.setattr(command.deploy, "deploy", while_another_is_asked_for)
    monkeypatch.setattr(run, "load", Loads(700))
    assert search(stubbed)[0] == 0
    ((status, said),) = locked
    assert (status, "Another search runs on target stub" in said) == (2, True)
    assert (len(deployed), len(documents(home))) == (1, 1)


def test_a_search_whose_deploy_is_refused_leaves_nothing_of_its_target(stubbed, home, monkeypatch):
    def refuses(*_) -> None:
        with operation.alone("stub"):
            raise UserError("This machine cannot take the deployment")

    monkeypatch.setattr(command.deploy, "deploy", refuses)
    assert search(stubbed)[0] == 2
    assert not (home / "stub").exists()


def test_a_machine_that_sustains_all_is_status_2(stubbed, home, monkeypatch):
    monkeypatch.setattr(run, "load", Loads(1e9))
    status, said = search(stubbed)
    assert status == 2
    assert "that is the upper end" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--empty"], "target stub may hold others' than ours"),
        (["--vary", "heap"], "sensors or rate"),
        (["--precision", "200%"], "--precision 200%: not a share"),
        (["--precision", "0.1%"], "between 0.5% and 50%"),
        (["--from", "many"], "--from many: a number"),
        (["--from", "500", "--to", "400"], "--from 500 --to 400"),
        (["--from", "500", "--to", "600"], "at least 1.5 times the start"),
        (["--trial", "3"], "--trial 3: a trial has 3 windows"),
        (["--confirm", "--confirm-s", "20"], "longer than a trial"),
        (["--vary", "rate", "--to", "100"], "at most 10 points/s"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_a_sentence(stubbed, arguments, says):
    status, said = call("search", stubbed, "--target", "stub", *arguments)
    assert status == 2
    assert says in said


def test_a_load_of_several_rates_is_refused(stubbed, tmp_path):
    (tmp_path / "steps.yml").write_text(
        EXPERIMENT.replace(
            "rate: 1.0, duration_s: 12",
            "steps: [{rate: 1, duration_s: 6}, {rate: 2, duration_s: 6}]",
        )
    )
    status, said = call("search", str(tmp_path / "steps.yml"), "--target", "stub")
    assert status == 2
    assert "load.steps: a search changes the load itself" in said


def test_rates_are_whole_milliseconds():
    assert command.snapped("rate", 3.1) == 1000 / 323
    assert command.snapped("sensors", 10.4) == 10


def test_a_smaller_load_leaves_the_servers_as_they_are():
    laptop = experiment("laptop")
    upper = known.plan(trials.scaled(laptop, "sensors", 96_000, 120, 15))
    at = trials.on_servers_of(known.plan(trials.scaled(laptop, "sensors", 9_000, 75, 15)), upper)
    assert (at.kairosdb, at.storage) == (upper.kairosdb, upper.storage)
    assert at.load["sensors"] == 9_000
    name = "kairosdb.row_key_cache_size"
    assert at.setting(name) == upper.setting(name)
    assert at.totals["points_per_s"] == 9_000


def verdict(**parts: str) -> dict:
    return {
        "verdict": "incomplete",
        "invalid": [],
        "reasons": [f"{n}: {n} text" for n, o in parts.items() if o not in ("pass", "not judged")],
        "parts": {
            n: {"outcome": o, "text": f"{n} text", "figure": 0.009, "limit": 0.01}
            for n, o in parts.items()
        },
    }


def said(tmp_path: Path, document: dict, cut: str = "", **book: int | None):
    write_json(tmp_path / "verdict.json", document)
    if book:
        given = {"acknowledges": True, "acknowledged": 100, "queued": 0, "missing": 0, **book}
        write_json(tmp_path / "ledger.json", given)
    return trials.outcome(tmp_path, cut)


def test_an_undecided_part_counts_by_its_figure(tmp_path):
    undecided = verdict(queue="undecided", latency="pass")
    assert said(tmp_path, undecided).sustained is True
    undecided["parts"]["queue"]["figure"] = 0.011
    found = said(tmp_path, undecided)
    assert (found.sustained, found.word) == (False, "undecided")


def test_a_queue_that_grew_by_more_than_a_late_loader_explains_is_the_stores(tmp_path):
    """As met on two cores that loader and servers share: 34 % of the rate, 0.8 s late."""
    late = verdict(queue="fail", readback="unknown") | {"invalid": ["loader: worker 0 sent late"]}
    assert said(tmp_path, late).sustained is None
    found = said(tmp_path, late | {"despite": ["queue"]})
    assert (found.sustained, found.ended_by) == (False, "queue: queue text")


def test_what_was_not_captured_counts_for_nothing(tmp_path):
    lacking = verdict(queue="fail", readback="pass")
    lacking["reasons"].insert(0, "no proxyhistograms of storage-2")
    assert said(tmp_path, lacking).sustained is None
    late = verdict(queue="fail") | {"verdict": "invalid", "invalid": ["loader: worker 0 sent late"]}
    assert said(tmp_path, late).sustained is None


def test_a_load_that_cannot_pass_and_was_not_read_back_is_a_fail(tmp_path):
    document = verdict(queue="fail", readback="unknown")
    document["reasons"].insert(0, f"{run.NOT_READ_BACK}: queue text")
    found = said(tmp_path, document)
    assert (found.sustained, found.ended_by, found.read_back) == (False, "queue: queue text", False)


def test_a_load_that_was_cut_and_did_not_fail_says_nothing(tmp_path):
    found = said(tmp_path, verdict() | {"verdict": "pass"}, "the queue grows")
    assert (found.sustained, found.cut, found.word) == (None, True, "incomplete")


def test_what_waits_in_a_queue_is_not_lost_and_what_was_given_up_is(tmp_path):
    fails = verdict(readback="fail", drain="fail") | {"verdict": "fail"}
    assert said(tmp_path, fails, stored=60, queued=40).lost == 0
    assert said(tmp_path, fails, stored=60, queued=30).lost == 10


def test_a_queue_grows_by_its_means_over_windows():
    def depths(slope: float):
        return [
            {"t": t, "node": node, "waiting": 1_000 + slope * t + 500 * (t % 15)}
            for t in range(60)
            for node in ("a", "b")
        ]

    assert grown(depths(0), 15) == pytest.approx(0, abs=1)
    assert grown(depths(100), 15) == pytest.approx(200, rel=0.01)
    assert grown([r for r in depths(5) if r["node"] == "a" or r["t"] < 40], 15) is None
    assert grown([], 15) is None


def progress(t: float, rate: float, acked: float, sent: float | None = None) -> Progress:
    done = int(acked)
    return Progress(
        int(rate * t), int(rate * t if sent is None else sent), done, 0, 0, 0, 0, 1, t, 75
    )


def test_a_load_whose_points_come_too_late_is_hopeless(tmp_path):
    plan = known.plan(trials.scaled(experiment("laptop"), "sensors", 1_000, 75, 15))
    good, bad, slow = (Hopeless(plan, 15) for _ in range(3))
    for t in range(1, 60):
        assert good(tmp_path, progress(t, 1_000, 1_000 * (t - 0.5))) is None
        early = bad(tmp_path, progress(t, 1_000, 800 * t))
        behind = slow(
            tmp_path, replace(progress(t, 1_000, 700 * t), acknowledged=10**9, sent=700 * t)
        )
        assert t >= 15 or early is None
    assert "late, too many" in early
    assert "the loader is behind" in behind


def test_a_queue_that_no_verdict_judges_makes_no_load_hopeless(tmp_path):
    plan = known.plan(trials.scaled(experiment("laptop"), "sensors", 1_000, 75, 15))
    judged, left = Hopeless(plan, 15), Hopeless(plan, 15, queue=False)
    lines = [{"t": t, "node": "a", "waiting": 500 * t} for t in range(60)]
    (tmp_path / "queue.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    said = [one(tmp_path, progress(59, 1_000, 59_000)) for one in (judged, left)]
    assert said == ["the queue grows by 500 points/s at 1,000 points/s", None]


@pytest.mark.parametrize(
    ("how", "status", "says"),
    [
        ("lost", 1, "Acknowledged points were lost"),
        ("none sustained", 1, "not even 10 sensors"),
        ("not judged", 2, "At least 7 sensors; more could not be judged, the loader was the limit"),
    ],
)
def test_every_end_has_its_sentence_and_status(how, status, says):
    result = Result(how, Bounds(None, 10), None, 7, why="loader: late")
    assert says in record.sentence(result, "sensors", confirm=False)
    assert record.exit_status(result, confirm=False) == status
    found = replace(result, how="found", bounds=Bounds(9, 10))
    assert record.exit_status(found, confirm=False) == 0
    assert record.exit_status(found, confirm=True) == 1
