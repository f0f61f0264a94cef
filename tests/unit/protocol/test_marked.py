"""What a marker says about output that may be visible already."""

import pytest

from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.latest import Unpublished
from penstock.protocol.marked import OutputMarker, Wanted, visible_blocks

WANTED = Wanted(Epoch(7), "digest", 3, Epoch(4))


def visible(marker: OutputMarker | None) -> int:
    return visible_blocks(marker, WANTED, "topic t")


@pytest.mark.parametrize("epoch", [4, 5, 6])
def test_a_marker_below_the_epoch_says_that_nothing_is_visible(epoch: int) -> None:
    assert visible(OutputMarker(Epoch(epoch), "other", 9)) == 0


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_marker_of_the_epoch_says_how_many_blocks_are_visible(blocks: int) -> None:
    assert visible(OutputMarker(Epoch(7), "digest", blocks)) == blocks


@pytest.mark.parametrize("marker", [None, OutputMarker(Epoch(3), "digest", 3), OutputMarker(Epoch(0), "seed", 0)])
def test_a_marker_that_was_lost_stops_the_job(marker: OutputMarker | None) -> None:
    with pytest.raises(StateError, match=r"topic t: its marker was at epoch 4, and now .* whether epoch 7 .*Drop"):
        visible(marker)


@pytest.mark.parametrize("marker", [OutputMarker(Epoch(7), "other", 3), OutputMarker(Epoch(8), "digest", 3)])
def test_a_marker_of_another_line_of_epochs_stops_the_job(marker: OutputMarker) -> None:
    remedy = r"give restore.unpublishedSinks: \{SINK: Drop\}" if marker.epoch == 7 else "let the job write to another"
    with pytest.raises(StateError, match=rf"topic t: its marker says epoch .*restore the newest state, or {remedy}"):
        visible(marker)


LOST = [None, OutputMarker(Epoch(3), "digest", 3), OutputMarker(Epoch(0), "seed", 0)]
KNOWN = [(OutputMarker(Epoch(4), "other", 9), 0), (OutputMarker(Epoch(7), "digest", 2), 2)]
OTHER = OutputMarker(Epoch(7), "other", 3)
AHEAD = OutputMarker(Epoch(8), "digest", 3)


def restored(marker: OutputMarker | None, how: Unpublished) -> int:
    return visible_blocks(marker, replace(WANTED, how=how), "topic t")


@pytest.mark.parametrize("marker", LOST)
def test_publish_takes_a_lost_marker_as_nothing_visible_and_skip_does_not(marker: OutputMarker | None) -> None:
    assert restored(marker, Unpublished.PUBLISH) == 0
    with pytest.raises(StateError, match="now"):
        restored(marker, Unpublished.SKIP)


@pytest.mark.parametrize("how", [Unpublished.PUBLISH, Unpublished.SKIP])
@pytest.mark.parametrize(("marker", "blocks"), KNOWN)
def test_a_marker_that_is_known_counts_in_a_restore_too(marker: OutputMarker, blocks: int, how: Unpublished) -> None:
    assert restored(marker, how) == blocks
    for other in (OTHER, AHEAD):
        with pytest.raises(StateError, match="restore the newest state"):
            restored(other, how)


@pytest.mark.parametrize("marker", [*LOST, *(marker for marker, _ in KNOWN), OTHER])
def test_nothing_of_dropped_output_is_left_to_be_written_but_the_marker(marker: OutputMarker | None) -> None:
    assert restored(marker, Unpublished.DROP) == 3
    assert visible(replace(WANTED, how=Unpublished.DROP).marker) == 3, "a publisher that comes late finds it done"


def test_an_order_to_drop_that_comes_late_does_not_set_the_marker_back() -> None:
    with pytest.raises(StateError, match="restore the newest state, or let the job write to another place"):
        restored(AHEAD, Unpublished.DROP)
