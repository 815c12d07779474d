"""Grafana's own React components draw each dashboard in a browser, and show what they should.

Of figures that are made up for every query, so that nothing may be empty. That a cluster tells them
is looked at in tests/cluster/test_secured.py.
"""

import json
import shutil
import subprocess
from pathlib import Path

import drawing
import made_up
import pytest
from boards import BOARDS, FILES, FOLDER

pytestmark = pytest.mark.panels

START_S, END_S = made_up.START_S + 300, made_up.START_S + made_up.DURATION_S


@pytest.fixture(scope="module")
def drawn(packages, prometheus, tmp_path_factory):
    named = tmp_path_factory.mktemp("boards")
    files = [
        Path(shutil.copy(file, named / f"{board['name']}.json")) for file, board in FILES.items()
    ]
    return drawing.draw(tmp_path_factory.mktemp("drawn"), prometheus, START_S, END_S, files)


def test_the_page_is_of_the_components_types(packages):
    done = subprocess.run(
        ["npx", "tsc", "--project", "."],
        cwd=drawing.FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["name"])
def test_every_panel_is_drawn(drawn, board):
    picture = drawn[board["name"]]
    titles = [panel["title"] for row in board["rows"] for panel in row["panels"]]
    assert [panel["title"] for panel in picture.panels] == titles
    assert not [what for panel in picture.panels for what in drawing.wrong(panel)]
    assert not picture.troubles
    assert picture.file.read_bytes().startswith(b"\x89PNG")


BROKEN = {
    "rate(": "parse error",
    'nobody{cluster=~"$cluster"}': "no data",
    "up{cluster=~'$cluster', region='$region'}": "a variable that nobody knows",
    'up{cluster=~"$cluster"} * 0 / 0': "nothing is drawn",
}


def test_what_is_broken_is_seen(packages, prometheus, tmp_path):
    board = json.loads((FOLDER / "run.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    for panel, query in zip(panels, BROKEN, strict=False):
        panel["targets"] = [panel["targets"][0] | {"expr": query}]
    other, changed, overridden, nameless = panels[len(BROKEN) : len(BROKEN) + 4]
    other["type"] = "gauge"
    changed["transformations"] = [{"id": "reduce", "options": {}}]
    overridden["fieldConfig"]["overrides"] = [{"matcher": {"id": "byName"}, "properties": []}]
    nameless["targets"][0]["legendFormat"] = "of {{nobody}}"
    (tmp_path / "broken.json").write_text(json.dumps(board))
    picture = drawing.draw(tmp_path, prometheus, START_S, END_S, [tmp_path / "broken.json"])
    seen = [" ".join(drawing.wrong(panel)) for panel in picture["broken"].panels]
    wanted = [*BROKEN.values(), "type gauge", "transformations", "overrides", "legend 'of '"]
    assert [want for want, said in zip(wanted, seen, strict=True) if want not in said] == []
