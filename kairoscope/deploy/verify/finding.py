"""What a check found."""

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How a check ended."""

    OK = "ok"
    FAIL = "FAIL"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """One line of the table: what was looked at, where, what was found and what was wanted."""

    check: str
    where: str
    found: str
    wanted: str
    outcome: Outcome

    @classmethod
    def of(cls, check: str, where: str, found: str, wanted: str, well: bool) -> "Finding":
        """A finding that is well or not."""
        return cls(check, where, found, wanted, Outcome.OK if well else Outcome.FAIL)

    @classmethod
    def skipped(cls, check: str, why: str) -> "Finding":
        """A check that does not apply, and why."""
        return cls(check, "", why, "", Outcome.NOT_CHECKED)


def passed(findings: list[Finding]) -> bool:
    """Whether there is something that was checked, and nothing of it is off."""
    outcomes = {finding.outcome for finding in findings}
    return Outcome.OK in outcomes and Outcome.FAIL not in outcomes
