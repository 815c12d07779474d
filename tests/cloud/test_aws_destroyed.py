"""The end of the published topology: not while it is protected, and then without a rest."""

import pytest
from aws_cloud import Cloud, changing, unfolded
from deployer_policy import not_allowed

pytestmark = pytest.mark.aws


def test_protected_it_is_not_destroyed(published: Cloud) -> None:
    published.write_account(protect=True)
    published.deploy()
    before = published.holdings()
    assert "DEPLOYMENT=kairoscope" in published.refused("destroy", "--target", "aws")
    said = published.refused("destroy", "--target", "aws", "--deployment", "kairoscope")
    assert "set protect = false" in said

    # Nor by Terraform itself, which would lift AWS's own protection without a word.
    calls = len(published.aws.calls())
    done = published.cli("terraform", f"-chdir={published.folder}", "destroy", "-auto-approve")
    assert done.returncode == 1
    assert "kairoscope is protected" in unfolded(done.stderr)
    assert changing(published.aws.calls()[calls:]) == []
    assert published.holdings() == before


def test_aws_protects_what_holds_data(published: Cloud) -> None:
    ec2 = published.client("ec2")
    found = {}
    for name, instance in published.instances().items():
        answer = ec2.describe_instance_attribute(
            InstanceId=instance["InstanceId"], Attribute="disableApiTermination"
        )
        found[name.removeprefix("kairoscope-")] = answer["DisableApiTermination"]["Value"]
    assert sorted(name for name in found if not found[name]) == ["bastion", "loader-1"]
    elb = published.client("elbv2")
    (balancer,) = published.holdings()["load balancers"]
    attributes = elb.describe_load_balancer_attributes(LoadBalancerArn=balancer)["Attributes"]
    assert {"Key": "deletion_protection.enabled", "Value": "true"} in attributes


def test_backups_outlive_it(published: Cloud) -> None:
    published.write_account()
    published.deploy()
    (bucket,) = published.holdings()["buckets"]
    s3 = published.client("s3")
    policy = s3.get_bucket_policy(Bucket=bucket)["Policy"]
    s3.delete_bucket_policy(Bucket=bucket)  # moto takes "Deny, without TLS" for "Deny".
    s3.put_object(Bucket=bucket, Key="backups/monday/manifest.json", Body=b"{}")
    said = published.well("destroy", "--target", "aws", "--deployment", "kairoscope")
    assert f"s3://{bucket} stays" in said
    assert published.holdings() == {"buckets": [bucket]}
    # As closed as it was, but for what this test took from it.
    blocked = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True} and "SecureTransport" in policy
    for version in s3.list_object_versions(Bucket=bucket)["Versions"]:
        s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
    s3.delete_bucket(Bucket=bucket)


def test_destroy_leaves_nothing(published: Cloud) -> None:
    published.deploy()
    (bucket,) = published.holdings()["buckets"]
    s3 = published.client("s3")
    # moto takes "Deny, without TLS" for "Deny".
    s3.delete_bucket_policy(Bucket=bucket)
    for content in (b"one version", b"and another"):
        s3.put_object(Bucket=bucket, Key="results/run/report.html", Body=content)

    published.well("destroy", "--target", "aws", "--deployment", "kairoscope")
    assert published.holdings() == {}
    assert not (published.home / "aws").exists()


def test_policy_for_the_deployer_allows_all_that_this_took(published: Cloud) -> None:
    assert {"ec2:RunInstances", "ec2:TerminateInstances"} <= set(published.aws.calls())
    assert not_allowed(published.aws.calls()) == []
