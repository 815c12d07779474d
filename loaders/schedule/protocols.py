"""Every protocol: what it is called, and what sets it apart from others. How each sends is in a
module of its own of loaders/send."""

from __future__ import annotations

from dataclasses import dataclass

REST, REST_GZIP, TELNET_PUT, TELNET_PUTM = "rest", "rest-gzip", "telnet-put", "telnet-putm"
LINE, PLAINTEXT, PICKLE = "line", "plaintext", "pickle"
REMOTE_WRITE, MEASURES, CQL = "remote-write", "measures", "cql"


@dataclass(frozen=True)
class Traits:
    """Of one protocol.

    Attributes:
        title: for a table or a picture.
        acknowledges: whether it tells that a point has arrived.
        one_way: its server never says a word, and reads no more than it has room for: history by
            it goes as fast as that, and a connection may be ended behind each request.
    """

    title: str
    acknowledges: bool = True
    one_way: bool = False


TRAITS = {
    REST: Traits("REST"),
    REST_GZIP: Traits("REST with gzip"),
    TELNET_PUT: Traits("telnet, put", acknowledges=False),
    TELNET_PUTM: Traits("telnet, putm", acknowledges=False),
    LINE: Traits("InfluxDB's line protocol"),
    REMOTE_WRITE: Traits("Prometheus' remote write"),
    PLAINTEXT: Traits("carbon's plaintext", acknowledges=False, one_way=True),
    PICKLE: Traits("carbon's pickle", acknowledges=False, one_way=True),
    MEASURES: Traits("Gnocchi's measures"),
    CQL: Traits("CQL, past KairosDB"),
}
PROTOCOLS = tuple(TRAITS)
SILENT = tuple(name for name, of in TRAITS.items() if not of.acknowledges)
"""Those that acknowledge nothing."""
ONE_WAY = tuple(name for name, of in TRAITS.items() if of.one_way)
