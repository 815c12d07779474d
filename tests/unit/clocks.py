"""A clock for what waits, so that no test does."""

from types import SimpleNamespace


def moved_by_sleep(start_s: float) -> SimpleNamespace:
    """In place of the module `time`: both of its clocks, which only `sleep` moves."""
    now = [start_s]
    return SimpleNamespace(
        time=lambda: now[0],
        monotonic=lambda: now[0],
        sleep=lambda s: now.__setitem__(0, now[0] + s),
    )
