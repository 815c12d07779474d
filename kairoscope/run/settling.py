"""What is asked of the servers once a load has ended: every point of it, and what else was
published of such a system."""

from dataclasses import asdict

from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.run.current import CurrentRun
from kairoscope.stacks.stack import Session
from kairoscope.verdict import ledger, outcomes, settlement


def settle(current: CurrentRun, session: Session, console: Console) -> None:
    """Read every point back and write down what was found, for the ledger."""
    assert current.schedule is not None  # set by measured_load
    current.at("read-back")
    schedule = current.schedule
    found = outcomes.read(schedule, current.folder / run_folder.LOAD)
    settling = settlement.Settlement(schedule, found)
    way = session.read_back(schedule, settling.incomplete, settling.add, console)
    read_back = settling.found(way.passes)
    read_back.waiting = way.waiting
    read_back.notes.append(way.note)
    # Before anything else is asked, which may fail: this took long, and names what is lost.
    read_back.write_gaps(current.folder)
    read_back.write(current.folder)
    failed = session.given_up(schedule.spec, current.facts.incomplete.append)
    run_folder.write_lines(
        current.folder / run_folder.FAILED_POINTS, (point._asdict() for point in failed)
    )
    try:
        read_back.rows_by_cql = way.rows()
    except Exception as error:
        read_back.notes.append(f"rows could not be counted in the store: {error}")
        current.note("row count failed", str(error))
    read_back.write(current.folder)
    left = current.facts.drain.left if current.facts.drain else None
    book = ledger.balance(found, read_back, left, settlement.failed_points(current.folder))
    # After the count: a read at ALL brings rows to replicas that lack them.
    if gaps := book.lacking:
        with live.stage(console, f"look for missing points of {len(gaps):,} series at ALL"):
            read_back.at_all = session.look_on_all_replicas(gaps)
        read_back.write(current.folder)


def probe_published(current: CurrentRun, session: Session, console: Console) -> None:
    """Write down what else was published of such a system, as it is here."""
    try:
        with live.stage(console, "what else was published of it"):
            found = session.probe()
    except (OSError, ValueError) as error:
        current.note("not probed", str(error))
        return
    if found:
        document = {name: asdict(probe) for name, probe in found.items()}
        run_folder.write_json(current.folder / run_folder.PROBED, document)
