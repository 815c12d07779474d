"""What a verdict says of points and queries that no part fails for."""

from kairoscope.verdict import remarks
from kairoscope.verdict.ledger import Ledger


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
