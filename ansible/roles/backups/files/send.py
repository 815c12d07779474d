#!/usr/bin/python3
"""Send this storage node's part of a backup away; kairoscope-backup.timer starts it.

    <to>/<time>/about.json             what the backup is of, of which nodes; all send the same
    <to>/<time>/<node>/<table>/<file>  the files of a snapshot, as the node has them
    <to>/<time>/<node>/node.json       address, rack, tokens, files with checksums; sent last

All nodes start at the same moment by their own clocks, so <time> is the same. What a node sent is
whole with its node.json, the backup with those of all its nodes. It runs as the server's user, who
may put links where it writes; root tells the node exporter (`--tell`). For S3 it needs rclone.
"""

import calendar
import contextlib
import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# Of a backup's folder; what else is there is somebody's.
TIME = r"\d{8}T\d{4}Z"
DAY_S = 86_400
# As role node_exporter has them (tasks/done.yml).
METRIC = "kairoscope_last_backup_timestamp_seconds"
HELP = "When the last backup began; before it, when watching began; s since 1970."


def main(config):
    """Take a snapshot, send it, give it up; CalledProcessError or OSError where that fails."""
    began = time.time()
    if not is_s3(config) and not Path(config["to"]).is_dir():
        sys.exit(f"{config['to']} is not there: is it mounted?")
    name = time.strftime("%Y%m%dT%H%MZ", time.gmtime(began))
    tag = f"kairoscope-{name}"
    nodetool, keyspace = config["nodetool"], config["keyspace"]
    to, node = f"{config['to']}/{name}", config["node"]
    forget(config)
    # Of systemd, when it has taken too long or the host goes down: what is below `finally` is done.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before it was whole"))
    try:
        run(nodetool, "snapshot", "-t", tag, keyspace)
        files = {}
        for folder in sorted(Path(config["keyspaces_dir"], keyspace).glob(f"*/snapshots/{tag}")):
            table = folder.parent.parent.name.rpartition("-")[0]
            for file in sorted(file for file in folder.iterdir() if file.is_file()):
                files[f"{table}/{file.name}"] = {
                    "bytes": file.stat().st_size,
                    "sha256": digest(file),
                }
            send(config, folder, f"{to}/{node}/{table}")
        if not files:
            sys.exit(f"the snapshot {tag} has no files")
        tokens = re.findall(r"(?m)^Token\s+:\s+(-?\d+)", run(nodetool, "info", "--tokens"))
        say(config, to, "about.json", config["about"])
        found = {
            "address": config["address"],
            "rack": config["rack"],
            "tokens": tokens,
            "files": files,
            "began": int(began),
        }
        say(config, f"{to}/{node}", "node.json", found)
    finally:
        # Else it would hold on to the disk of files that compaction has replaced.
        run(nodetool, "clearsnapshot", "-t", tag, keyspace)
    if not is_s3(config):
        expire(config, began)
    Path(config["began"]).write_text(str(int(began)))
    print(f"{len(files)} files, {sum(f['bytes'] for f in files.values())} bytes: {to}/{node}")


def run(*command):
    """A command's output."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def forget(config):
    """Give up what was left by one that could not do so itself, as when the host lost its power.

    One by hand has a name of its own (deploy/operate/data.py), and may be under way.
    """
    found = Path(config["keyspaces_dir"], config["keyspace"]).glob("*/snapshots/kairoscope-*")
    for tag in sorted({folder.name for folder in found}):
        if re.fullmatch(f"kairoscope-{TIME}", tag):
            run(config["nodetool"], "clearsnapshot", "-t", tag, config["keyspace"])


def is_s3(config):
    """Whether it goes to S3, and not to a folder."""
    return config["to"].startswith("s3://")


def send(config, folder, to):
    """Copy a folder's files to a place, which need not be there."""
    if not is_s3(config):
        Path(to).mkdir(parents=True, exist_ok=True)
        for file in filter(Path.is_file, folder.iterdir()):
            partial = Path(to, f".{file.name}.partial")
            shutil.copyfile(file, partial)
            partial.rename(Path(to, file.name))
        return
    remote = f":s3,provider=AWS,env_auth=true,region={config['region']}"
    if config["endpoint"]:
        remote += f',provider=Other,force_path_style=true,endpoint="{config["endpoint"]}"'
    # A host may write there, and neither list, read nor delete: nothing is looked up before or
    # after. Each part of a file is sent with its checksum, which S3 compares.
    run(
        *("rclone", "copy", "--config", "/dev/null", "--no-traverse", "--no-check-dest"),
        *("--s3-no-check-bucket", "--s3-no-head", "--retries", "3", "--low-level-retries", "10"),
        *(str(folder), f"{remote}:{to.removeprefix('s3://')}"),
    )


def say(config, to, name, document):
    """Send a document as a file."""
    folder = Path(config["scratch"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    (folder / name).write_text(json.dumps(document))
    send(config, folder, to)
    shutil.rmtree(folder)


def digest(path):
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        found = hashlib.sha256()
        while chunk := file.read(1 << 20):
            found.update(chunk)
        return found.hexdigest()


def expire(config, now):
    """Remove what this node sent to a folder before `keep_days`; in S3 the bucket's rules do so."""
    for folder in Path(config["to"]).iterdir():
        if not re.fullmatch(TIME, folder.name):
            continue
        then = time.strptime(folder.name, "%Y%m%dT%H%MZ")
        if now - calendar.timegm(then) < config["keep_days"] * DAY_S:
            continue
        shutil.rmtree(folder / config["node"], ignore_errors=True)
        with contextlib.suppress(OSError):  # Others have something there yet.
            # The manifest is the control machine's, where somebody has looked into it.
            if {left.name for left in folder.iterdir()} <= {"about.json", "manifest.json"}:
                for left in folder.iterdir():
                    left.unlink()
            folder.rmdir()


def tell(config):
    """Have the node exporter say when the last one began, where the host is watched."""
    folder = Path(config["textfile"])
    if folder.is_dir():
        name, began = METRIC, int(Path(config["began"]).read_text())
        partial = folder / "backup.new"
        partial.write_text(f"# HELP {name} {HELP}\n# TYPE {name} gauge\n{name} {began}\n")
        partial.chmod(0o644)
        partial.rename(folder / "backup.prom")


if __name__ == "__main__":
    told = json.loads(Path(sys.argv[1]).read_text())
    tell(told) if sys.argv[2:] == ["--tell"] else main(told)
