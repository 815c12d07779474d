"""Short experiments of the stacks other than KairosDB, for tests that deploy and load them."""

from typing import Any

from harness import SMALL, but

PROTOCOLS = {
    "gnocchi": "measures",
    "graphite": "plaintext",
    "influxdb": "line",
    "questdb": "line",
    "victoriametrics": "line",
}
SENSORS, SECONDS = 100, 6


def experiment(stack: str, *, seconds: int = SECONDS, **more: Any) -> dict[str, Any]:
    """A load of `SENSORS` points a second on one of them."""
    small = but(
        SMALL,
        name=f"{stack}-test",
        stack=stack,
        cluster={"storage_nodes": 1, "replication_factor": 1},
        load={
            **{"sensors": SENSORS, "duration_s": seconds, "warmup_s": 2, "metric": "temperature"},
            **{"protocol": PROTOCOLS[stack], "tags": {"sensor": "{n}"}, "sensors_per_request": 20},
        },
        **more,
    )
    del small["storage"]
    return small
