"""What an engine reads before a proposed version, and what it can do without."""

import pytest

from penstock.base.errors import StateError
from penstock.contract.ids import BlobName
from penstock.contract.manifest import BlobRef
from penstock.engine.restore import read_base
from penstock.testing.fakes import FakeBlobStore
from penstock.testing.workload import Shape, make_plan

PLAN, _ = make_plan("count", Shape(groups=2))
GONE = BlobRef(BlobName("1-1-a-1.root.json"), "0" * 64, 1)


def test_a_member_prepares_without_a_base_that_is_collected() -> None:
    assert read_base(FakeBlobStore(), GONE, PLAN, joins=False) is None


def test_a_joiner_says_that_its_base_is_gone() -> None:
    with pytest.raises(StateError, match=GONE.name):
        read_base(FakeBlobStore(), GONE, PLAN, joins=True)


def test_a_job_without_a_checkpoint_has_no_base() -> None:
    assert read_base(FakeBlobStore(), None, PLAN, joins=True) is None
