"""Where things are: the checkout holds what people write, the home what deployments write."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
EXPERIMENTS = CHECKOUT / "experiments"
ANSIBLE = CHECKOUT / "ansible"
KAIROSDB_CONF = CHECKOUT / "kairosdb-conf"
TERRAFORM = CHECKOUT / "terraform"
DASHBOARDS = CHECKOUT / "dashboards"
LOADERS = CHECKOUT / "loaders"
LOCK = CHECKOUT / "requirements.lock"
REFERENCE = CHECKOUT / "results" / "reference"

# Built once per checkout and never changed by a deployment, so it does not move with the home.
BUNDLES = CHECKOUT / ".kairoscope" / "bundles"


def home() -> Path:
    """Folder of everything a deployment writes (`KAIROSCOPE_HOME`; default .kairoscope/)."""
    given = os.environ.get("KAIROSCOPE_HOME")
    return Path(given).resolve() if given else CHECKOUT / ".kairoscope"


def target_dir(target: str) -> Path:
    """Folder of one target: its plan, its inventory and, for `local`, its instances."""
    return home() / target


def results_dir() -> Path:
    """Folder of what was measured: results/, or the home where one is given."""
    return home() if os.environ.get("KAIROSCOPE_HOME") else CHECKOUT / "results"


def runs_dir() -> Path:
    """Folder of the run folders."""
    return results_dir() / "runs"


def series_dir() -> Path:
    """Folder of the searches and other series of runs, each a folder with its run folders."""
    return results_dir() / "series"
