"""The section `limits`: what makes a run a pass."""

from kairoscope.experiment.schema.section import Section, described


class Limits(Section):
    """What makes a run a pass."""

    achieved: float = described(
        "share",
        "Least share of the scheduled points that is acknowledged at all, however late. None of "
        "these may be lost, whatever this says.",
        default=0.999,
        gt=0,
        le=1,
    )
    in_time: float = described(
        "share",
        "Least share of the points due after the warm-up that is acknowledged within p99_ms of "
        "their own planned time. 0.99 is what p99_ms says, but of all that was due and not only of "
        "what was answered; 0.999 would make p99_ms a limit to the 99.9th percentile. In two "
        "minutes 0.99 forgives an outage of a second and p99_ms.",
        default=0.99,
        gt=0,
        le=1,
    )
    longest_silence_s: float = described(
        "s",
        "Longest time after the warm-up in which points of a loader process were due, at one "
        "KairosDB node or at all, and none was acknowledged: a share forgives a longer outage in a "
        "longer run. 6 s is failover_after_s (5 s) and one to notice: what a node's death costs.",
        default=6.0,
        gt=0,
        le=3600,
    )
    p99_ms: float = described(
        "ms",
        "Highest 99th percentile from a point's planned send time to its acknowledgement.",
        default=500.0,
        gt=0,
        le=600_000,
    )
    drain_s: float = described(
        "s",
        "Longest time in which KairosDB's queue may empty once the load has ended.",
        default=60.0,
        ge=0,
        le=86_400,
    )
    queue_growth: float = described(
        "share",
        "Highest growth of KairosDB's queue, as a share of points/s: a hundredth is within what "
        "sampling a moving queue can see. 1 is no limit, as it cannot grow by more than comes in.",
        default=0.01,
        ge=0,
        le=1,
    )
    queries_failed: float = described(
        "share",
        "Most of the queries beside the load that may get no answer, or none in "
        "request_timeout_s: as many as points may be late (in_time).",
        default=0.01,
        ge=0,
        le=1,
    )
    points_late: float = described(
        "share",
        "Most of the points which queries beside the load asked for that they may not find though "
        "they were older than queries.lag_s. Points that were refused are among them. As in_time: "
        "a second of two minutes.",
        default=0.01,
        ge=0,
        le=1,
    )
    send_error_p99_ms: float = described(
        "ms",
        "Highest 99th percentile of the loader's own lateness; above it the run measures the "
        "loader and is invalid.",
        default=100.0,
        gt=0,
        le=60_000,
    )
    foreign_cpu: float = described(
        "share",
        "Most of a machine's cores that processes of others may use while the load is measured; "
        "above it the run measures them too and is invalid. A fifth: of a machine that a load "
        "fills to a half or two thirds that much changes what it costs and how long it takes.",
        default=0.2,
        ge=0,
        le=1,
    )
    steal: float = described(
        "share",
        "Most of a machine's cores that its hypervisor may give to others while the load is "
        "measured; above it the run is invalid. A tenth: nothing that runs can do anything then.",
        default=0.1,
        ge=0,
        le=1,
    )
    clock_offset_ms: float = described(
        "ms",
        "Most that a loader host's clock may differ from this machine's, before a load, which does "
        "not start then, and after it, which makes it invalid: timestamps and latencies of several "
        "hosts are put together.",
        default=20.0,
        gt=0,
        le=60_000,
    )
