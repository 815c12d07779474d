"""Ansible's programs, as all that call one have to."""

import os
import sys
from pathlib import Path


def program(name: str) -> str:
    """Where one is: beside the Python that runs us."""
    return str(Path(sys.executable).parent / name)


def environment() -> dict[str, str]:
    """What it is given of variables: ours, but for the locale.

    A login by ssh brings along that of its own machine, which this one need not have, and a C
    locale is no UTF-8: Ansible ends at once in either.
    """
    return {**os.environ, "LC_ALL": "C.UTF-8"}
