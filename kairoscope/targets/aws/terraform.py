"""Terraform, run in a working folder of the target.

The folder is a copy of the repository's `terraform/` with what belongs to this deployment beside
it: the plan's variables, the account's, the backend and, with the local one, the state. A file
there that is not from here stays, so an `override.tf` of one's own is possible.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kairoscope import paths
from kairoscope.errors import UserError

PROVIDER = "registry.terraform.io/hashicorp/aws"
MIRROR_VARIABLE = "KAIROSCOPE_TF_MIRROR"
# Where an unpacked provider mirror is usually put; Terraform itself looks into the first two.
_MIRROR_ROOTS = ("~/.terraform.d", "/usr/local/share/terraform", "/opt", "/srv", "/var/lib")
_MIRROR_DEPTH = 4
# What `prepare` writes beside the repository's.
_WRITTEN = ("account.auto.tfvars", "experiment.auto.tfvars.json", "backend.hcl", "backend.tf")
_NOT_COPIED = shutil.ignore_patterns("tests", ".terraform", "*.tfstate*", "*.example", "*.tfvars")


def executable() -> str:
    """Path of the terraform command. UserError if it is missing."""
    found = shutil.which("terraform")
    if not found:
        raise UserError(
            "terraform is missing. Install Terraform 1.11 or newer: "
            "https://developer.hashicorp.com/terraform/install"
        )
    return found


def mirror() -> Path | None:
    """Folder of an offline provider mirror, given or found; None to ask the registry.

    UserError if `KAIROSCOPE_TF_MIRROR` names a folder without the provider.
    """
    if given := os.environ.get(MIRROR_VARIABLE):
        folder = Path(given).expanduser().resolve()
        if not (folder / PROVIDER).is_dir():
            raise UserError(f"{MIRROR_VARIABLE}={given}: no folder {PROVIDER} in it")
        return folder
    for root in _MIRROR_ROOTS:
        for folder in _folders(Path(root).expanduser(), _MIRROR_DEPTH):
            if (folder / PROVIDER).is_dir():
                return folder
    return None


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """A folder and those below it, the nearest first; what cannot be read is passed over."""
    level = [folder] if folder.is_dir() else []
    for _ in range(depth):
        yield from level
        below = []
        for parent in level:
            try:
                below += [c for c in sorted(parent.iterdir()) if c.is_dir() and not c.is_symlink()]
            except OSError:
                continue
        level = below


def environment() -> dict[str, str]:
    """The environment for Terraform: without its own calls home, and with a mirror if there is one.

    A CLI configuration of one's own (`TF_CLI_CONFIG_FILE`, if the file exists) is left alone.
    """
    env = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}
    own = env.pop("TF_CLI_CONFIG_FILE", None)
    if own and Path(own).exists():
        return env | {"TF_CLI_CONFIG_FILE": own}
    if (found := mirror()) is not None:
        # Without `exclude` Terraform asks the registry too, and fails where there is none.
        text = (
            "provider_installation {\n"
            f"  filesystem_mirror {{\n    path = {json.dumps(str(found))}\n"
            f"    include = [{json.dumps(PROVIDER)}]\n  }}\n"
            f"  direct {{\n    exclude = [{json.dumps(PROVIDER)}]\n  }}\n}}\n"
        )
        path = paths.home() / "terraform.rc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        env["TF_CLI_CONFIG_FILE"] = str(path)
    return env


class Terraform:
    """Terraform in one working folder."""

    def __init__(self, folder: Path) -> None:
        """`folder` may not exist yet; see `prepare`."""
        self.folder = folder
        # What the folder was of which something stands, while it is only tried what would change.
        self._before = folder.with_name(f"{folder.name}-before")

    @property
    def exists(self) -> bool:
        """Whether the folder has been prepared."""
        return (self.folder / "main.tf").exists() or self._before.exists()

    def prepare(self, values: Mapping[str, Any], account: Path, backend: Path | None) -> None:
        """Bring the folder to the repository's Terraform and the given variables, and initialise.

        `account` is the person's variables file, `backend` the settings of an S3 backend for the
        state; without one the state is a file in the folder. UserError as of `check_given`,
        and if the account's region is not that of what stands.

        What the folder was is kept until `apply`, for `put_back`: with what was never applied
        `destroy` may fail, or look for everything in another region.
        """
        self.check_given(account, backend)
        self.put_back()
        if self.exists:
            aside = self._before.with_name(f"{self._before.name}.partial")
            shutil.rmtree(aside, ignore_errors=True)
            _copy(self._ours(), self.folder, aside)
            aside.rename(self._before)
        try:
            self._write(values, account, backend)
            self.initialise()
            self.check_region(account)
        except BaseException:
            self.put_back()
            raise

    def check_region(self, account: Path | None = None) -> None:
        """UserError if variables, by default the folder's, have another region than what stands.

        There Terraform would find nothing of it, and forget that it is there and paid for.
        """
        account = account or self.folder / "account.auto.tfvars"
        text = account.read_text() if account.exists() else ""
        told = re.search(r'^\s*region\s*=\s*"([^"]+)"', text, re.MULTILINE)
        stands = self.outputs().get("region")
        if told and stands and told[1] != stands:
            raise UserError(
                f"{account}: region is {told[1]}, and the target stands in {stands}, so nothing "
                f"of it would be found. Have {stands} there; a second deployment beside it has a "
                "KAIROSCOPE_HOME of its own."
            )

    def put_back(self) -> None:
        """Have the folder as it was before `prepare`, unless that was applied since.

        Also of a `prepare` that was killed. Where there was none before it, it stays: nothing
        stands of it, and the backend has been chosen.
        """
        if not self._before.exists():
            return
        _copy(
            self._ours() | {path.name for path in self._before.iterdir()}, self._before, self.folder
        )
        self._drop_before()

    def _drop_before(self) -> None:
        # At once: half of it would be put back as if it were all.
        if self._before.exists():
            gone = self._before.with_name(f"{self._before.name}.partial")
            shutil.rmtree(gone, ignore_errors=True)
            self._before.rename(gone)
            shutil.rmtree(gone)

    def _ours(self) -> set[str]:
        """Names of all in the folder that `prepare` writes."""
        names = {path.name for path in paths.TERRAFORM.iterdir()}
        return names - _NOT_COPIED(str(paths.TERRAFORM), list(names)) | {*_WRITTEN}

    def _write(self, values: Mapping[str, Any], account: Path, backend: Path | None) -> None:
        if (self.folder / "modules").exists():  # a module that was removed must not linger
            shutil.rmtree(self.folder / "modules")
        shutil.copytree(paths.TERRAFORM, self.folder, dirs_exist_ok=True, ignore=_NOT_COPIED)
        shutil.copyfile(account, self.folder / "account.auto.tfvars")
        if backend is not None:
            shutil.copyfile(backend, self.folder / "backend.hcl")
            (self.folder / "backend.tf").write_text('terraform {\n  backend "s3" {}\n}\n')
        (self.folder / "experiment.auto.tfvars.json").write_text(
            json.dumps(values, indent=2) + "\n"
        )

    def check_given(self, account: Path, backend: Path | None) -> None:
        """UserError if a file is missing, or if the backend is another one than the folder's."""
        if not account.is_file():
            raise UserError(
                f"{account}: missing. It says which region, who may log in and who answers for "
                "the cost; make it from terraform/account.tfvars.example"
            )
        if backend is not None and not backend.is_file():
            raise UserError(
                f"{backend}: missing. Make it from terraform/backend.hcl.example, or leave BACKEND "
                "out to keep the state in a local file"
            )
        if backend is None or not self.exists:
            return
        # Where the folder is yet to be put back, it may be without the file.
        stands = self._before if self._before.exists() else self.folder
        known = stands / "backend.hcl"
        if not known.exists() or known.read_text() != backend.read_text():
            raise UserError(
                f"{backend}: the target's state is kept elsewhere ({self.folder}). To move it, "
                "write the settings to backend.hcl there and run terraform init -migrate-state"
            )

    def initialise(self) -> None:
        """`terraform init`, from the lock file alone."""
        given = ["-backend-config=backend.hcl"] if (self.folder / "backend.hcl").exists() else []
        self._run(["init", "-input=false", "-lockfile=readonly", "-no-color", *given], quiet=True)

    def plan(self, *more: str) -> dict[str, Any]:
        """Plan, shown as it is made; the plan as `terraform show -json` tells it.

        It is kept in the folder as `tfplan`, which `apply` carries out.
        """
        self._run(["plan", "-input=false", "-out=tfplan", *more])
        return self._json("show", "-json", "tfplan")

    def apply(self) -> None:
        """Carry out the plan that `plan` made, and nothing else."""
        self._drop_before()  # From now on what stands is of this.
        try:
            self._run(["apply", "-input=false", "tfplan"])
        finally:
            (self.folder / "tfplan").unlink(missing_ok=True)

    def destroy(self) -> None:
        """Destroy everything in the state."""
        self._run(["destroy", "-input=false", "-auto-approve"])

    def taint(self, address: str) -> None:
        """Have the next apply replace a resource, or make it if it is gone."""
        self._run(["taint", "-allow-missing", address], quiet=True)

    def tainted(self) -> dict[str, str]:
        """Ids of the resources that the next apply would replace so, by their addresses."""
        modules, found = [self._json("show", "-json").get("values", {}).get("root_module", {})], {}
        while modules:
            module = modules.pop()
            modules += module.get("child_modules", [])
            for resource in module.get("resources", []):
                if resource.get("tainted"):
                    found[resource["address"]] = str(resource["values"].get("id"))
        return found

    def untaint(self, address: str) -> None:
        """Have the next apply leave a tainted resource as it is."""
        self._run(["untaint", address], quiet=True)

    def forget(self, address: str) -> None:
        """Drop a resource from the state, if it is there, without destroying it."""
        if address in self.resources():
            self._run(["state", "rm", address], quiet=True)

    def outputs(self) -> dict[str, Any]:
        """The outputs by name; {} before the first apply."""
        return {name: output["value"] for name, output in self._json("output", "-json").items()}

    def resources(self) -> list[str]:
        """Addresses of everything in the state, without data sources."""
        listed = self._run(["state", "list"], capture=True, may_fail=True).splitlines()
        return [address for address in listed if not f".{address}".count(".data.")]

    def _json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._run(arguments, capture=True))
        return found

    def _run(
        self,
        arguments: Sequence[str],
        *,
        quiet: bool = False,
        capture: bool = False,
        may_fail: bool = False,
    ) -> str:
        """Run terraform; its standard output where captured. UserError if it fails.

        It has a session of its own and gets an interrupt exactly once, from here: it then ends
        what is under way and writes its state. A second one would make it give up at once.
        """
        process = subprocess.Popen(
            [executable(), *arguments],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture or quiet else None,
            stderr=subprocess.STDOUT if quiet else (subprocess.PIPE if may_fail else None),
            text=True,
            start_new_session=True,
        )
        interrupted = False
        while True:
            try:
                output, _ = process.communicate()
                break
            except KeyboardInterrupt:
                if not interrupted:
                    interrupted = True
                    click.echo("interrupted: Terraform ends what is under way", err=True)
                    process.send_signal(signal.SIGINT)
        if interrupted:
            raise KeyboardInterrupt
        if process.returncode != 0 and not may_fail:
            told = f":\n{output.strip()}" if quiet and output else "; its message is above"
            raise UserError(f"terraform {arguments[0]} failed in {self.folder}{told}")
        return output or ""


def _copy(names: Collection[str], source: Path, to: Path) -> None:
    """Have these files and folders in one folder as they are in another, or not at all."""
    to.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (to / name).is_dir():
            shutil.rmtree(to / name)
        else:
            (to / name).unlink(missing_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, to / name)
        elif (source / name).exists():
            shutil.copy2(source / name, to / name)


def passthrough(arguments: Sequence[str]) -> None:
    """Become terraform, with the same provider mirror as all verbs; does not return."""
    os.execve(executable(), ["terraform", *arguments], environment())  # noqa: S606
