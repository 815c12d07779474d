"""Backups in the deployment's bucket, which outlive it."""

from kairoscope.errors import UserError

PREFIX = "backups/"


def there(bucket: str, region: str) -> bool:
    """Whether a bucket has backups. UserError if that cannot be told."""
    # It takes half a second to load.
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = boto3.client("s3", region_name=region).list_objects_v2(
            Bucket=bucket, Prefix=PREFIX, MaxKeys=1
        )
    except (BotoCoreError, ClientError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == "NoSuchBucket":
            return False  # of a destroy that was interrupted
        raise UserError(
            f"Whether there are backups in s3://{bucket} cannot be told, so nothing was destroyed: "
            f"{error}"
        ) from error
    return bool(found["KeyCount"])
