"""The splits of a job are bounded where they are listed, in number and in bytes."""

import pytest

from penstock.base.errors import ConfigError
from penstock.base.limits import CONTROL_MESSAGE_BYTES_MAX, SPLITS_BYTES_MAX, SPLITS_MAX
from penstock.cluster.link import framed
from penstock.connectors.parquet_source import FileIdentity
from penstock.contract.control_messages import Splits, StageSplits
from penstock.contract.ids import Attempt, SplitId, StageIndex
from penstock.contract.manifest import SplitState
from penstock.engine.build import check_splits

NAMES = {StageIndex(0): "lines", StageIndex(2): "words"}


def splits_of(stage: int, count: int, spec: str) -> StageSplits:
    made = (SplitState(SplitId(f"part-{n:05d}.parquet"), spec, 0) for n in range(count))
    return StageSplits(StageIndex(stage), tuple(made))


def test_as_many_files_as_are_allowed_fit_a_message() -> None:
    spec = FileIdentity("part-00000-0b1c.parquet", 12_345_678_901, 1_234_567_890, "0" * 32)
    found = (splits_of(0, SPLITS_MAX, spec.as_json()),)
    check_splits(found, NAMES)
    head, body = framed(Splits(Attempt(1), found, "f" * 64))
    assert len(head) + len(body) < CONTROL_MESSAGE_BYTES_MAX


def test_more_splits_are_refused_with_the_source_that_has_most() -> None:
    found = (splits_of(0, SPLITS_MAX, "{}"), splits_of(2, 1, "{}"))
    with pytest.raises(ConfigError, match=r"'lines' has 40,000 splits .* may have 40,000 in all"):
        check_splits(found, NAMES)
    check_splits((splits_of(2, 1, "{}"),), NAMES)
    check_splits((), {})


def test_descriptions_that_do_not_fit_are_refused() -> None:
    found = (splits_of(0, 2, "x" * (SPLITS_BYTES_MAX // 2)),)
    with pytest.raises(ConfigError, match=f"'lines' .*{SPLITS_BYTES_MAX:,} are possible in all"):
        check_splits(found, NAMES)
