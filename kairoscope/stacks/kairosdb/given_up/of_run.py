"""This run's points that KairosDB gave up, out of its logs and its dead letters."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from kairoscope.stacks.kairosdb.given_up import dead_letters, failed_logs
from kairoscope.verdict.settlement import FailedPoint, label
from loaders.schedule.spec import LoadSpec

# KairosDB's own queue logs the points of a batch, and not why it gave it up.
REASON_OF_FAILED_LOG = "given up by KairosDB's own queue (failed.log)"
# KairosDB's host may have another clock than this machine; runs are minutes apart.
CLOCK_SLACK_MS = 60_000


def points(spec: LoadSpec, paths: Iterable[Path], since_ms: int) -> Iterator[FailedPoint]:
    """The points of failed.log files and of dead letters that are of the run.

    The files have those of earlier runs and of others too. A point is of this run if its time is,
    and if, where the file says when KairosDB took it, that was not before the run began
    (`since_ms`): a replay may be of a time that another one was of.
    """
    for path in paths:
        dead = failed_logs.is_dead_letters(path)
        # What was torn is cut here and there: it must not keep the others from being read.
        with path.open(errors="replace") as file:
            for line in file:
                found = _dead_letter(spec, line, since_ms) if dead else _failed_line(spec, line)
                if found and spec.start_ms <= found.timestamp_ms < spec.end_ms:
                    yield found


def _failed_line(spec: LoadSpec, line: str) -> FailedPoint | None:
    try:
        record = json.loads(line)
        name, timestamp = record["name"], int(record["timestamp"])
        return FailedPoint(
            label(spec, name, record.get("tags", {})), timestamp, REASON_OF_FAILED_LOG
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _dead_letter(spec: LoadSpec, line: str, since_ms: int) -> FailedPoint | None:
    letter = dead_letters.parse(line)
    if letter is None or letter.taken_at < since_ms - CLOCK_SLACK_MS:
        return None
    return FailedPoint(label(spec, letter.metric, letter.tags), letter.time, letter.reason)
