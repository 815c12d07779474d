"""The section `queries`: reads beside the writes."""

from kairoscope.experiment.schema.section import Section, described


class Queries(Section):
    """Reads beside the writes; what they answer is compared with what was sent."""

    rate: float = described(
        "queries/s", "Queries a second of the whole run; 0 for none.", default=0.0, ge=0, le=1000
    )
    last_s: int = described(
        "s",
        "Span of time that a query asks for, a multiple of bucket_s: a dashboard's last minute.",
        default=60,
        ge=1,
        le=86_400,
    )
    lag_s: int | None = described(
        "s",
        "Age from which a point is expected in an answer: it waits in KairosDB's queue before it "
        "is written, and the acknowledgement does not wait for that.",
        default=None,
        ge=0,
        le=3600,
    )
    sensors: int = described(
        "sensors",
        "Random sensors that one query for raw points asks for.",
        default=10,
        ge=1,
        le=10_000,
    )
    bucket_s: int = described(
        "s",
        "Length of the buckets in queries that aggregate.",
        default=10,
        ge=1,
        le=86_400,
    )
    followed: int = described(
        "sensors",
        "Sensors of each loader host that are asked for once a second beside the queries: so it is "
        "known when each of their points was first found, and whether one was found and then no "
        "more. 0 for none. Eight are some of each of a few KairosDB nodes, and an answer has some "
        "hundred points.",
        default=8,
        ge=0,
        le=1000,
    )
