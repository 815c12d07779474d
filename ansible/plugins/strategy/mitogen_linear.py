"""Ansible's usual way through a play, with one Python process on a host in place of one per task.

A task costs less than half of the CPU then, and one round trip. Ansible finds strategies by their
file only, and Mitogen's own file lies in the virtual environment, wherever that is.
"""

from ansible_mitogen import affinity, loaders, strategy

# Mitogen pins each of its processes to a CPU, and a server that one of them starts on this machine
# would stay on that CPU for good.
affinity.policy = affinity.Policy()

_LINEAR = loaders.strategy_loader.get("linear", class_only=True)


class StrategyModule(strategy.StrategyMixin, _LINEAR):  # type: ignore[misc]
    """What Ansible looks for in this file."""
