"""Backups in S3, against a stand-in for it (moto, in this process)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from kairoscope.deploy.operate import s3
from kairoscope.errors import UserError
from kairoscope.targets.aws import backups

FILES = {"manifest.json": b"{}", "schema.cql": b"CREATE", "storage-1/a/b-Data.db": b"\0" * 5000}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, text in (
        ("AWS_ACCESS_KEY_ID", "nobody"),
        ("AWS_SECRET_ACCESS_KEY", "nothing"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, text)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="backups")
        yield client


def made(folder: Path) -> Path:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_there_and_back(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Bucket="backups", Key="prod/today-not/manifest.json", Body=b"another")
    place = s3.Place("s3://backups/prod/today/")
    assert place.files() == {}
    place.upload(made(tmp_path / "there"), last="manifest.json")
    assert place.files() == {name: len(text) for name, text in FILES.items()}
    place.download(tmp_path / "back")
    assert content(tmp_path / "back") == FILES


def test_the_manifest_is_the_last(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = s3.Place("s3://backups/prod")
    sent: list[str] = []
    monkeypatch.setattr(
        place._client, "upload_file", lambda path, bucket, key: sent.append(key), raising=False
    )
    place.upload(made(tmp_path), last="manifest.json")
    assert sorted(sent) == sorted(f"prod/{name}" for name in FILES)
    assert sent[-1] == "prod/manifest.json"


def test_a_file_that_is_not_taken_is_named(bucket: Any, tmp_path: Path) -> None:
    place = s3.Place("s3://backups/prod")
    bucket.delete_bucket(Bucket="backups")
    with pytest.raises(UserError, match=r"s3://backups/prod/schema\.cql is not taken: .*NoSuchB"):
        place.upload(made(tmp_path), last="manifest.json")


@pytest.mark.parametrize("address", ["s3://", "s3://backups", "s3://backups/", "s3:///prefix"])
def test_what_is_no_place(bucket: Any, address: str) -> None:
    with pytest.raises(UserError, match="give s3://bucket/prefix"):
        s3.Place(address)


def test_a_bucket_that_is_not_there(bucket: Any) -> None:
    with pytest.raises(UserError, match=r"bucket missing cannot be used: .*404"):
        s3.Place("s3://missing/prefix")


def test_no_credentials(bucket: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(UserError, match="AWS_PROFILE, or credentials and AWS_REGION, set"):
        s3.Place("s3://backups/prefix")


def test_a_name_that_leads_out_is_refused(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Bucket="backups", Key="prod/../../elsewhere", Body=b"x")
    with pytest.raises(UserError, match="leads out of the backup"):
        s3.Place("s3://backups/prod").download(tmp_path / "one" / "two")
    assert not (tmp_path / "elsewhere").exists()


def test_nothing_to_bring_back(bucket: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is nothing at s3://backups/prod"):
        s3.Place("s3://backups/prod").download(tmp_path)


def test_whether_a_deployment_s_bucket_has_backups(bucket: Any) -> None:
    bucket.put_object(Bucket="backups", Key="results/run/report.html", Body=b"x")
    assert not backups.there("backups", "us-east-1")
    bucket.put_object(Bucket="backups", Key="backups/monday/manifest.json", Body=b"{}")
    assert backups.there("backups", "us-east-1")
    assert not backups.there("gone-with-an-interrupted-destroy", "us-east-1")


def test_a_backup_that_was_deleted_can_be_fetched_back(bucket: Any) -> None:
    bucket.put_bucket_versioning(Bucket="backups", VersioningConfiguration={"Status": "Enabled"})
    bucket.put_object(Bucket="backups", Key="backups/monday/manifest.json", Body=b"{}")
    bucket.delete_object(Bucket="backups", Key="backups/monday/manifest.json")
    assert backups.there("backups", "us-east-1")
    # What is left once its time is over: a mark that holds nothing.
    for version in bucket.list_object_versions(Bucket="backups")["Versions"]:
        bucket.delete_object(Bucket="backups", Key=version["Key"], VersionId=version["VersionId"])
    assert bucket.list_object_versions(Bucket="backups")["DeleteMarkers"]
    assert not backups.there("backups", "us-east-1")


def test_what_cannot_be_told_destroys_nothing(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(UserError, match="cannot be told, so nothing was destroyed"):
        backups.there("backups", "us-east-1")
