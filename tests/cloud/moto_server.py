"""moto's server, with what it answers otherwise than AWS put right. See aws_stand_in.py.

Where the difference is one that the provider takes for a change or an error, a function here mends
it, on moto's classes in this process; each says what is wrong without it. Nothing here knows what
Kairoscope's Terraform asks for.
"""

from __future__ import annotations

import inspect
import ipaddress
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from moto.core.authorization import ActionAuthenticatorMixin
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError, InvalidPermissionNotFoundError
from moto.ec2.models import elastic_ip_addresses
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.security_groups import SecurityGroupRule
from moto.ec2.responses import EC2Response, general
from moto.ec2.utils import random_spot_request_id
from moto.elbv2.responses import ELBV2Response
from moto.route53.responses import Route53
from moto.server import ThreadedMotoServer


def mend() -> None:
    """Make moto answer as AWS does where the provider notices."""
    _placement_groups()
    _instances()
    _spot_requests()
    _rule_descriptions()
    _rules_revoked_before()
    _private_zones()
    _load_balancers()
    _host_keys()
    _public_addresses()
    _one_at_a_time()


def _placement_groups() -> None:
    """moto has none; CreatePlacementGroup ends in a 500, and the provider tries for minutes."""

    def groups(response: EC2Response) -> dict[str, dict[str, Any]]:
        # On moto's own store of the account and region, so that a reset forgets them.
        store: dict[str, dict[str, Any]] = vars(response.ec2_backend).setdefault("placement", {})
        return store

    def create_placement_group(self: EC2Response) -> ActionResult:
        name = self._get_param("GroupName")
        if name in groups(self):
            raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"{name} exists already.")
        number = f"pg-{len(groups(self)):017x}"
        where = f"{self.ec2_backend.region_name}:{self.ec2_backend.account_id}"
        tags = self._parse_tag_specification().get("placement-group", {})
        groups(self)[name] = {
            "GroupName": name,
            "GroupId": number,
            "GroupArn": f"arn:aws:ec2:{where}:placement-group/{name}",
            "Strategy": self._get_param("Strategy"),
            "State": "available",
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        }
        return ActionResult({"PlacementGroup": groups(self)[name]})

    def describe_placement_groups(self: EC2Response) -> ActionResult:
        wanted = self._get_param("GroupNames", [])
        if unknown := [name for name in wanted if name not in groups(self)]:
            raise EC2ClientError("InvalidPlacementGroup.Unknown", f"{unknown[0]} is unknown.")
        found = [group for name, group in groups(self).items() if not wanted or name in wanted]
        return ActionResult({"PlacementGroups": found})

    def delete_placement_group(self: EC2Response) -> ActionResult:
        name = self._get_param("GroupName")
        if any(
            instance.placement.group_name == name and instance.state != "terminated"
            for instance in self.ec2_backend.all_instances()
        ):
            raise EC2ClientError("InvalidPlacementGroup.InUse", f"{name} has instances.")
        groups(self).pop(name, None)
        return EmptyResult()

    for action in (create_placement_group, describe_placement_groups, delete_placement_group):
        setattr(EC2Response, action.__name__, action)


def _instances() -> None:
    """moto starts an instance without its placement group and its protection, and once more when
    the provider, to which no answer came, asks again with the same token.
    """
    run = EC2Response.run_instances

    def run_instances(self: EC2Response) -> ActionResult:
        token = self._get_param("ClientToken")
        for reservation in self.ec2_backend.all_reservations():
            if token and token in {instance.client_token for instance in reservation.instances}:
                return ActionResult(reservation)
        result = run(self)
        for instance in result.result.instances:
            instance.placement.group_name = self._get_param("Placement.GroupName") or ""
            instance.disable_api_termination = bool(self._get_param("DisableApiTermination"))
        return result

    EC2Response.run_instances = run_instances

    # Where there is no public address, moto says so with an empty element, which is read as one.
    association = NetworkInterface.association.fget
    NetworkInterface.association = property(lambda self: association(self) or None)


def _spot_requests() -> None:
    """A spot instance comes from a request; moto knows none of one that RunInstances started."""
    run = EC2Response.run_instances

    def requests(response: EC2Response) -> dict[str, dict[str, Any]]:
        store: dict[str, dict[str, Any]] = vars(response.ec2_backend).setdefault("spot", {})
        return store

    def run_instances(self: EC2Response) -> ActionResult:
        result = run(self)
        if self._get_param("InstanceMarketOptions.MarketType") != "spot":
            return result
        options = self._get_param("InstanceMarketOptions.SpotOptions", {})
        for instance in result.result.instances:
            if hasattr(instance, "spot_instance_request_id"):
                continue  # asked again
            instance.spot_instance_request_id = number = random_spot_request_id()
            requests(self)[number] = {
                "SpotInstanceRequestId": number,
                "InstanceId": instance.id,
                "State": "active",
                "Status": {"Code": "fulfilled"},
                "LaunchSpecification": {"ImageId": instance.image_id},
                "Type": options.get("SpotInstanceType", "one-time"),
                "InstanceInterruptionBehavior": options.get(
                    "InstanceInterruptionBehavior", "terminate"
                ),
                "SpotPrice": options.get("MaxPrice"),
            }
        return result

    def describe_spot_instance_requests(self: EC2Response) -> ActionResult:
        wanted = self._get_param("SpotInstanceRequestIds") or list(requests(self))
        found = [requests(self)[number] for number in wanted if number in requests(self)]
        return ActionResult({"SpotInstanceRequests": found})

    def cancel_spot_instance_requests(self: EC2Response) -> ActionResult:
        wanted = self._get_param("SpotInstanceRequestIds")
        for number in wanted:
            requests(self)[number]["State"] = "cancelled"
        cancelled = [{"SpotInstanceRequestId": number, "State": "cancelled"} for number in wanted]
        return ActionResult({"CancelledSpotInstanceRequests": cancelled})

    for action in (run_instances, describe_spot_instance_requests, cancel_spot_instance_requests):
        setattr(EC2Response, action.__name__, action)


def _rule_descriptions() -> None:
    """moto knows the description of a rule by address range only, not by group or prefix list."""
    make = SecurityGroupRule.__init__

    def __init__(self: SecurityGroupRule, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        given = inspect.signature(make).bind(self, *arguments, **options).arguments
        self.source = given.get("source_group") or given.get("prefix_list_id") or self.ip_range

    def description(self: SecurityGroupRule) -> str | None:
        return self.source.get("Description")

    SecurityGroupRule.__init__ = __init__
    SecurityGroupRule.description = property(description)


def _rules_revoked_before() -> None:
    """AWS has a code of its own for a rule that is gone; the provider, trying again, expects it."""
    for name in ("revoke_security_group_ingress", "revoke_security_group_egress"):
        revoke = getattr(EC2Response, name)

        def revoked(self: EC2Response, revoke: Callable[..., Any] = revoke) -> Any:
            try:
                return revoke(self)
            except InvalidPermissionNotFoundError:
                if not (ids := self._get_param("SecurityGroupRuleIds")):
                    raise
                code, what = "InvalidSecurityGroupRuleId.NotFound", f"{ids[0]} does not exist."
                raise EC2ClientError(code, what) from None

        revoked.__name__ = name
        setattr(EC2Response, name, revoked)


def _private_zones() -> None:
    """A zone with a VPC is private; moto wants to be told so besides, or forgets the VPC."""
    create = Route53.create_hosted_zone

    def create_hosted_zone(self: Route53) -> ActionResult:
        if self._get_param("VPC.VPCId"):
            self._get_params().setdefault("HostedZoneConfig", {})["PrivateZone"] = True
        return create(self)

    Route53.create_hosted_zone = create_hosted_zone


def _host_keys() -> None:
    """moto's consoles are of hosts without cloud-init, which prints a host's keys."""
    nobodys = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    key = os.environ.get("HOST_KEY", nobodys)
    general.SAMPLE_CONSOLE_OUTPUT += (
        f"-----BEGIN SSH HOST KEY KEYS-----\n{key} root@host\n-----END SSH HOST KEY KEYS-----\n"
    )


def _public_addresses() -> None:
    """moto's elastic addresses are of the loopback, which nobody could be elsewhere."""
    free = iter(ipaddress.ip_network("203.0.113.0/24").hosts())  # for documentation, RFC 5737
    elastic_ip_addresses.random_ip = lambda: str(next(free))


def _one_at_a_time() -> None:
    """moto changes its lists without a lock: of two rules revoked at once one is not found."""
    call, lock = EC2Response.call_action, threading.RLock()

    def call_action(self: EC2Response) -> Any:
        with lock:
            return call(self)

    setattr(EC2Response, "call_action", call_action)  # noqa: B010 (inherited; for EC2 only)


def _load_balancers() -> None:
    """moto deletes a load balancer that is protected against it."""
    delete = ELBV2Response.delete_load_balancer

    def delete_load_balancer(self: ELBV2Response) -> ActionResult:
        arn = self._get_param("LoadBalancerArn")
        found = self.elbv2_backend.load_balancers.get(arn)
        if found and found.attrs["deletion_protection.enabled"] == "true":
            raise ServiceException("OperationNotPermitted", f"{arn} is protected.")
        return delete(self)

    ELBV2Response.delete_load_balancer = delete_load_balancer


def record(calls: Path) -> None:
    """Write each call to a file, a line each, as it comes in; not those of the tests themselves."""
    calls.touch()
    authorize = ActionAuthenticatorMixin._authenticate_and_authorize_action
    lock = threading.Lock()

    def recorded(self: Any, *arguments: Any) -> None:
        if "Boto3/" not in self.headers.get("User-Agent", ""):
            write(self)
        authorize(self, *arguments)

    def write(self: Any) -> None:
        # "… Credential=KEY/DAY/REGION/SERVICE/aws4_request, …"
        scope = self.headers.get("Authorization", "").partition("Credential=")[2].split("/")
        service = scope[3] if len(scope) > 3 else "unsigned"
        if service == "s3":
            parts = urlsplit(self.uri)
            of_object = "/" in parts.path.strip("/")
            part = [name for name, value in parse_qsl(parts.query, True) if not value]
            action = f"{self.method} {'object' if of_object else 'bucket'}"
            action += f"?{part[0]}" if part else ""
        else:
            action = self._get_action()
        with lock, calls.open("a") as file:
            file.write(f"{service}:{action}\n")

    ActionAuthenticatorMixin._authenticate_and_authorize_action = recorded


def serve(calls: Path) -> None:
    """Serve until standard input ends, which it does with the process that holds its other end."""
    mend()
    record(calls)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
