"""The report of a run: one self-contained HTML page and a Markdown summary.

`write` needs nothing but the run folder and the folder of published figures. `data` reads,
`first`, `sections/`, `topology`, `charts/` and `shards` say what is shown, `draw`, `screen` and
`pages` render it. `watched` is the same page of a run that goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kairoscope import run_folder

if TYPE_CHECKING:
    from kairoscope.report import data

__all__ = ["html", "watched", "write"]


def write(run_dir: Path, reference_dir: Path) -> tuple[Path, Path]:
    """Writes `report.html` and `report.md` into `run_dir` and returns their paths.

    Any file of the run may be missing or damaged; the report then says what it cannot tell, and
    never raises for it. `reference_dir` holds published figures (`*.yml`); it may be empty or
    absent. Raises `FileNotFoundError` if `run_dir` is no folder, `OSError` if it cannot be written.
    An existing report is replaced as a whole, so that a reader never sees half of one.
    """
    if not run_dir.is_dir():
        raise FileNotFoundError(f"no run folder at {run_dir}")
    # matplotlib takes seconds to import, and memory beside a load that is being measured.
    from kairoscope.report import data, pages, reference, shards  # noqa: PLC0415
    from kairoscope.report.charts import of_run  # noqa: PLC0415

    run = data.read(run_dir)
    comparisons = reference.compare(run, reference_dir)
    drawn = of_run.build(run, shards.charts(run))
    html = _replace(run_dir / run_folder.REPORT_HTML, pages.html(run, drawn, comparisons))
    markdown = _replace(run_dir / run_folder.REPORT_MARKDOWN, pages.markdown(run, comparisons))
    return html, markdown


def html(run_dir: Path, reference_dir: Path) -> str:
    """The page that `write` would write."""
    from kairoscope.report import data, pages, reference, shards  # noqa: PLC0415
    from kairoscope.report.charts import of_run  # noqa: PLC0415

    run = data.read(run_dir)
    drawn = of_run.build(run, shards.charts(run))
    return pages.html(run, drawn, reference.compare(run, reference_dir))


def watched(run: data.RunData, reference_dir: Path, every_ms: int) -> str:
    """The page of a run that goes on, which a browser asks for again every `every_ms`.

    `run`: what is in its folder so far, and in place of its verdict what can be said of that.
    """
    from kairoscope.report import pages, reference, shards  # noqa: PLC0415
    from kairoscope.report.charts import of_run  # noqa: PLC0415

    drawn = of_run.build(run, shards.charts(run))
    return pages.html(run, drawn, reference.compare(run, reference_dir), every_ms)


def _replace(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(text, encoding="utf-8")
    return draft.replace(path)
