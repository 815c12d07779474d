"""`make bench`: ours beside a baseline, against limits; see results/README.md.

`harness` measures and writes; `load` says what is measured of the loader, `queue` what of KairosDB
and its store.
"""

from rich.console import Console

from bench import harness, load, queue
from kairoscope.errors import UserError

__all__ = ["run"]

BENCHES = (*load.BENCHES, *queue.BENCHES)
ASKED_FOR = queue.ASKED_FOR


def run(only: str | None, console: Console) -> None:
    """Run all benches but those of `ASKED_FOR`, or the one named `only`.

    The results of each are written and printed. A limit that does not hold, or a bench that
    cannot be measured, does not keep the others from being run.

    Raises:
        UserError: there is no bench of that name.
        SystemExit: status 1, after all of them, if a limit did not hold or a bench failed.
    """
    known = (*BENCHES, *ASKED_FOR)
    chosen = [bench for bench in known if bench.name == only] if only else BENCHES
    if not chosen:
        names = ", ".join(bench.name for bench in known)
        raise UserError(f"ONLY={only}: there is no such bench. There are: {names}")
    bad: list[str] = []
    for bench in chosen:
        try:
            result = harness.measure(bench, console)
        except harness.BenchError as error:
            bad.append(f"{bench.name} was not measured: {error}")
            console.print(f"  {bad[-1]}", markup=False)
            continue
        path = harness.write(result)
        console.print(harness.table(result))
        console.print(f"results: {path}", markup=False)
        bad += [
            f"{bench.name}: {limit['what']}: {harness.number_text(limit['figure'])}"
            for limit in result["limits"]
            if not limit["holds"]
        ]
    if bad:
        console.print("\n[bold red]not as it should be:[/]")
        for line in bad:
            console.print(f"  {line}", markup=False)
        raise SystemExit(1)
