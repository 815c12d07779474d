"""search.json: what a search wanted, its trials as they come, and what it came to."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kairoscope import __version__, run_folder
from kairoscope.compare import comparable
from kairoscope.errors import UserError
from kairoscope.series import capacity
from kairoscope.series.search import Outcome, Result, Trial, Wanted

FILE = "search.json"
FORMAT = 1

EXIT_STATUS = {
    "found": 0,
    "lost": 1,
    "none sustained": 1,
    "all sustained": 2,
    "not judged": 2,
}
"""As of a comparison: 0 it is known and good, 1 it is known and bad, 2 it is not known."""

_CONDITIONS = ("machine", "hosts", "versions", "git")
"""Of a run's manifest, what its figures are of."""


def key(wanted: Mapping[str, Any]) -> str:
    """Tells searches apart that must not go on with each other's trials."""
    text = json.dumps([FORMAT, __version__, wanted], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Record:
    """A search's folder and document."""

    folder: Path
    document: dict[str, Any]

    @classmethod
    def open(
        cls, into: Path, name: str, wanted: dict[str, Any], now_s: float, *, anew: bool = False
    ) -> "Record":
        """The newest search for the same that was begun and not ended, or a new one: in any case
        with `anew`. OSError if it cannot be written."""
        own = key(wanted)
        earlier = [] if anew else sorted(into.glob(f"*-search-{name}"), reverse=True)
        for folder in earlier:
            try:
                document = run_folder.read_object(folder / FILE)
            except (UserError, OSError):
                continue
            if document.get("key") == own:
                if document.get("result") is None:
                    return cls(folder, document)
                break
        folder = into / f"{run_folder.stamp(now_s)}-search-{name}"
        folder.mkdir(parents=True)
        document = {
            "format": FORMAT,
            "key": own,
            **wanted,
            "started_s": now_s,
            "conditions": None,
            "commits": [],
            "warm_ups": [],
            "trials": [],
            "result": None,
        }
        record = cls(folder, document)
        record.write()
        return record

    @property
    def trials(self) -> list[Trial]:
        """Those that were made."""
        return [
            Trial(Wanted(**trial["wanted"]), Outcome(**trial["outcome"]))
            for trial in self.document["trials"]
        ]

    def check(self, now: Mapping[str, Any], *, or_anew: bool = False) -> None:
        """UserError if trials were made with another commit, or elsewhere, than `now`, which has
        all of a manifest's conditions or some; with `or_anew` they are left out instead."""
        if not self.document["trials"]:
            return
        known = [name for name in _CONDITIONS if name in now]
        before, later = ({name: of.get(name) for name in known} for of in (self._made_by(), now))
        if differ := comparable.differences(_facets(before), _facets(later)):
            if or_anew:
                self.document |= {"started_s": time.time(), "conditions": None, "commits": []}
                self.keep([])
                return
            raise UserError(
                f"{self.folder} cannot go on, as its {len(self.document['trials'])} trials were "
                f"made with something else: {comparable.described(differ)}. Their interval would "
                "be of neither. Bring back what they were made with, or begin another search: "
                "--anew (of make: ARGS=--anew)"
            )

    def _made_by(self) -> dict[str, Any]:
        return self.document["conditions"] or {}

    def _conditions(self, outcome: Outcome) -> dict[str, Any]:
        manifest = run_folder.read_object(self.folder / outcome.run / run_folder.MANIFEST)
        return {name: manifest.get(name) for name in _CONDITIONS}

    def add(self, trial: Trial) -> None:
        """One more, on disk before the next one begins. OSError if that is full."""
        now = self._conditions(trial.outcome)
        if len(self.document["trials"]) == 0:
            self.document |= {"conditions": now, "commits": []}
        # A checkout that changes meanwhile ends no search, but is known.
        commits = self.document.setdefault("commits", [])
        if (commit := comparable.commit(now)) not in commits:
            commits.append(commit)
        self.document["trials"].append(asdict(trial))
        self.write()

    def keep(self, trials: list[Trial]) -> None:
        """Only those: what was made before them does not belong to this search any more."""
        self.document["trials"] = [asdict(trial) for trial in trials]

    def warmed_up(self, outcome: Outcome, *, or_anew: bool = False) -> None:
        """A warm-up, which is no trial. As `check` if trials to come would be of something else
        than those that there are: servers tell their versions, and hosts what they are, once
        deployed.
        """
        self.document["warm_ups"].append(asdict(outcome))
        self.write()
        self.check(self._conditions(outcome), or_anew=or_anew)

    def end(self, result: Result, trials: list[Trial], confirm: bool) -> None:
        """What it came to."""
        self.keep(trials)
        self.document["result"] = {
            "how": result.how,
            "sentence": sentence(result, self.document["vary"], confirm),
            "lower": result.bounds.lower,
            "upper": result.bounds.upper,
            "capacity": asdict(result.capacity) if result.capacity else None,
            "confidence": capacity.CONFIDENCE,
            "at_least": result.at_least,
            "confirmed": result.confirmed,
            "why": result.why,
            "exit_status": exit_status(result, confirm),
        }
        self.write()

    def write(self) -> None:
        """The document as it is."""
        run_folder.write_json(self.folder / FILE, self.document)


def _facets(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """What is the same of all trials, by name."""
    return {
        "commit": comparable.commit(conditions),
        **comparable.versions(conditions),
        **comparable.machine(conditions),
    }


def exit_status(result: Result, confirm: bool) -> int:
    """Of the command."""
    unconfirmed = result.how == "found" and confirm and result.confirmed is None
    return 1 if unconfirmed else EXIT_STATUS[result.how]


def figure(load: float, vary: str) -> str:
    """A load without its unit."""
    return f"{load:,.0f}" if vary == "sensors" else f"{load:.4g}"


def load_text(load: float, vary: str) -> str:
    """A load as a person says it."""
    unit = f"sensor{'s' * (round(load) != 1)}" if vary == "sensors" else "points/s of each sensor"
    return f"{figure(load, vary)} {unit}"


def sentence(result: Result, vary: str, confirm: bool) -> str:
    """The outcome in one or two sentences."""

    def said(load: float | None) -> str:
        return "nothing" if load is None else load_text(load, vary)

    if result.how == "lost":
        return f"Acknowledged points were lost, which ends a search: {result.why}."
    if result.how == "none sustained":
        return f"Nothing that was tried is sustained, not even {said(result.bounds.upper)}."
    if result.how == "not judged":
        known = f"At least {said(result.at_least)}" if result.at_least else "Nothing is known"
        why = result.why.rstrip(".")
        limit = " the loader was the limit:" if why.startswith("loader:") else ""
        text = f"{known}; more could not be judged,{limit or ' as'} {why}."
    elif result.how == "all sustained":
        text = (
            f"At least {said(result.bounds.lower)}: that is the upper end, which the servers are "
            "deployed for. For more: --to."
        )
    else:
        text = f"{said(result.bounds.lower)} sustained, {said(result.bounds.upper)} not."
        if found := result.capacity:
            text += (
                f" By all trials together half of them would sustain "
                f"{load_text(found.median, vary)}; {100 * capacity.CONFIDENCE:.0f} % interval "
                f"{figure(found.low, vary)} to {figure(found.high, vary)}."
            )
    if confirm and result.how in ("found", "all sustained"):
        text += (
            f" A long run confirmed {said(result.confirmed)}."
            if result.confirmed
            else " No long run held."
        )
    return text
