"""What terraform/deployer-policy.json allows, beside what Terraform asked for."""

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase

from kairoscope import paths

# Actions as IAM names them, where that is not the name of the call.
S3 = {
    "HEAD bucket": "ListBucket",
    "GET bucket": "ListBucket",
    "GET bucket?versions": "ListBucketVersions",
    "GET bucket?accelerate": "GetAccelerateConfiguration",
    "GET bucket?acl": "GetBucketAcl",
    "GET bucket?cors": "GetBucketCORS",
    "GET bucket?encryption": "GetEncryptionConfiguration",
    "GET bucket?lifecycle": "GetLifecycleConfiguration",
    "GET bucket?location": "GetBucketLocation",
    "GET bucket?logging": "GetBucketLogging",
    "GET bucket?object-lock": "GetBucketObjectLockConfiguration",
    "GET bucket?ownershipControls": "GetBucketOwnershipControls",
    "GET bucket?policy": "GetBucketPolicy",
    "GET bucket?publicAccessBlock": "GetBucketPublicAccessBlock",
    "GET bucket?replication": "GetReplicationConfiguration",
    "GET bucket?requestPayment": "GetBucketRequestPayment",
    "GET bucket?tagging": "GetBucketTagging",
    "GET bucket?versioning": "GetBucketVersioning",
    "GET bucket?website": "GetBucketWebsite",
    "PUT bucket": "CreateBucket",
    "PUT bucket?encryption": "PutEncryptionConfiguration",
    "PUT bucket?lifecycle": "PutLifecycleConfiguration",
    "PUT bucket?ownershipControls": "PutBucketOwnershipControls",
    "PUT bucket?policy": "PutBucketPolicy",
    "PUT bucket?publicAccessBlock": "PutBucketPublicAccessBlock",
    "PUT bucket?tagging": "PutBucketTagging",
    "PUT bucket?versioning": "PutBucketVersioning",
    "POST bucket?delete": "DeleteObjectVersion",
    "DELETE bucket": "DeleteBucket",
    "DELETE bucket?encryption": "PutEncryptionConfiguration",
    "DELETE bucket?lifecycle": "PutLifecycleConfiguration",
    "DELETE bucket?ownershipControls": "PutBucketOwnershipControls",
    "DELETE bucket?policy": "DeleteBucketPolicy",
    "DELETE bucket?publicAccessBlock": "PutBucketPublicAccessBlock",
    "DELETE bucket?tagging": "PutBucketTagging",
}
# What AWS checks besides, for the tags given at once, or for what is handed over.
ALSO = {
    "ec2:RunInstances": ["ec2:CreateTags", "iam:PassRole"],
    "ec2:CreateVpcEndpoint": ["ec2:CreateTags", "route53:AssociateVPCWithHostedZone"],
    "elasticloadbalancing:CreateLoadBalancer": [
        "elasticloadbalancing:AddTags",
        "iam:CreateServiceLinkedRole",
    ],
    "iam:CreateRole": ["iam:TagRole"],
    "iam:CreateInstanceProfile": ["iam:TagInstanceProfile"],
    "route53:CreateHostedZone": ["ec2:DescribeVpcs", "route53:AssociateVPCWithHostedZone"],
    "s3:PUT bucket": ["s3:PutBucketTagging"],
}


def not_allowed(calls: Iterable[str]) -> list[str]:
    """The actions that `calls` need and the policy does not allow for anything at all.

    Without its conditions and resources, and without calls for objects in a bucket: the hosts and
    the S3 backend have permissions of their own.
    """
    policy = json.loads((paths.TERRAFORM / "deployer-policy.json").read_text())
    allowed: list[str] = []
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        actions = statement["Action"]
        allowed += [actions] if isinstance(actions, str) else actions
    made = {call for call in calls if not call.startswith("s3:") or " object" not in call}
    needed = {action for call in made for action in ALSO.get(call, [])}
    for call in made:
        service, _, name = call.partition(":")
        needed.add(f"s3:{S3[name]}" if service == "s3" else call)
    return sorted(a for a in needed if not any(fnmatchcase(a, pattern) for pattern in allowed))
