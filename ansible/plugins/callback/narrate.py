"""Says which task a playbook is at, where one takes long: Ansible shows one when it has ended.

All of them, and the plays, go into the file of a deploy's steps where one is named
(KAIROSCOPE_STEPS; kairoscope/hosts/steps.py reads it).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: narrate
type: aggregate
short_description: which task a playbook is at, where one takes long
description: A line for a task that goes on, every five seconds.
"""

_EVERY_S = 5.0
_LOOK_S = 0.5


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Loaded by Ansible (ansible.cfg: callbacks_enabled)."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "narrate"

    def __init__(self) -> None:
        """No task has begun."""
        super().__init__()
        self._task = ""
        self._began = self._due = time.monotonic()
        self._thread: threading.Thread | None = None

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Ansible has read the playbook."""
        _step(to_come=[play.get_name() for play in playbook.get_plays()])

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Ansible begins a play."""
        _step(stage=play.get_name())

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Ansible begins a task."""
        self._begin(task.get_name())

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """Ansible begins a handler."""
        self._begin(task.get_name())

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Ansible has ended."""
        self._task = ""

    def _begin(self, name: str) -> None:
        self._task = name
        self._began = time.monotonic()
        self._due = self._began + _EVERY_S
        _step(task=name)
        if self._thread is None:
            self._thread = threading.Thread(target=self._tell, daemon=True)
            self._thread.start()

    def _tell(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            now, task = time.monotonic(), self._task
            if task and now >= self._due:
                self._due = now + _EVERY_S
                # Not by Ansible's display: its lock must not be held when a worker is forked.
                line = f"  … {task}: {now - self._began:.0f} s\n"
                os.write(sys.stdout.fileno(), line.encode())


def _step(**what: str | list[str]) -> None:
    path = os.environ.get("KAIROSCOPE_STEPS")
    if not path:
        return
    # A deploy does not fail for what is told of it.
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as steps:  # noqa: PTH123
        steps.write(json.dumps({"t": round(time.time(), 3), **what}) + "\n")
