"""Host keys: what AWS saw a host print at its boot, and whose address is another host's now."""

import re
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kairoscope import paths
from kairoscope.hosts.inventory import Inventory
from kairoscope.hosts.machines import Machine

# As cloud-init prints them (canonical/cloud-init, tools/write-ssh-key-fingerprints), with what its
# logger puts before each line.
_PRINTED = re.compile(
    r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.S
)
_KEY = re.compile(r"(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+) [A-Za-z0-9+/]+={0,2}")
_EVERY_S = 10


def file() -> Path:
    """What ssh knows of the target's hosts."""
    return paths.target_dir("aws") / "known_hosts"


def learn(hosts: dict[str, str], region: str, say: Callable[[str], None], wait_s: float) -> None:
    """Know the keys of hosts before anything is sent to them, as far as AWS tells them.

    Their consoles come from AWS itself, over TLS, not through the bastion. What has not printed its
    keys in time is said, and ssh takes the key of the first login.

    Args:
        hosts: ids of instances by the name that ssh reaches them by.
        region: that they are in.
        say: to a person.
        wait_s: how long a host may take to boot.
    """
    # It takes half a second to load.
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    unknown = {name: instance for name, instance in hosts.items() if not _is_known(name)}
    deadline = time.monotonic() + wait_s
    why = f"AWS has no console with them after {wait_s:.0f} s"
    try:
        ec2 = boto3.client("ec2", region_name=region) if unknown else None
        while unknown:
            for name, instance in list(unknown.items()):
                if keys := printed(_console(ec2, instance)):
                    _add(name, keys)
                    del unknown[name]
            if not unknown or time.monotonic() >= deadline:
                break
            say(f"waiting for AWS to tell the host keys of {', '.join(unknown)} …")
            time.sleep(_EVERY_S)
    except (BotoCoreError, ClientError) as error:
        why = str(error)
    if unknown:
        say(f"The host keys of {', '.join(unknown)} are taken at the first login, unchecked: {why}")


def printed(console: str) -> list[str]:
    """The host keys that a console shows of the last boot that printed any; empty: none yet."""
    found = _PRINTED.findall(console)
    return _KEY.findall(found[-1]) if found else []


def _console(ec2: Any, instance: str) -> str:
    from botocore.exceptions import ClientError

    try:
        found = ec2.get_console_output(InstanceId=instance, Latest=True)
    except ClientError as error:
        # What is no Nitro instance, as the i3 family, has what AWS fetched after its boot.
        if error.response["Error"]["Code"] != "UnsupportedOperation":
            raise
        found = ec2.get_console_output(InstanceId=instance)
    return str(found.get("Output", ""))


def _is_known(name: str) -> bool:
    looked = ["ssh-keygen", "-F", name, "-f", str(file())]
    return (
        file().exists() and not subprocess.run(looked, capture_output=True, check=False).returncode
    )


def _add(name: str, keys: list[str]) -> None:
    file().parent.mkdir(parents=True, exist_ok=True)
    with file().open("a") as known:
        known.writelines(f"{name} {key}\n" for key in keys)


def forget_new(
    made: Iterable[Machine], before: Inventory | None, bastion: tuple[str, str] | None = None
) -> None:
    """Forget the keys of those addresses that belong to another instance than before.

    AWS gives an address that has become free to the next instance, whose key is another: ssh would
    take it for somebody in between. `bastion`: address and id; its address outlives it.
    """
    if not file().exists():
        return
    was = {host.address: host.vars.get("instance_id") for host in before.all} if before else {}
    now = {machine.address: machine.more["instance_id"] for machine in made}
    known = before.all[0].vars.get("bastion_instance") if before and before.all else None
    if bastion and known:
        address, instance = bastion
        was[address], now[address] = known, instance
    for address, instance in now.items():
        if was.get(address) != instance:
            subprocess.run(
                ["ssh-keygen", "-q", "-R", address, "-f", str(file())],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # It says so of one that is not in it.
                check=False,
            )
