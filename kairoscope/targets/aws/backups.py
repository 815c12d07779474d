"""Backups in the deployment's bucket, which outlive it."""

from kairoscope.errors import UserError

PREFIX = "backups/"


def there(bucket: str, region: str) -> bool:
    """Whether a bucket has backups. UserError if that cannot be told.

    One that was deleted counts: by mistake or on purpose is not known here, and for 30 days it can
    be fetched back (terraform/modules/results), but not from a bucket that is gone.
    """
    # It takes half a second to load.
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        pages = boto3.client("s3", region_name=region).get_paginator("list_object_versions")
        # A page may have marks of what was deleted alone, which hold nothing.
        return any(page.get("Versions") for page in pages.paginate(Bucket=bucket, Prefix=PREFIX))
    except (BotoCoreError, ClientError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == "NoSuchBucket":
            return False  # of a destroy that was interrupted
        raise UserError(
            f"Whether there are backups in s3://{bucket} cannot be told, so nothing was destroyed: "
            f"{error}"
        ) from error
