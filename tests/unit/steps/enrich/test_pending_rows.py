"""Rows that wait for answers: which call is made next, and which rows leave."""

from penstock.steps.enrich.pending_rows import PendingRows


def pending(capacity: int = 2, batch: int = 1, *, ordered: bool = True) -> PendingRows:
    found = PendingRows(capacity, batch, ordered=ordered)
    for number, line in enumerate("aaba"):
        found.add(number, line, number * 10)
    return found


def ask_all(rows: PendingRows) -> list[tuple[int, tuple[int, ...]]]:
    return list(iter(rows.to_ask, None))


def test_as_many_calls_are_made_at_once_as_there_is_room_for() -> None:
    rows = pending()
    assert ask_all(rows) == [(1, (0,)), (2, (1,))]
    assert rows.full
    assert rows.asked(1) == (0,)
    assert ask_all(rows) == [(3, (2,))]


def test_a_call_asks_for_a_batch_of_rows() -> None:
    assert ask_all(pending(batch=3)) == [(1, (0, 1, 2)), (2, (3,))]


def test_rows_of_a_line_leave_in_their_order() -> None:
    rows = pending(capacity=9)
    ask_all(rows)
    assert rows.answered([(3, "d"), (1, "b")]) == []
    assert rows.answered([(2, "c")]) == [(2, "c")], "it is of another line"
    assert rows.answered([(0, "a")]) == [(0, "a"), (1, "b"), (3, "d")]
    assert len(rows) == 0


def test_in_any_order_a_row_leaves_with_its_answer() -> None:
    rows = pending(capacity=9, ordered=False)
    ask_all(rows)
    assert rows.answered([(3, "d"), (1, "b")]) == [(3, "d"), (1, "b")]


def test_a_row_that_waits_holds_the_time_that_was_heard_when_it_came() -> None:
    rows = pending(capacity=9, ordered=False)
    assert rows.held_us == 0
    rows.answered([(0, "a"), (2, "c")])
    assert rows.held_us == 10
    rows.answered([(1, "b"), (3, "d")])
    assert rows.held_us is None


def test_an_answer_to_a_call_that_is_not_known_is_dropped() -> None:
    rows = pending()
    ask_all(rows)
    assert rows.asked(1) == (0,)
    assert rows.asked(1) == ()
    assert rows.asked(77) == ()
    assert rows.dropped == 2


def test_rows_that_are_given_up_leave_their_call() -> None:
    rows = pending(batch=4)
    ask_all(rows)
    rows.give_up([0, 1, 3])
    assert rows.answered((n, "x") for n in rows.asked(1)) == [(2, "x")]
    rows.add(9, "a", 0)
    assert rows.to_ask() == (2, (9,))
