"""Finding and reading the file of an experiment."""

import difflib
from contextlib import suppress
from pathlib import Path

from kairoscope import paths
from kairoscope.errors import UserError

_MAX_FILE_BYTES = 1 << 20


def available() -> list[str]:
    """Names of the experiments in `experiments/`, sorted."""
    return sorted(_by_name())


def read(path_or_name: str) -> tuple[str, str]:
    """An experiment's text, and its file as messages show it: relative where it is below here."""
    path = _find(path_or_name)
    shown = str(path)
    with suppress(ValueError):
        shown = str(path.resolve().relative_to(Path.cwd().resolve()))
    return _text(path, shown), shown


def _by_name() -> dict[str, Path]:
    """The checkout's experiments, and before them those in `experiments/` of the working folder."""
    folders = (paths.EXPERIMENTS, Path.cwd() / "experiments")
    return {path.stem: path for folder in folders for path in folder.glob("*.yml")}


def _listed() -> str:
    return ", ".join(available()) or "none"


def _find(path_or_name: str) -> Path:
    if "/" in path_or_name or path_or_name.endswith((".yml", ".yaml")):
        return Path(path_or_name)
    named = _by_name()
    if path_or_name in named:
        return named[path_or_name]
    close = difflib.get_close_matches(path_or_name, named, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise UserError(
        f"there is no experiment {path_or_name!r}.{guess} Available: {_listed()}. "
        "A file of your own is given by its path, for instance ./mine.yml."
    )


def _text(path: Path, shown: str) -> str:
    """The file's text, or a UserError that says why there is none."""
    try:
        if path.is_dir():
            raise UserError(f"{shown}: is a folder; an experiment is a .yml file")
        size = path.stat().st_size
        if size > _MAX_FILE_BYTES:
            raise UserError(
                f"{shown}: has {size:,} bytes; an experiment has at most {_MAX_FILE_BYTES:,}"
            )
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{shown}: no such file. Experiments by name: {_listed()}") from None
    except OSError as error:
        raise UserError(f"{shown}: cannot be read: {error.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{shown}:{line}: is not UTF-8 (byte 0x{raw[error.start]:02x}); save it as UTF-8"
        ) from None
