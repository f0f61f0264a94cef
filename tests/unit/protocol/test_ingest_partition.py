import pytest

from penstock.base.errors import PeerError
from penstock.model.ingest_messages import IngestAnswer
from penstock.protocol.channel.ingest_partition import (
    Action,
    Closed,
    CommittedSenders,
    EndCame,
    Greeted,
    IngestPartition,
    Opened,
    Reply,
    RowsCame,
    Take,
    WantCheckpoint,
)


def opened(offset: int = 0) -> IngestPartition:
    partition = IngestPartition()
    assert partition.step(Opened(offset, finished=False)) == ()
    return partition


def answers(actions: tuple[Action, ...]) -> list[tuple[int, IngestAnswer, int]]:
    return [(a.stream, a.answer, a.next) for a in actions if isinstance(a, Reply)]


def test_a_sender_is_told_where_to_begin() -> None:
    partition = opened(700)
    assert partition.step(Greeted(1, sender=5)) == (Reply(1, IngestAnswer.TAKEN, 700, 700),)


def test_nobody_is_let_in_before_it_is_open_or_after_it_is_closed() -> None:
    partition = IngestPartition()
    assert answers(partition.step(Greeted(1, 5))) == [(1, IngestAnswer.RETRY, 0)]
    partition.step(Opened(0, finished=False))
    partition.step(Greeted(2, 5))
    assert answers(partition.step(Closed())) == [(2, IngestAnswer.RETRY, 0)]
    assert answers(partition.step(Greeted(3, 5))) == [(3, IngestAnswer.RETRY, 0)]


def test_rows_are_taken_once_and_without_a_gap() -> None:
    partition = opened()
    partition.step(Greeted(1, 5))
    assert partition.step(RowsCame(1, 0, 10))[0] == Take(0)
    assert partition.step(RowsCame(1, 4, 10))[0] == Take(6)
    assert answers(partition.step(RowsCame(1, 0, 14))) == [(1, IngestAnswer.TAKEN, 14)]
    assert partition.step(RowsCame(1, 15, 1)) == (Reply(1, IngestAnswer.REWIND, 14, 0),)
    assert partition.next == 14


def test_the_higher_sender_wins_and_the_loser_never_comes_back() -> None:
    partition = opened()
    partition.step(Greeted(1, 5))
    assert answers(partition.step(Greeted(2, 6))) == [
        (1, IngestAnswer.SUPERSEDED, 0),
        (2, IngestAnswer.TAKEN, 0),
    ]
    assert partition.step(RowsCame(1, 0, 10)) == ()
    assert answers(partition.step(Greeted(3, 5))) == [(3, IngestAnswer.SUPERSEDED, 0)]
    assert partition.stream == 2


def test_a_sender_that_dials_anew_replaces_its_own_dead_stream() -> None:
    partition = opened()
    partition.step(Greeted(1, 5))
    partition.step(RowsCame(1, 0, 10))
    assert answers(partition.step(Greeted(2, 5))) == [
        (1, IngestAnswer.RETRY, 10),
        (2, IngestAnswer.TAKEN, 10),
    ]


def test_a_sender_goes_only_when_its_end_is_committed() -> None:
    partition = opened()
    partition.step(Greeted(1, 5))
    partition.step(RowsCame(1, 0, 10))
    assert partition.step(EndCame(1, 10)) == (WantCheckpoint(),)
    assert partition.step(CommittedSenders(10, finished=False)) == ()
    assert partition.step(CommittedSenders(10, finished=True)) == (Reply(1, IngestAnswer.FINISHED, 10, 10, last=True),)
    assert answers(partition.step(Greeted(2, 9))) == [(2, IngestAnswer.FINISHED, 10)]


def test_a_reset_goes_back_to_the_committed_offset() -> None:
    partition = opened()
    partition.step(Greeted(1, 5))
    partition.step(RowsCame(1, 0, 10))
    partition.step(EndCame(1, 10))
    assert answers(partition.step(Opened(4, finished=False)))[0][1] is IngestAnswer.RETRY
    assert answers(partition.step(Greeted(2, 5))) == [(2, IngestAnswer.TAKEN, 4)]
    assert partition.end is None
    assert partition.step(RowsCame(2, 4, 6))[0] == Take(0)


def test_an_end_before_its_rows_sends_the_sender_back() -> None:
    partition = opened()
    partition.step(Greeted(1, 5))
    assert partition.step(EndCame(1, 3)) == (Reply(1, IngestAnswer.REWIND, 0, 0),)
    assert partition.end is None


def test_a_sender_that_contradicts_itself_is_refused() -> None:
    partition = opened(5)
    partition.step(Greeted(1, 5))
    with pytest.raises(PeerError, match="ends at 3, and 5 rows were taken"):
        partition.step(EndCame(1, 3))
    partition.step(EndCame(1, 5))
    with pytest.raises(PeerError, match="rows beyond 5"):
        partition.step(RowsCame(1, 5, 1))
