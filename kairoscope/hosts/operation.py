"""One change of a target at a time, and an interrupted one is gone on with before the next.

A verb that changes what a target consists of leaves a note until it has ended: between its steps
the target is neither what it was nor what it shall be.
"""

import contextlib
import fcntl
import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kairoscope import paths, ready, whole
from kairoscope.errors import UserError

REPLACE_OVER = (
    *("add-kairosdb", "remove-kairosdb", "add-storage", "decommission"),
    *("rolling-config", "upgrade", "upgrade-scylla"),
    "replace",
)
"""Verbs that `replace` comes in over: with a dead storage node they never come to their end; nor
does that of another node, which waits for all. Not `restore`, which has KairosDB stand still, and
is of an empty cluster."""


@dataclass(frozen=True)
class Operation:
    """A verb, the host it is for ("" if it is for none), and what it must remember for its end.

    `over`: the unfinished one that it has come in over, which is in force again after it. `way`: of
    a verb that goes forth and back, the option for the one it goes; either goes on with the other.
    `experiment`, `shape`: of a verb that brings the target to a plan: what a person calls that, and
    what it has of nodes, with which alone the verb goes on. By another, hosts would go that it has
    brought. `step`: how far it has come, of one for which that is not in what it remembers.
    """

    verb: str
    host: str = ""
    memory: str = ""
    over: "Operation | None" = None
    way: str = ""
    experiment: str = ""
    shape: dict[str, Any] = field(default_factory=dict)
    step: str = ""

    def __str__(self) -> str:
        """As one would type it."""
        way = f" {self.way}" if self.way else ""
        return f"{self.verb}{way}{f' --limit {self.host}' if self.host else ''}"


# Descriptors of the locks that this process holds.
_held: list[int] = []


def held() -> tuple[int, ...]:
    """What a program is given (`pass_fds`) that goes on if this process is killed: as long as it
    runs, everything that is locked now stays so."""
    return tuple(_held)


def note(target: str) -> Path:
    """Where an operation is noted until it has ended."""
    return paths.target_dir(target) / "operation.json"


@contextlib.contextmanager
def hold(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file to the end of the block.

    Raises:
        UserError: with `refusal` if somebody else does; the file cannot be written.
    """
    try:
        file = path.open("w")
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror})") from None
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(refusal) from None
        _held.append(lock.fileno())
        try:
            yield
        finally:
            _held.remove(lock.fileno())
            # Said, and not left to the file's end: who was given it may take a moment to end.
            fcntl.flock(lock, fcntl.LOCK_UN)


@contextlib.contextmanager
def alone(target: str) -> Iterator[None]:
    """Nothing else changes the target meanwhile: no deploy, no other verb.

    Raises:
        UserError: something does; nothing can be written there.
    """
    refusal = (
        f"Target {target} is being changed by another deploy or verb, or by the playbook of one "
        "that was killed. Wait for its end."
    )
    with _locked(target, "change.lock", refusal):
        yield


@contextlib.contextmanager
def searching(target: str) -> Iterator[None]:
    """No other search is on the target meanwhile: its deploy would change the servers under this
    one's trials.

    Raises:
        UserError: another one is; nothing can be written there.
    """
    refusal = f"Another search runs on target {target}: each would measure the other."
    with _locked(target, "series.lock", refusal):
        yield


@contextlib.contextmanager
def _locked(target: str, name: str, refusal: str) -> Iterator[None]:
    """Hold a lock of a target that there may be nothing of yet."""
    folder = paths.target_dir(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = ready.home_problem(paths.home())
        raise UserError(problem or f"{folder} cannot be made ({error.strerror})") from None
    path = folder / name
    with hold(path, refusal):
        try:
            yield
        finally:
            # What was refused before it began leaves nothing behind, inside of another lock too.
            if folder.exists() and all(left.suffix == ".lock" for left in folder.iterdir()):
                path.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # It, or the home, holds something else.
                    folder.rmdir()
                    folder.parent.rmdir()


def load_lock(target: str) -> Path:
    """Held by the load that runs on a target, and by what must not have one beside it."""
    return paths.target_dir(target) / "load.lock"


@contextlib.contextmanager
def without_load(target: str, why: str) -> Iterator[None]:
    """No load runs on the target, and none can begin meanwhile.

    Raises:
        UserError: one runs; `why` ends the sentence.
    """
    with hold(load_lock(target), f"A load runs on target {target}: {why}. Wait for its end."):
        yield


def unfinished(target: str) -> Operation | None:
    """The operation that was begun on a target and has not ended; None if there is none."""
    try:
        return _operation(json.loads(note(target).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise UserError(f"{note(target)} is not whole ({error}); remove it") from None


def _operation(noted: dict[str, Any]) -> Operation:
    over = noted.get("over")
    return Operation(**{**noted, "over": _operation(over) if over else None})


def check_none_unfinished(
    target: str, wanted: Operation | None = None, over: Collection[str] = ()
) -> Operation | None:
    """The unfinished operation if it is the wanted one, None if there is none.

    None as well if it is one that may be left unfinished meanwhile: of the verbs `over`.

    Raises:
        UserError: there is another one, or it is on its way to another plan than is wanted.
    """
    found = unfinished(target)
    if found is None:
        return None
    if wanted and _same(found, wanted):
        _check_same_plan(target, found, wanted)
        return found
    if found.verb in over:
        return None
    dead = (
        f"If a storage node has died, so that it cannot: first kairoscope operate replace --limit "
        f"(that node) --target {target}. "
        if found.verb in REPLACE_OVER
        else ""
    )
    raise UserError(
        f"Target {target}: `{found}` was interrupted or failed, and has to come to its end first. "
        f"Run it again: kairoscope operate {found} --target {target}, with the experiment it had. "
        f"{dead}(If it never can: mend the target by hand, then remove {note(target)}.)"
    )


def _check_same_plan(target: str, found: Operation, wanted: Operation) -> None:
    # A note of before this was noted has nothing to compare with.
    if not found.shape or not wanted.shape or found.shape == wanted.shape:
        return
    differ = [
        f"{name} {found.shape.get(name)}, not {wanted.shape.get(name)}"
        for name in sorted({*found.shape, *wanted.shape})
        if found.shape.get(name) != wanted.shape.get(name)
    ]
    raise UserError(
        f"Target {target}: `{found}` was begun for {', '.join(differ)}, as {wanted.experiment} has "
        "it; nothing was changed. It goes on with the experiment it had: kairoscope operate "
        f"{found} --target {target} {found.experiment}"
    )


def _same(one: Operation, other: Operation) -> bool:
    return (one.verb, one.host) == (other.verb, other.host)


def begin(target: str, operation: Operation) -> None:
    """Note that an operation is under way; to be called before the first change.

    One that it comes in over is kept.
    """
    if found := unfinished(target):
        operation = replace(operation, over=found.over if _same(found, operation) else found)
    _write(target, operation)


def end(target: str) -> None:
    """Note that it has ended; one that it came in over is the unfinished one again."""
    found = unfinished(target)
    if found and found.over:
        _write(target, found.over)
    else:
        note(target).unlink(missing_ok=True)


def _write(target: str, operation: Operation) -> None:
    # What there is nothing of is left out: a checkout from before there was such a thing reads it.
    noted = asdict(operation, dict_factory=lambda items: {key: it for key, it in items if it})
    whole.record(note(target), json.dumps(noted) + "\n")
