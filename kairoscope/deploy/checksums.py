"""Checksums of files, as `sha256sum` writes and reads them."""

import hashlib
from pathlib import Path


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by its path relative to it, sorted."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def read_manifest(path: Path) -> dict[str, str]:
    """Parse `sha256sum` lines into {file: checksum}."""
    pairs = (line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def write_manifest(path: Path, sums: dict[str, str]) -> None:
    """Write {file: checksum} in the format that `sha256sum --check` reads."""
    path.write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def differences(wanted: dict[str, str], found: dict[str, str]) -> list[str]:
    """What differs between two manifests, one line each; empty when they agree."""
    lines = [f"missing: {name}" for name in wanted if name not in found]
    lines += [f"not in the manifest: {name}" for name in found if name not in wanted]
    lines += [
        f"other content: {name}" for name in wanted if name in found and wanted[name] != found[name]
    ]
    return lines
