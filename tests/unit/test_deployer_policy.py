"""What terraform/deployer-policy.json refuses: whoever deploys is no administrator of the account.

AWS has a simulator (iam:SimulateCustomPolicy), which takes an account. This is the part of its
rules that the policy uses: statements that allow, with wildcards, and conditions that must all hold
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html).
"""

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from kairoscope import paths

POLICY = json.loads((paths.TERRAFORM / "deployer-policy.json").read_text())
BOUNDARY = json.loads((paths.TERRAFORM / "hosts-boundary.json").read_text())
# Without blanks, of a policy of one's own
# (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html).
MOST_CHARACTERS = 6_144

EC2 = "arn:aws:ec2:eu-central-1:123456789012:"
IAM = "arn:aws:iam::123456789012:"
ROLE = f"{IAM}role/kairoscope-x"
ZONE = "arn:aws:route53:::hostedzone/Z1"
OURS = {"aws:ResourceTag/Project": "kairoscope"}
THEIRS = {"aws:ResourceTag/Project": "payroll"}
NEW = {"aws:RequestTag/Project": "kairoscope"}
BOUND = {"iam:PermissionsBoundary": f"{IAM}policy/kairoscope-hosts"}
TO_EC2 = {"iam:PassedToService": "ec2.amazonaws.com"}
# What calls make, and what has to be there for them, as the service authorization reference has it
# (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html).
MADE = [
    ("AllocateAddress", "elastic-ip"),
    ("CreateInternetGateway", "internet-gateway"),
    ("CreateNatGateway", "natgateway"),
    ("CreatePlacementGroup", "placement-group"),
    ("CreateRouteTable", "route-table"),
    ("CreateSecurityGroup", "security-group"),
    ("CreateSubnet", "subnet"),
    ("CreateVolume", "volume"),
    ("CreateVpc", "vpc"),
    ("CreateVpcEndpoint", "vpc-endpoint"),
    ("ImportKeyPair", "key-pair"),
]
IN_A_NETWORK = [
    ("CreateNatGateway", "elastic-ip"),
    ("CreateNatGateway", "subnet"),
    ("CreateNatGateway", "vpc"),
    ("CreateRouteTable", "vpc"),
    ("CreateSecurityGroup", "vpc"),
    ("CreateSubnet", "vpc"),
    ("CreateVpcEndpoint", "route-table"),
    ("CreateVpcEndpoint", "security-group"),
    ("CreateVpcEndpoint", "subnet"),
    ("CreateVpcEndpoint", "vpc"),
]
NAMES = "route53:ChangeResourceRecordSetsNormalizedRecordNames"


def listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def holds(operator: str, key: str, wanted: list[str], context: dict[str, Any]) -> bool:
    """Whether a condition holds; without its key no other than ForAllValues and Null does."""
    if operator == "Null":
        return (key not in context) == (wanted == ["true"])
    given = listed(context.get(key, []))
    if operator == "ForAllValues:StringLike":
        return all(any(fnmatchcase(one, pattern) for pattern in wanted) for one in given)
    alike = {"StringEquals": str.__eq__, "StringLike": fnmatchcase}[operator]
    return any(alike(one, pattern) for one in given for pattern in wanted)


def allows(policy: dict[str, Any], action: str, resource: str, context: dict[str, Any]) -> bool:
    """Whether a policy allows an action on one resource."""
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        if not any(fnmatchcase(action, pattern) for pattern in listed(statement["Action"])):
            continue
        places = [re.sub(r"\$\{aws:\w+\}", "me", p) for p in listed(statement["Resource"])]
        if not any(fnmatchcase(resource, place) for place in places):
            continue
        conditions = statement.get("Condition", {}).items()
        if all(
            holds(op, k, listed(v), context) for op, each in conditions for k, v in each.items()
        ):
            return True
    return False


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        # A role without the boundary would be whatever it is given.
        ("iam:CreateRole", ROLE, {}),
        ("iam:CreateRole", ROLE, {"iam:PermissionsBoundary": f"{IAM}policy/x"}),
        ("iam:CreateRole", f"{IAM}role/x", BOUND),
        ("iam:PutRolePolicy", ROLE, {}),
        ("iam:AttachRolePolicy", ROLE, BOUND),
        ("iam:PutRolePermissionsBoundary", ROLE, BOUND),
        ("iam:DeleteRolePermissionsBoundary", ROLE, BOUND),
        ("iam:UpdateAssumeRolePolicy", ROLE, BOUND),
        ("iam:CreatePolicyVersion", f"{IAM}policy/kairoscope-hosts", {}),
        ("iam:PassRole", f"{IAM}role/admin", TO_EC2),
        ("iam:PassRole", ROLE, {"iam:PassedToService": "lambda.amazonaws.com"}),
        # What bears our tag may be ended, so nothing else may be given it.
        ("ec2:CreateTags", f"{EC2}instance/i-1", THEIRS | NEW),
        ("ec2:CreateTags", f"{EC2}volume/vol-1", NEW),
        ("ec2:DeleteTags", f"{EC2}instance/i-1", THEIRS),
        *(
            (f"ec2:{action}", f"{EC2}{kind}/x", context)
            for action, kind in (
                ("TerminateInstances", "instance"),
                ("StopInstances", "instance"),
                ("ModifyInstanceAttribute", "instance"),
                ("AttachVolume", "volume"),
                ("DetachVolume", "volume"),
                ("DeleteVolume", "volume"),
                ("AuthorizeSecurityGroupIngress", "security-group"),
                ("RevokeSecurityGroupIngress", "security-group"),
                ("RevokeSecurityGroupEgress", "security-group"),
                ("CreateRoute", "route-table"),
                ("ReplaceRoute", "route-table"),
                ("AssociateRouteTable", "subnet"),
                ("ModifyVpcAttribute", "vpc"),
                ("ModifySubnetAttribute", "subnet"),
                ("AttachInternetGateway", "vpc"),
                ("AssociateAddress", "elastic-ip"),
                ("ReleaseAddress", "elastic-ip"),
                ("RunInstances", "subnet"),
                ("RunInstances", "security-group"),
            )
            for context in ({}, THEIRS)
        ),
        ("ec2:RunInstances", f"{EC2}instance/x", {}),
        # Nothing new in a network of others, whatever it is called: an endpoint of S3 on their
        # route tables, with a policy of whoever made it, would cut them off.
        *(
            (f"ec2:{action}", f"{EC2}{kind}/x", context)
            for action, kind in IN_A_NETWORK
            for context in (NEW, THEIRS, THEIRS | NEW)
        ),
        # What is new bears our tag, or nobody could end it.
        *((f"ec2:{action}", f"{EC2}{kind}/x", {}) for action, kind in MADE),
        # Sessions are as root.
        ("ssm:StartSession", f"{EC2}instance/i-1", {"ssm:resourceTag/Project": "payroll"}),
        ("ssm:StartSession", f"{EC2}instance/i-1", {}),
        ("ssm:TerminateSession", "arn:aws:ssm:eu-central-1:1:session/somebody-1", {}),
        # Names of others, public ones too.
        ("route53:ChangeResourceRecordSets", ZONE, {NAMES: "example.com"}),
        (
            "route53:ChangeResourceRecordSets",
            ZONE,
            {NAMES: ["kairosdb.kairoscope.internal", "www.example.com"]},
        ),
        ("s3:GetObject", "arn:aws:s3:::payroll/x", {}),
        ("s3:PutObject", "arn:aws:s3:::kairoscope-results-1/results/x", {}),
        ("elasticloadbalancing:DeleteLoadBalancer",
         "arn:aws:elasticloadbalancing:eu-central-1:1:loadbalancer/net/payroll/1", {}),
    ],
)  # fmt: skip
def test_it_refuses(action, resource, context):
    assert not allows(POLICY, action, resource, context)


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("iam:CreateRole", f"{IAM}role/kairoscope-eu-central-1-storage", BOUND),
        ("iam:PutRolePolicy", f"{IAM}role/kairoscope-eu-central-1-storage", BOUND),
        ("iam:PassRole", f"{IAM}role/kairoscope-eu-central-1-storage", TO_EC2),
        ("ec2:CreateTags", f"{EC2}instance/i-1", NEW | {"ec2:CreateAction": "RunInstances"}),
        ("ec2:CreateTags", f"{EC2}instance/i-1", OURS),
        ("ec2:RunInstances", f"{EC2}instance/i-1", NEW),
        ("ec2:RunInstances", "arn:aws:ec2:eu-central-1::image/ami-1", {}),
        ("ec2:RunInstances", f"{EC2}volume/vol-1", {}),
        ("ec2:RunInstances", f"{EC2}subnet/subnet-1", OURS),
        ("ec2:RunInstances", f"{EC2}security-group/sg-1", OURS),
        ("ec2:RunInstances", f"{EC2}key-pair/kairoscope", OURS),
        ("ec2:RunInstances", f"{EC2}placement-group/kairoscope-storage", OURS),
        # Terraform gives the tags with the call (tests/cloud/test_aws_deployed.py).
        *((f"ec2:{action}", f"{EC2}{kind}/x", NEW) for action, kind in MADE),
        *((f"ec2:{action}", f"{EC2}{kind}/x", OURS | NEW) for action, kind in IN_A_NETWORK),
        ("ec2:AuthorizeSecurityGroupIngress", f"{EC2}security-group/sg-1", OURS),
        ("ec2:AuthorizeSecurityGroupIngress", f"{EC2}security-group-rule/sgr-1", {}),
        ("ec2:RevokeSecurityGroupEgress", f"{EC2}security-group/sg-1", OURS),
        ("ec2:AssociateAddress", f"{EC2}network-interface/eni-1", {}),
        ("ec2:TerminateInstances", f"{EC2}instance/i-1", OURS),
        ("ec2:GetConsoleOutput", f"{EC2}instance/i-1", OURS),
        ("ec2:DeleteVpc", f"{EC2}vpc/vpc-1", OURS),
        ("ssm:StartSession", f"{EC2}instance/i-1", {"ssm:resourceTag/Project": "kairoscope"}),
        ("ssm:StartSession", "arn:aws:ssm:eu-central-1::document/AWS-StartSSHSession", {}),
        ("ssmmessages:OpenDataChannel", "arn:aws:ssm:eu-central-1:1:session/me-1", {}),
        (
            "route53:ChangeResourceRecordSets",
            ZONE,
            {NAMES: ["storage-1.kairoscope-2.internal"]},
        ),
        ("s3:PutObject", "arn:aws:s3:::kairoscope-results-1/backups/x", {}),
        ("s3:PutObject", "arn:aws:s3:::kairoscope-state-of-mine/kairoscope/terraform.tfstate", {}),
    ],
)  # fmt: skip
def test_it_allows(action, resource, context):
    assert allows(POLICY, action, resource, context)


@pytest.mark.parametrize("policy", [POLICY, BOUNDARY])
def test_aws_takes_it(policy):
    assert len(re.sub(r"\s", "", json.dumps(policy))) <= MOST_CHARACTERS
    names = [statement["Sid"] for statement in policy["Statement"]]
    assert len(set(names)) == len(names) and all(name.isalnum() for name in names)


def test_the_boundary_has_what_hosts_are_allowed_and_no_more():
    text = (paths.TERRAFORM / "modules" / "identity" / "main.tf").read_text()
    given = set(re.findall(r'"((?:s3|ssm|ssmmessages):[A-Z]\w+)"', text))
    bounded = {action for each in BOUNDARY["Statement"] for action in listed(each["Action"])}
    assert given == bounded
    bucket = "arn:aws:s3:::kairoscope-results-20270101"
    assert allows(BOUNDARY, "s3:PutObject", f"{bucket}/backups/scheduled/x", {})
    assert not allows(BOUNDARY, "s3:PutObject", f"{bucket}/backups/by-hand/x", {})
    assert not allows(BOUNDARY, "s3:PutObject", "arn:aws:s3:::payroll/backups/scheduled/x", {})
    # Whoever breaks into a host gets at no other's data, and takes no backup away.
    for action in ("s3:GetObject", "s3:ListBucket", "s3:DeleteObject"):
        assert not allows(BOUNDARY, action, f"{bucket}/backups/scheduled/x", {})


def test_the_first_hour_asks_aws_for_nothing_that_it_refuses():
    """Commands of the page that a deployer types beside ours."""
    page = (paths.CHECKOUT / "docs" / "first-hour.md").read_text()
    typed = re.findall(r"`aws ([a-z0-9]+) ([a-z-]+)", page)
    assert len(typed) > 3
    services = {"resourcegroupstaggingapi": "tag"}
    for service, command in typed:
        action = "".join(word.title() for word in command.split("-"))
        asked = f"{services.get(service, service)}:{action}"
        assert allows(POLICY, asked, f"{EC2}instance/i-1", OURS), asked
