"""A stand-in for AWS: moto's server on loopback, in a process of its own.

What it shows: that the real provider makes the calls that Terraform's graph asks for, in an order
that works, with arguments of the right shape; what is there afterwards; and that reading it back
finds no difference.

What it does not show: capacity and quotas, whether IAM would allow a call (everything is allowed),
what an image does at its first boot (cloud-init, ScyllaDB's own set-up), whether anything can be
reached (no packet flows, and no rule is enforced, but see tests/lab/aws_hosts.py), when and how a
spot instance is taken away, what is billed, and how long AWS takes.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

ACCOUNT = "123456789012"
"""The account of everything in moto, and of nobody at AWS: it is the example in AWS's manuals."""

HERE = Path(__file__).resolve().parent
SETTINGS = {
    "MOTO_AMIS_PATH": str(HERE / "images.json"),
    "MOTO_ENABLE_AMI_VALIDATION": "true",
    "MOTO_ENABLE_KEYPAIR_VALIDATION": "true",
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true",
}
"""moto refuses what AWS refuses, and has the images that the configuration looks for, and more."""


class NotLoopback(Exception):
    """An endpoint that could be somebody else's, or the real AWS."""


def loopback(url: str) -> str:
    """The same URL, if it leads to this machine whatever a resolver says; else NotLoopback."""
    try:
        parts = urlsplit(url)
        safe = (
            parts.scheme == "http"
            and parts.port is not None
            and ipaddress.ip_address(parts.hostname or "").is_loopback
        )
    except ValueError:
        safe = False
    if not safe:
        raise NotLoopback(
            f"{url!r} is no http://127.0.0.1:port. These tests create and destroy whatever they "
            "find, so they talk to a stand-in on this machine only"
        )
    return url


class AwsStandIn:
    """The running server. Ends with `close`, or with the process that made it, however it ends."""

    def __init__(self, folder: Path, through: Sequence[str] = (), host_key: str = "") -> None:
        """`folder` takes the server's log and the list of calls.

        `through`: what stands before its command, as `harness.Cli.through`; `host_key`: what the
        consoles of instances show, a line of known_hosts without the host.
        """
        self._calls = folder / "calls.txt"
        log = folder / "moto.log"
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [*through, sys.executable, "-B", HERE / "moto_server.py", self._calls],
                env=os.environ | SETTINGS | ({"HOST_KEY": host_key} if host_key else {}),
                # Held open by this process alone: the server ends when it does.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Ctrl-C is for the tests, which then close this in their own time.
                start_new_session=True,
            )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        if not port:
            self.close()
            raise RuntimeError(f"moto's server did not start:\n{log.read_text()[-3000:]}")
        self.url = loopback(f"http://127.0.0.1:{port}")

    @property
    def pid(self) -> int:
        """Process number of the server."""
        return self._process.pid

    def calls(self) -> list[str]:
        """What it was asked so far, in order: "ec2:RunInstances", "s3:PUT bucket?policy".

        Without what the tests themselves ask by their SDK client.
        """
        return self._calls.read_text().split("\n")[:-1]

    def reset(self) -> None:
        """Forget everything: an empty account."""
        request = urllib.request.Request(f"{self.url}/moto-api/reset", method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310 (loopback, see above)
            pass

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
