"""How far a deploy is: what it writes, what Ansible's callback adds, and the page of it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import report_samples
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import steps
from kairoscope.serve.now import ADDRESS, Now
from kairoscope.serve.pages import Pages
from kairoscope.serve.shelf import Shelf

TARGET = "lab"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("time.time", lambda: next(clock))
    clock = iter(range(1000, 100_000))
    return tmp_path / "home"


@pytest.fixture
def callback(narrate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """What Ansible calls of ours, by what it is called with."""
    monkeypatch.setenv("KAIROSCOPE_STEPS", str(steps.file(TARGET)))
    made = narrate.CallbackModule()

    def named(name: str) -> SimpleNamespace:
        return SimpleNamespace(get_name=lambda: name)

    def begins(*plays: str) -> None:
        made.v2_playbook_on_start(SimpleNamespace(get_plays=lambda: [named(p) for p in plays]))

    yield SimpleNamespace(
        begins=begins,
        play=lambda name: made.v2_playbook_on_play_start(named(name)),
        task=lambda name: made.v2_playbook_on_task_start(named(name), False),
        ends=lambda: made.v2_playbook_on_stats(None),
    )
    # Or it goes on to say how long the last task takes.
    made.v2_playbook_on_stats(None)


def deployed(callback: SimpleNamespace) -> None:
    """A deploy that goes well, a second for each line."""
    with steps.told(TARGET) as told:
        told.stage("Hosts")
        callback.begins("Users", "Store", "KairosDB")
        for play in ("Users", "Store", "KairosDB"):
            callback.play(play)
            callback.task(f"{play} are up")
        callback.ends()


def read() -> steps.Steps:
    found = steps.read(TARGET)
    assert found is not None
    return found


def test_a_deploy_says_what_it_is_at_and_what_is_to_come(callback):
    assert steps.read(TARGET) is None
    with steps.told(TARGET) as told:
        told.stage("Hosts")
        callback.begins("Users", "Store", "KairosDB")
        callback.play("Users")
        callback.play("Store")
        callback.task("cassandra : CQL answers")
        found = read()
        assert [(s.name, s.took_s, s.task) for s in found.stages] == [
            ("Hosts", 2.0, ""),
            ("Users", 1.0, ""),
            ("Store", None, "cassandra : CQL answers"),
        ]
        assert (found.to_come, found.end) == (("KairosDB",), None)
        # Nobody knows how long any of it takes.
        assert found.left_s(2000) is None
        callback.ends()
    assert read().end == steps.DONE
    assert [s.took_s for s in read().stages] == [2.0, 1.0, 2.0]


def test_how_long_it_takes_is_known_from_the_time_before(callback):
    deployed(callback)
    with steps.told(TARGET) as told:
        told.stage("Hosts")
        callback.begins("Users", "Store", "KairosDB")
        callback.play("Users")
        found = read()
        assert dict(found.usual_s) == {"Hosts": 2.0, "Users": 2.0, "Store": 2.0, "KairosDB": 2.0}
        began = found.stages[-1].began
        assert found.left_s(began + 0.5) == 5.5
        # Slower than the time before, it has not less than nothing left.
        assert found.left_s(began + 60) == 4.0
        callback.play("one that is new")
        assert read().left_s(began) is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UserError("no disk"), "no disk."),
        (UserError("Is it on?"), "Is it on?"),
        (ValueError(), "ValueError."),
        (KeyboardInterrupt(), "It was told to end."),
    ],
)
def test_a_deploy_that_fails_says_why_and_tells_the_next_one_nothing(callback, error, said):
    deployed(callback)

    def fail() -> None:
        with steps.told(TARGET) as told:
            told.stage("Hosts")
            raise error

    for _ in range(2):
        with pytest.raises(type(error)):
            fail()
        assert read().end == said
        assert read().usual_s["KairosDB"] == 2.0


def test_of_one_that_was_refused_before_anything_was_there_nothing_is_left(home):
    def refused() -> None:
        with steps.told(TARGET):
            steps.forget(TARGET)
            raise UserError("ports are taken")

    with pytest.raises(UserError):
        refused()
    assert list(home.iterdir()) == []


def test_ansible_goes_on_where_nothing_can_be_written(callback, home):
    home.write_text("a file in the way")
    callback.begins("Users")
    callback.play("Users")


@given(st.lists(st.one_of(st.text(max_size=20), st.integers(), st.none()), max_size=4))
def test_lines_that_are_none_are_no_deploy(lines):
    file = steps.file("torn")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n{line}\n" for line in lines) + '{"t": 1, "sta')
    assert steps.read("torn") is None


# The page


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    earlier = report_samples.passing(folder)
    earlier.rename(folder / "20200101T000000Z-earlier-lab")
    return folder


@pytest.fixture
def pages(runs: Path) -> Pages:
    shelf = Shelf(lambda: [runs])
    return Pages(shelf, paths.REFERENCE, Now(TARGET, shelf))


def seen(pages: Pages) -> tuple[str, int | None]:
    page = pages.page(ADDRESS)
    assert page is not None
    return page.body.decode(), page.every_ms


def test_the_page_has_the_deploy_and_then_the_run(pages, runs, callback, tmp_path):
    deployed(callback)
    with steps.told(TARGET) as told:
        told.stage("Hosts <b>")
        callback.begins("Users", "Store")
        callback.play("Users")
        callback.task("Set the clock")
        text, every_ms = seen(pages)
        assert "Hosts &lt;b&gt;" in text
        assert all(word in text for word in ("▶ going on", "✓ done", "… not yet", "Set the clock"))
        assert "2 s left if it takes as long as last time" in text
        assert every_ms
    text, every_ms = seen(pages)
    assert "the load begins" in text
    assert every_ms
    # Of another target; then ours, which stays at this address.
    other = report_samples.passing(tmp_path / "made")
    shutil.copytree(other, runs / "20990101T000000Z-other")
    _of(runs / "20990101T000000Z-other", "local")
    assert "the load begins" in seen(pages)[0]
    shutil.copytree(other, runs / "20990101T000001Z-mine")
    _of(runs / "20990101T000001Z-mine", TARGET)
    text, every_ms = seen(pages)
    assert ("Client latency" in text, every_ms) == (True, None)


def _of(run: Path, target: str) -> None:
    manifest = run / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"target": target}))


def test_the_page_of_a_deploy_that_failed_is_its_last(pages, callback):
    def fail() -> None:
        with steps.told(TARGET) as told:
            told.stage("Hosts")
            raise UserError("no disk")

    with pytest.raises(UserError):
        fail()
    text, every_ms = seen(pages)
    assert ("✗ failed" in text, "no disk" in text, every_ms) == (True, True, None)


def test_a_deploy_of_before_is_not_shown(runs, callback):
    deployed(callback)
    shelf = Shelf(lambda: [runs])
    text, every_ms = seen(Pages(shelf, paths.REFERENCE, Now(TARGET, shelf)))
    assert "looked at what can refuse" in text
    assert every_ms
