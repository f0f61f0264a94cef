"""What a marker says about output that may be visible already."""

import pytest

from penstock.base.errors import StateError
from penstock.contract.ids import Epoch
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
    with pytest.raises(StateError, match=r"topic t: its marker says epoch .*restore the newest state, or .*Drop"):
        visible(marker)
