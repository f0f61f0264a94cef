"""What the object says of the output of the committed epoch."""

from penstock.base.values import replace
from penstock.contract.codec import encode
from penstock.contract.ids import Epoch, JobUid, SwapId
from penstock.contract.latest import (
    ANY_SINK,
    Latest,
    OutputRestore,
    Restore,
    SinkRestore,
    Unpublished,
    decode_latest,
    encode_latest,
    how_of,
)

DROPPED = (SinkRestore("out", Unpublished.DROP),)
LATEST = Latest(JobUid("job"), SwapId("swap"), epoch=Epoch(7), unpublished=OutputRestore(Epoch(7), DROPPED))


def test_what_a_restore_says_of_output_holds_for_one_epoch() -> None:
    assert LATEST.handling() == DROPPED
    assert replace(LATEST, epoch=Epoch(8)).handling() == ()
    assert Latest(JobUid("job"), SwapId("swap"), epoch=Epoch(7)).handling() == ()
    assert decode_latest(encode_latest(LATEST)) == LATEST


def test_a_record_without_it_can_be_read_by_an_older_version() -> None:
    assert b"unpublished" not in encode(Latest(JobUid("job"), SwapId("swap")))


def test_a_sink_that_is_named_wins_over_all() -> None:
    both = Restore("n", drop_unpublished=True, unpublished=(SinkRestore("out", Unpublished.SKIP),)).handling()
    assert (how_of("out", both), how_of("other", both)) == (Unpublished.SKIP, Unpublished.DROP)
    assert both[-1] == SinkRestore(ANY_SINK, Unpublished.DROP)
    assert how_of("other", DROPPED) is Unpublished.FAIL
