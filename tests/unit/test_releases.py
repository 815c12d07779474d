"""Versions of servers."""

import pytest

from kairoscope import releases


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("1.3.0-1.20210808220820", "1.3.0-1", True),
        ("6.2.3-0.20250119.bcb4b5d9a1d5", "6.2.3", True),
        ("5.0.9", "5.0.9", True),
        ("5.0.90", "5.0.9", False),
        ("5.0.8", "5.0.9", False),
        ("", "5.0.9", False),
        ("5.0.9", "", False),
    ],
)
def test_a_version_is_the_wanted_one(found, wanted, same):
    assert releases.same_release(found, wanted) == same


def test_versions_are_compared_by_their_numbers():
    order = ["5.2.19", "5.4.9", "6.0.0", "2025.1.14-0.20260101.abc", "2025.4.10", "2026.1.11"]
    numbers = [releases.number(version) for version in order]
    assert numbers == sorted(numbers)
    assert releases.number("unknown") == ()
