"""The recorder notices a store that lies to its callers."""

from functools import partial
from itertools import count

import pytest

from penstock.base.values import replace
from penstock.contract.ids import Epoch, JobUid, SwapId
from penstock.contract.latest import Latest
from sim.checks.call_recorder import LEASE, CallRecorder
from sim.cluster.services import Disk, StoredFile
from sim.kernel.calls import Call, MetaGet, MetaSwap, Op, PublishFile, Reply, WriteLease
from sim.kernel.faults import Verdict
from sim.kernel.kernel import Violation

NAME = "latest"
FIRST = Latest(JobUid("job"), SwapId("first"), max_epoch=Epoch(5))
SECOND = replace(FIRST, swap_id=SwapId("second"), max_epoch=Epoch(6))


@pytest.fixture
def recorder() -> CallRecorder:
    made = CallRecorder(partial(next, count()), NAME)
    made.begin(NAME, "v1", FIRST.swap_id)
    made.begin(LEASE, "l1", None)
    return made


def call(recorder: CallRecorder, op: Op, value: object = None, error: str = "") -> None:
    token = object()
    recorder.sent(Call("k0.1", 1, token, op, Verdict.DONE))
    recorder.delivered(Reply(token, op, value, error))


def test_what_a_right_store_says_is_accepted(recorder: CallRecorder) -> None:
    call(recorder, MetaGet(NAME), StoredFile(FIRST, "v1"))
    call(recorder, MetaSwap(NAME, SECOND, "v1"), StoredFile(SECOND, "v2"))
    call(recorder, MetaSwap(NAME, FIRST, "v1"), error="conflict")
    call(recorder, WriteLease("k0", "l1"), ("k0", "l2"))
    recorder.check()


def test_a_version_that_is_replaced_twice_is_noticed(recorder: CallRecorder) -> None:
    call(recorder, MetaSwap(NAME, SECOND, "v1"), StoredFile(SECOND, "v2"))
    call(recorder, MetaSwap(NAME, SECOND, "v1"), StoredFile(SECOND, "v3"))
    with pytest.raises(Violation, match="no order of the calls to latest"):
        recorder.check()


def test_two_holders_of_one_lease_are_noticed(recorder: CallRecorder) -> None:
    call(recorder, WriteLease("k0", "l1"), ("k0", "l2"))
    call(recorder, WriteLease("k1", "l1"), ("k1", "l3"))
    with pytest.raises(Violation, match="no order of the calls to lease"):
        recorder.check()


def test_a_stale_read_is_noticed(recorder: CallRecorder) -> None:
    call(recorder, MetaSwap(NAME, SECOND, "v1"), StoredFile(SECOND, "v2"))
    call(recorder, MetaGet(NAME), StoredFile(FIRST, "v1"))
    with pytest.raises(Violation, match="no order of the calls to latest"):
        recorder.check()


def test_an_epoch_that_goes_back_is_noticed(recorder: CallRecorder) -> None:
    call(recorder, MetaSwap(NAME, SECOND, "v1"), StoredFile(SECOND, "v2"))
    back = replace(FIRST, swap_id=SwapId("third"))
    call(recorder, MetaSwap(NAME, back, "v2"), StoredFile(back, "v3"))
    with pytest.raises(Violation, match="the newest epoch ever goes back from 6 to 5"):
        recorder.check()


def test_a_swap_without_a_reply_explains_what_others_read(recorder: CallRecorder) -> None:
    recorder.sent(Call("k0.1", 1, object(), MetaSwap(NAME, SECOND, "v1"), Verdict.UNKNOWN))
    call(recorder, MetaGet(NAME), StoredFile(SECOND, "v2"))
    recorder.check()


def test_output_that_was_reported_and_is_not_there_is_noticed(recorder: CallRecorder) -> None:
    call(recorder, PublishFile("staged", "target", ("row",)))
    recorder.check_publications(Disk(visible={"target": ("row",)}))
    with pytest.raises(Violation, match="target was reported as published"):
        recorder.check_publications(Disk())
