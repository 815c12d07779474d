"""The line for a task of a playbook that takes long."""

import time


class Task:
    def __init__(self, name: str) -> None:
        self._name = name

    def get_name(self) -> str:
        return self._name


def test_a_task_is_named_every_five_seconds(narrate):
    assert narrate._EVERY_S <= 5


def test_a_task_that_goes_on_is_named_and_an_ended_playbook_is_not(narrate, monkeypatch, capfd):
    monkeypatch.setattr(narrate, "_LOOK_S", 0.01)
    callback = narrate.CallbackModule()
    callback.v2_playbook_on_task_start(Task("cassandra : quick"), False)
    monkeypatch.setattr(narrate, "_EVERY_S", 0.0)
    callback.v2_playbook_on_task_start(Task("cassandra : Node is up"), False)
    said, deadline = "", time.monotonic() + 60
    while "Node is up" not in said and time.monotonic() < deadline:
        said += capfd.readouterr().out
        time.sleep(0.01)
    callback.v2_playbook_on_stats(None)
    assert "  … cassandra : Node is up: 0 s\n" in said
    assert "quick" not in said
