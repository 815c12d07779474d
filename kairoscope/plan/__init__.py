"""The plan: what an experiment resolves to on a target, with the arithmetic made visible.

Settings are derived, not folklore. Each one carries the numbers it came from and why it is
computed that way; an experiment may override any of them, and the plan then shows both. The plan
is pure (it looks at no machine), and its JSON is what the deployment and the load read.

`derive` makes it: `load`, and each stack for its own, hold the rules of the arithmetic, each
constant once with its reason, and write their results into a `draft`. What an experiment knows
better (latencies, sizes) is in its `assume`; what it wants otherwise it overrides by the setting
itself. `model` is the plan and its JSON, `view` prints it, `amounts` rounds and writes.
"""

from kairoscope.plan.derive import make
from kairoscope.plan.model import Plan
from kairoscope.plan.view import render

__all__ = ["Plan", "make", "render"]
