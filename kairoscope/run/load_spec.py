"""From the plan to the loaders' specification: what is known of the load, and where it goes."""

from kairoscope.plan import Plan
from loaders.schedule.spec import LoadSpec, Queries, Step, Store

# What the specification takes from the plan as it is.
_AS_PLANNED = (
    "sensors",
    "warmup_ticks",
    "ramp_ticks",
    "lifetime_ticks",
    "pacing",
    "jitter_ms",
    "seed",
    "replay",
    "replay_queue_points",
    "protocol",
    "hosts",
    "workers_per_host",
    "metric",
    "tags",
    "value_type",
    "sensors_per_request",
    "points_per_request",
    "request_timeout_s",
    "retry_for_s",
    "failover_after_s",
    "latency_limit_ms",
    "connections_per_node",
    "connection_per_request",
    "path",
    "partly",
)


def build(
    plan: Plan, nodes: list[str], telnet: list[str], now_s: float, store: Store | None = None
) -> LoadSpec:
    """The specification of a run of the plan.

    Args:
        plan: the resolved plan.
        nodes: base URLs of the KairosDB nodes.
        telnet: "host:port" of the same nodes.
        now_s: epoch seconds at which the load may begin; a replay ends then. Whole seconds are
            taken, so that the loaders' intervals are those of the clock.
        store: under the nodes, where the protocol goes past them.
    """
    wanted = plan.load
    steps = [Step(**step) for step in wanted["steps"]]
    start_ms = int(now_s) * 1000
    if wanted["replay"]:
        start_ms -= sum(step.period_ms * step.ticks for step in steps)
    return LoadSpec(
        steps=steps,
        start_ms=start_ms,
        nodes=nodes,
        telnet=telnet,
        store=store,
        queries=Queries(**wanted["queries"]) if wanted["queries"] else None,
        **{name: wanted[name] for name in _AS_PLANNED},
    )
