"""Links between the pages of the repository lead somewhere, headings included."""

import re
import subprocess
from pathlib import Path

import pytest

from kairoscope import paths

PAGES = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=paths.CHECKOUT,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PLACED = re.compile(r'<a id="([^"]+)">')


def anchors(page: Path) -> set[str]:
    """What the usual public host makes of headings: lower case, hyphens for blanks, no signs."""
    text = _BLOCK.sub("", page.read_text())
    made = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in _HEADING.findall(text)
    }
    return made | set(_PLACED.findall(text))


def test_there_are_pages() -> None:
    assert {"README.md", "docs/coalescing.md", "results/published/README.md"} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_every_relative_link_leads_somewhere(name: str) -> None:
    page = paths.CHECKOUT / name
    for link in _LINK.findall(_CODE.sub("", _BLOCK.sub("", page.read_text()))):
        where, _, heading = link.partition("#")
        if ":" in where:
            continue
        found = (page.parent / where) if where else page
        assert found.exists(), f"{name}: {link}"
        if heading:
            assert heading in anchors(found), f"{name}: {link}"


_PATH = re.compile(
    r"(?<![\w./-])((?:kairoscope|loaders|bench|tests|ansible|docs|scripts|terraform|kairosdb-conf|"
    r"dashboards|experiments|results)/[\w./-]*\w)"
)
# Not in a checkout: what a user writes, and what a command does.
_MADE = (
    "terraform/account.tfvars",
    "terraform/backend.hcl",
    "results/history.jsonl",
    *(
        f"results/{made}"
        for made in ("bakeoff", "bench", "compare", "faults", "profiles", "releases")
    ),
    *("results/runs", "results/series"),
)


@pytest.mark.parametrize("name", PAGES)
def test_every_path_that_a_page_names_is_there(name: str) -> None:
    page = paths.CHECKOUT / name
    if page.is_relative_to(paths.CHECKOUT / "results" / "published"):
        return  # They say how it was.
    for found in _PATH.findall(page.read_text()):
        near = [folder / found for folder in (paths.CHECKOUT, page.parent)]
        begins = any(list(path.parent.glob(f"{path.name}*")) for path in near)
        assert begins or found.startswith(_MADE), f"{name}: {found}"


def test_every_published_page_is_listed() -> None:
    folder = paths.CHECKOUT / "results" / "published"
    listed = (folder / "README.md").read_text()
    for page in folder.glob("2*.md"):
        assert f"({page.name})" in listed, page.name
