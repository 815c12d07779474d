"""What a verdict says of points that no part fails for, and of queries."""

import pytest

from kairoscope.experiment.schema.limits import Limits
from kairoscope.verdict import remarks, timely
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.sustained import Outcome, Part


def test_refused_and_unanswered_points_are_in_the_sentence():
    book = Ledger(10_000, 20, 9_980, 7_100, 1_440, 1_440, unknown_missing=1_440)
    assert remarks.of_points(book) == [
        "Of 10,000 scheduled points: 1,440 refused by the server, 20 never sent, "
        "1,440 unanswered and not stored"
    ]
    assert remarks.of_points(Ledger(10, 0, 10, 10, 0, 0)) == []
    assert remarks.of_points(Ledger(10, 0, 10, 0, 0, 10, acknowledges=False)) == []


def test_queries_that_got_nothing_are_in_the_sentence():
    answers = {"sent": 80, "not_sent": 0, "right": 0, "late": 20, "wrong": 0, "failed": 60}
    assert remarks.of_queries(answers) == [
        "Of 80 queries beside the load: 60 failed, 20 did not find points that should have been "
        "there"
    ]
    assert remarks.of_queries(answers | {"late": 0, "failed": 0, "right": 80}) == []


def schedule_part(outcome: Outcome = "pass") -> Part:
    return Part(1.0, 0.99, "fraction in time", outcome, "all in time")


ANSWERED = {"sent": 80, "not_sent": 9, "right": 80, "late": 0, "wrong": 0, "failed": 0} | {
    "points_checked": 4_000,
    "points_late": 0,
}


@pytest.mark.parametrize(
    ("answers", "figure", "said"),
    [
        ({}, None, ""),
        ({"failed": 8}, None, ""),
        ({"failed": 60}, 0.75, "60 of 80 queries failed (75.0%, limit 10.0%)"),
        ({"points_late": 800}, None, ""),
        ({"points_late": 801}, 801 / 4000, "801 of 4,000 points that queries asked for were not"),
        ({"failed": 60, "points_late": 900}, 0.75, "60 of 80 queries failed"),
        ({"sent": 0, "points_checked": 0}, None, ""),
    ],
)
def test_queries_that_fail_and_points_found_late_have_limits(answers, figure, said):
    limits = Limits(queries_failed=0.1, points_late=0.2)
    found = timely.with_queries(schedule_part(), ANSWERED | answers, limits)
    assert (found.outcome, found.figure) == (("fail", figure) if figure else ("pass", 1.0))
    assert said in found.text
    if len(answers) > 1 and figure:
        assert "900 of 4,000" in found.text


def test_a_schedule_that_failed_keeps_its_figure_beside_failed_queries():
    found = timely.with_queries(schedule_part("fail"), ANSWERED | {"failed": 60}, Limits())
    assert (found.figure, found.limit, found.outcome) == (1.0, 0.99, "fail")
    assert found.text == "all in time; 60 of 80 queries failed (75.0%, limit 1.0%)"
