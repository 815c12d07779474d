"""What the loader needs to talk to KairosDB over HTTPS: whom to trust, and who it is.

They are not part of the load's specification, which is written to files. They come over the pipe
that leads an agent, and to its processes over theirs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import ssl


@dataclasses.dataclass(frozen=True)
class Credentials:
    """For HTTPS only: over plain HTTP nothing of it is sent.

    Fields:
        ca: certificates that are trusted, PEM; empty for those of the machine.
        authorization: value of the Authorization header; empty for none.
    """

    ca: str = ""
    authorization: str = dataclasses.field(default="", repr=False)

    @property
    def tls(self) -> ssl.SSLContext:
        """Client side of TLS; checks the server's chain and name. ValueError for a bad `ca`."""
        return _context(self.ca)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": self.authorization} if self.authorization else {}

    def to_json(self) -> str:
        """As a JSON object."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Credentials:
        """From what `to_json` gave; "" is none. ValueError, which does not quote it, if wrong."""
        if not text.strip():
            return cls()
        try:
            made = cls(**json.loads(text))
            if not isinstance(made.ca, str) or not isinstance(made.authorization, str):
                raise TypeError
        except (ValueError, TypeError):
            raise ValueError("credentials: not a JSON object of ca and authorization") from None
        return made


@functools.cache
def _context(ca: str) -> ssl.SSLContext:
    # Without a CA it reads all certificates of the machine: once is enough.
    try:
        return ssl.create_default_context(cadata=ca or None)
    except ssl.SSLError as error:
        raise ValueError(f"credentials: no certificates in ca ({error.reason})") from None
