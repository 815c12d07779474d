"""A target: the test's own process is its host."""

import sys
from collections.abc import Callable
from pathlib import Path

from kairoscope.hosts.machines import Layout, Machine, Machines
from kairoscope.plan import Plan
from kairoscope.targets.target import Options, Say, Target


class StubTarget(Target):
    name = "stub"
    secured = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.destroyed = False

    def provision(
        self, plan: Plan, options: Options, say: Say, begin: Callable[[], None]
    ) -> Machines:
        python = Path(sys.executable)
        (self.folder / "supervisor").mkdir(parents=True, exist_ok=True)
        here = {"ansible_connection": "local"}
        loader = {"loader_venv": str(python.parents[1])}
        return Machines(
            [
                Machine("stub-1", "kairosdb", "127.0.0.1", here),
                Machine("loader-1", "loader", "127.0.0.1", here, loader),
            ],
            cluster_name="none",
            layout=Layout("supervisor", self.folder, self.folder, "java", str(python)),
            variables={"supervisor_dir": str(self.folder / "supervisor")},
            origin="from the stub",
        )

    def destroy(self, say: Say) -> None:
        self.destroyed = True
