"""Backups in S3: a folder there and back. Credentials and endpoint are those of every AWS tool."""

from pathlib import Path

from kairoscope.errors import UserError

SCHEME = "s3://"


def is_address(text: str) -> bool:
    """Whether this is an address in S3, and not a folder here."""
    return text.startswith(SCHEME)


class Place:
    """A prefix in a bucket."""

    def __init__(self, address: str) -> None:
        """UserError if `address` is no s3://bucket/prefix, or the bucket is not open to us."""
        # It takes half a second to load, and few backups go there.
        import boto3
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        self._errors = (Boto3Error, BotoCoreError, ClientError)
        self.address = address.rstrip("/")
        self._bucket, _, self._prefix = self.address.removeprefix(SCHEME).partition("/")
        if not self._bucket or not self._prefix:
            raise UserError(f"{address}: give s3://bucket/prefix")
        try:
            self._client = boto3.client("s3")
            self._client.head_bucket(Bucket=self._bucket)
        except self._errors as error:
            raise UserError(
                f"S3 bucket {self._bucket} cannot be used: {error}. Is there one of this name, and "
                "are AWS_PROFILE, or credentials and AWS_REGION, set for it?"
            ) from error

    def files(self) -> dict[str, int]:
        """Bytes by name of what is there. UserError if it cannot be listed."""
        start = f"{self._prefix}/"
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=start
            )
            return {
                found["Key"].removeprefix(start): found["Size"]
                for page in pages
                for found in page.get("Contents", [])
            }
        except self._errors as error:
            raise UserError(f"{self.address} cannot be listed: {error}") from error

    def upload(self, folder: Path, last: str) -> None:
        """Copy a folder there, the file `last` after all others. UserError if a file is not taken.

        What was copied until then stays there; the same call again copies all of it.
        """
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in sorted(files, key=lambda path: path == folder / last):
            name = path.relative_to(folder).as_posix()
            try:
                self._client.upload_file(str(path), self._bucket, f"{self._prefix}/{name}")
            except self._errors as error:
                raise UserError(f"{self.address}/{name} is not taken: {error}") from error

    def download(self, folder: Path) -> None:
        """Copy everything to a folder here. UserError if there is nothing, or no room for it."""
        files = self.files()
        if not files:
            raise UserError(f"There is nothing at {self.address}")
        for name in files:
            path = folder / name
            if not path.resolve().is_relative_to(folder.resolve()):
                raise UserError(
                    f"{self.address}/{name} leads out of the backup; nothing of it is used"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._client.download_file(self._bucket, f"{self._prefix}/{name}", str(path))
            except self._errors as error:
                raise UserError(f"{self.address}/{name} is not handed out: {error}") from error
