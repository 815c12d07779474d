"""Target `aws`: what it is to a plan, and the verbs on it: plan, deploy and destroy."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation
from kairoscope.hosts.deployed import finished_file, plan_file
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import Machines
from kairoscope.plan import Plan
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft
from kairoscope.targets.aws import backups, guard, known_hosts, machines, shape
from kairoscope.targets.aws.instance_types import InstanceType
from kairoscope.targets.aws.terraform import Terraform
from kairoscope.targets.target import Options, Reached, Say

# Of a disk of its own: the rest is the file system's and kairosdb.queue_disk_free_mb.
VOLUME_SHARE = 0.9


class Aws(Reached):
    """EC2 instances in a network of their own, made by Terraform.

    Its levers are not EC2's: an instance that is stopped loses the disks in it, which a storage
    node's are
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-store-lifetime.html), and a
    security group lets connections that are there go on
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html).
    """

    name = "aws"
    makes_anew = True
    boot_s = 300.0  # From the start of an instance to its sshd; with SSM its agent comes later.

    def shape(self, draft: Draft) -> None:
        """Its storage hosts are of ScyllaDB's image, and instance types must be known."""
        if draft.engine != "scylla":
            draft.refuse(
                "storage.engine",
                f"target aws makes its storage hosts of ScyllaDB's image; {draft.engine} can be "
                "had on the others, on machines of AWS too by target hosts",
            )
        if shape.shape(draft) is None:
            raise UserError("\n".join(draft.problems))

    def shards(self, draft: Draft) -> int | None:
        """Of the instance type."""
        return shape.shards(draft, _types(draft)["storage"])

    def queue_disk(self, draft: Draft) -> tuple[int, str]:
        """A volume of its own."""
        volume = draft.experiment.aws.queue_volume_gib
        most = math.floor(volume * 1024 * VOLUME_SHARE)
        return most, f"{VOLUME_SHARE} of aws.queue_volume_gib {n(volume)}"

    def settings(self, draft: Draft, load: dict[str, Any], *, secured: bool) -> dict[str, Any]:
        """Terraform's variables that come from the plan."""
        return shape.settings(draft, _types(draft), load, secured=secured)

    def provision(
        self, plan: Plan, options: Options, say: Say, begin: Callable[[], None]
    ) -> Machines:
        """Bring the account to the plan."""
        terraform = working_folder()
        with _planned(terraform, plan, options) as first:
            found = first
            if guards := guard.in_the_way(found, _known(), options.without):
                for address in guards:
                    terraform.forget(address)
                say("Planned once more, without guards of hosts that are gone or hold nothing:")
                found = _checked(terraform, options)
            _tell(found, plan, say)
            begin()
            terraform.apply()
        outputs = terraform.outputs()
        made = machines.of_outputs(outputs, plan)
        reached = {str(m.way["ansible_host"]): str(m.more["instance_id"]) for m in made.machines}
        bastion = None
        if outputs.get("bastion"):
            bastion = (outputs["bastion"], outputs["bastion_instance"])
            reached |= dict([bastion])
        known_hosts.forget_new(made.machines, _deployed(), bastion)
        known_hosts.learn(reached, outputs["region"], say, self.boot_s)
        return made

    def check_given(self, options: Options, plan: Plan | None = None) -> None:
        """The account's variables, and the backend that the state is in."""
        working_folder().check_given(options.account, options.backend)

    def watched(self, options: Options) -> bool:
        """Always: Terraform makes a host for it."""
        return True

    def resized(self, plan: Plan, counts: Mapping[str, int]) -> Plan:
        """Terraform has the numbers among its variables, by the same names."""
        told = {"terraform": plan.terraform | dict(counts)}
        return super().resized(plan, counts).model_copy(update=told)

    def check_leaves(self, here: Inventory, host: Host, options: Options, verb: str) -> None:
        """Terraform ends the last one, if the target is not protected."""
        super().check_leaves(here, host, options, verb)
        terraform = _initialised()
        _check_unprotected(terraform, f"To end {host.name}", "the same command again")

    def give_back(self, host: str, say: Say) -> None:
        """Terraform ends it by itself; but not its guard, if it still has one.

        Of a host that leaves in good order there is none by then, see `check_leaves`; of one that
        never held anything there is nothing that it protects.
        """
        terraform = _initialised()
        role, _, _ = host.rpartition("-")
        terraform.forget(f"{_node(role, host)}.module.protection[0].terraform_data.guard")

    def make_anew(self, host: Host, say: Say) -> None:
        """Have Terraform replace its instance at the next apply.

        The mark is in the state, so it outlasts an interruption. Terraform prefers `-replace` of an
        apply (https://developer.hashicorp.com/terraform/cli/commands/taint), which is forgotten
        with it. `protect` is against losing data, and whoever calls this knows that there is none:
        the host's guard is taken from the state, and a new one made with the instance.
        """
        terraform = _initialised()
        terraform.forget(f"{_node(host.role, host.name)}.module.protection[0].terraform_data.guard")
        terraform.taint(f"{_node(host.role, host.name)}.aws_instance.host")
        say(f"{host.name}: its instance, if there still is one, will end; a new one takes its name")

    def keep(self, host: Host, say: Say) -> None:
        """Take the mark from its instance; an apply that was begun may have made another already.

        Its guard comes back with the next apply.
        """
        terraform = _initialised()
        instance = f"{_node(host.role, host.name)}.aws_instance.host"
        if terraform.tainted().get(instance) == host.vars["instance_id"]:
            terraform.untaint(instance)
            say(f"{host.name}: its instance stays, nothing makes it anew")

    def typed_to_destroy(self) -> str | None:
        """The deployment's name, as several may be in one account."""
        terraform = working_folder()
        if not terraform.exists:
            return None
        with operation.alone(self.name):
            return str(_initialised().outputs().get("name", self.name))

    def destroy(self, say: Say) -> None:
        """Destroy everything that Terraform made for the target, but a bucket with backups.

        UserError if the target is protected; nothing is destroyed then.
        """
        terraform = working_folder()
        if not terraform.exists:
            say("target aws: nothing is provisioned from here")
            return
        terraform = _initialised()
        # What a look from a home that had nothing yet has left, of a state that others share.
        terraform.check_region()
        _check_unprotected(terraform, "To destroy it with all its data", "destroy")
        outputs = terraform.outputs()
        bucket = outputs.get("results_bucket")
        if bucket and backups.there(bucket, outputs["region"]):
            for address in terraform.resources():
                if address.startswith("module.results."):
                    terraform.forget(address)
            say(
                f"s3://{bucket} stays, and is paid for, as there are backups in it, or deleted "
                "ones that can be fetched back. Once they are of no use: aws s3api "
                f"list-object-versions --bucket {bucket} --prefix {backups.PREFIX}, and the "
                "console's Empty and Delete"
            )
        terraform.destroy()
        if left := terraform.resources():
            listed = "\n".join(f"  {address}" for address in left)
            raise UserError(f"Still there, and paid for:\n{listed}\nRun the same command again.")
        say("target aws: nothing is left of it in the account")


def _node(role: str, name: str) -> str:
    """Address of the module that has all of a host."""
    return f'module.{role}.module.node["{name}"]'


def _types(draft: Draft) -> dict[str, InstanceType]:
    """The instance types by role, which `shape` has found to be known."""
    types = shape.shape(draft)
    assert types is not None
    return types


def working_folder() -> Terraform:
    """Terraform in the target's folder."""
    return Terraform(paths.target_dir("aws") / "terraform")


def _initialised() -> Terraform:
    """The same, with what stands, ready for what needs no plan. For who is alone on the target."""
    terraform = working_folder()
    terraform.put_back()
    terraform.initialise()
    return terraform


def show(plan: Plan, account: Path, backend: Path | None, say: Say) -> None:
    """Show what a deploy would change in the account, and change nothing.

    UserError if a deploy would be refused, and while something changes the target.
    """
    with (
        operation.alone("aws"),
        _planned(working_folder(), plan, Options(account, backend)) as found,
    ):
        _tell(found, plan, say)


@contextlib.contextmanager
def _planned(terraform: Terraform, plan: Plan, options: Options) -> Iterator[dict[str, Any]]:
    """What Terraform would do, as of `_checked`; its folder is as before after the block, unless
    that was applied there."""
    terraform.prepare(plan.terraform, options.account, options.backend)
    try:
        yield _checked(terraform, options)
    finally:
        terraform.put_back()


def _checked(terraform: Terraform, options: Options) -> dict[str, Any]:
    """What Terraform would do, in a folder that is prepared. UserError if it would destroy data."""
    found = terraform.plan()
    here = _deployed()
    deployed = [h.name for h in here.storage if h.name not in options.without] if here else []
    command = f"kairoscope terraform -chdir={terraform.folder}"
    guard.check(
        found,
        options.let_go,
        deployed,
        known=_known(),
        without=options.without,
        finished=finished_file("aws").exists(),
        untaint=f"{command} untaint",
        # What that module needs has no storage host in it. The address outlives a bastion, which
        # ssh would then take for somebody else.
        way_in=f"{command} apply -target=module.access, and ssh-keygen "
        f'-f {known_hosts.file()} -R "$({command} output -raw bastion)"',
    )
    return found


def _known() -> list[str] | None:
    """Names of all hosts that an inventory has; None where there is none."""
    here = _deployed()
    return [host.name for host in here.all] if here else None


def _deployed() -> Inventory | None:
    """What the last provision found; None if nothing was deployed yet."""
    path = inventory.file("aws")
    if not path.exists() or not plan_file("aws").exists():
        return None
    return inventory.read(path)


def _tell(found: dict[str, Any], plan: Plan, say: Say) -> None:
    changes = guard.summary(found)
    say(
        f"{changes['create']} resources to create, {changes['update']} to change, "
        f"{changes['delete']} to delete; {plan.totals['usd_per_hour']:.2f} USD an hour while it "
        "stands (make cost)"
    )


def _check_unprotected(terraform: Terraform, purpose: str, then: str) -> None:
    if terraform.outputs().get("protect"):
        raise UserError(
            f"The target is protected (protect = true in the account's variables). {purpose}: set "
            f"protect = false, make deploy TARGET=aws, and then {then}"
        )
