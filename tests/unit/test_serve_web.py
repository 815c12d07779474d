"""Pages over HTTP: to this machine alone, read-only, and gone with the run."""

import http.client
import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import report_samples
from click.testing import CliRunner
from rich.console import Console

from kairoscope.cli.main import main
from kairoscope.errors import UserError
from kairoscope.serve import beside, web
from kairoscope.serve.pages import Page, Pages
from kairoscope.serve.shelf import Shelf, address

REFERENCE = Path(__file__).parents[2] / "results" / "reference"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = report_samples.passing(tmp_path / "runs")
    (folder / "report.html").write_text("<p>the report")
    (tmp_path / "secret.txt").write_text("not for you")
    return folder


@pytest.fixture
def server(run: Path) -> Iterator[web.Server]:
    listening = web.listen(None)
    server = web.Server(listening, Pages(Shelf(lambda: [run.parent]), REFERENCE))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(
    server: web.Server, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, bytes, http.client.HTTPResponse]:
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{port}" if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read(), answer


def test_a_run_is_served_with_the_policy_of_the_report(server, run):
    status, body, answer = ask(server, address(run))
    assert (status, body) == (200, b"<p>the report")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert ask(server, f"{address(run)}/?x=1")[0] == 200


def test_a_head_has_no_body(server, run):
    status, body, answer = ask(server, address(run), "HEAD")
    assert (status, body) == (200, b"")
    assert answer.headers["Content-Length"] == str(len(b"<p>the report"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_and_head(server, run, method):
    status, _, answer = ask(server, address(run), method)
    assert (status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "", "localhost:1", "[::1]:{port}"]
)
def test_another_name_of_this_machine_is_refused(server, run, host):
    port = server.server_address[1]
    status, body, _ = ask(server, address(run), host=host.format(port=port))
    assert status == 421
    assert b"report" not in body
    assert ask(server, address(run), host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/runs/../secret.txt",
        "/runs/../../secret.txt",
        "/runs/..%2fsecret.txt",
        "/runs/%2e%2e/secret.txt",
        "//secret.txt",
        "/runs",
        "/runs/latest",
        "/runs/{run}/manifest.json",
        "/runs/{run}/../{run}",
        "/runs/{run}%00",
        "http://evil.example/runs/../secret.txt",
    ],
)
def test_only_runs_have_addresses(server, run, path):
    (run.parent / "latest").symlink_to(run.name)
    status, body, _ = ask(server, path.format(run=run.name))
    assert status == 404
    assert b"not for you" not in body


def test_a_run_folder_with_a_link_out_of_it_is_not_served(server, run, tmp_path):
    (run / "report.html").unlink()
    (run / "report.html").symlink_to(tmp_path / "secret.txt")
    status, body, _ = ask(server, address(run))
    assert (status, b"not for you" in body) == (404, False)


def test_a_port_that_is_taken_is_refused_and_the_usual_one_is_not_needed(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {port}: cannot be listened on"):
            web.listen(port)
        monkeypatch.setattr(web, "PORT", port)
        with web.listen(None) as free:
            host, found = free.getsockname()
            assert host == "127.0.0.1"
            assert found != port


def test_a_load_goes_on_where_no_page_can_be_served(monkeypatch, run):
    def refused(port: int | None) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(web, "listen", refused)
    out = io.StringIO()
    with beside.page(None, Console(file=out, width=200)) as page:
        page.show(run)
    said = out.getvalue().splitlines()
    assert said == ["no live page, the load goes on without: [Errno 24] Too many open files"]


PARENT = """
import sys
from pathlib import Path
from rich.console import Console
from kairoscope.serve import beside
with beside.page(None, Console(soft_wrap=True)) as page:
    page.show(Path(sys.argv[1]))
    print("shown", flush=True)
    sys.stdin.read()
"""


def parent_of_a_page(run: Path) -> tuple[subprocess.Popen[str], str, psutil.Process]:
    """A process that serves the page of a run beside itself; its address; and that process."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, run],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    said = parent.stdout.readline()
    assert parent.stdout.readline() == "shown\n"
    (child,) = psutil.Process(parent.pid).children()
    return parent, said.split()[-1], child


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, None])
def test_the_page_is_gone_when_its_parent_is(run, number):
    parent, url, child = parent_of_a_page(run)
    try:
        where = url.removeprefix("http://")
        connection = http.client.HTTPConnection(where.split("/")[0], timeout=60)
        connection.request("GET", address(run))
        assert connection.getresponse().read() == b"<p>the report"
        assert child.nice() == 19
        # Ctrl-C at the terminal goes to its group: the page is in none of these.
        assert os.getpgid(child.pid) != os.getpgid(parent.pid)
        if number is None:
            parent.communicate()
        else:
            parent.send_signal(number)
            parent.wait()
        psutil.wait_procs([child], timeout=60)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    finally:
        parent.kill()
        parent.communicate()


def test_a_port_without_serve_is_refused(run):
    done = CliRunner().invoke(main, ["report", str(run), "--port", "9000"])
    assert isinstance(done.exception, UserError) or "--port is for --serve" in done.output


def test_beside_a_load_that_nobody_watches_nothing_is_imported_that_draws():
    program = "import sys, kairoscope.serve.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    )
    assert {"numpy", "pydantic", "jinja2"}.isdisjoint(done.stdout.split())


def test_many_browsers_are_one_drawing(monkeypatch):
    class Counted:
        drawn = 0

        def page(self, _: str) -> Page:
            self.drawn += 1
            return Page(b"growing", every_ms=2000)

    now = [100.0]
    monkeypatch.setattr(web.time, "monotonic", lambda: now[0])
    counted = Counted()
    server = web.Server(web.listen(None), counted)  # type: ignore[arg-type]
    try:
        assert [server.page("/a"), server.page("/a"), server.page("/b")] == [b"growing"] * 3
        assert counted.drawn == 2
        # Each of them asks every two seconds, one shortly before the other is to ask again.
        now[0] = 101.9
        server.page("/a")
        assert counted.drawn == 2
        now[0] = 102.0
        server.page("/a")
        assert counted.drawn == 3
        # Until whoever was answered last must have asked again.
        now[0] = 103.9
        server.page("/a")
        assert counted.drawn == 3
        now[0] = 107.8
        assert server.watched()
        now[0] = 108.0
        assert not server.watched()
    finally:
        server.server_close()
