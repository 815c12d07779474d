"""The section `capture`: how often the run is looked at."""

from kairoscope.experiment.schema.section import Section, described


class Capture(Section):
    """How often the run is looked at."""

    proxyhistograms_every_s: int = described(
        "s",
        "Between two proxyhistograms of each storage node under load. Cassandra's forget within "
        "minutes (half-life 60 s).",
        default=20,
        ge=1,
        le=3600,
    )
    processes_every_s: int = described(
        "s", "Between two samples of CPU, memory and disk.", default=2, ge=1, le=3600
    )
    shards_every_s: int = described(
        "s",
        "Between two looks at what each shard of ScyllaDB does. In a look the "
        "node writes out all its metrics.",
        default=5,
        ge=1,
        le=3600,
    )
