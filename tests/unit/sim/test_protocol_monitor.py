"""The monitor sees each promise at the moment it is broken, and nothing else."""

import pytest

from penstock.base.values import replace
from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import (
    Attempt,
    BlobName,
    ChannelId,
    Epoch,
    JobUid,
    Ordinal,
    StageIndex,
    SwapId,
    TaskId,
    Term,
    Version,
)
from penstock.contract.latest import Latest
from penstock.contract.plan import first_assignment
from penstock.model.elements import Barrier, BarrierKind, Watermark
from sim.cluster.protocol_monitor import ChannelOrder, ProtocolMonitor
from sim.kernel.kernel import Violation
from sim.workload import Shape, make_plan

ONE, TWO = Attempt(1), Attempt(2)
TASK = TaskId(StageIndex(0), Ordinal(0), 0)
CHANNEL = ChannelId(0, TASK, TASK)
PLAN, _ = make_plan("count", Shape(groups=2))
TABLE = first_assignment(PLAN, 1, {StageIndex(0): ()})
NEXT = replace(TABLE, version=Version(2))
AT = replace(Latest(JobUid("job"), SwapId("s")), attempt=ONE, version=Version(1))


def test_a_stream_of_the_same_attempt_only() -> None:
    monitor = ProtocolMonitor()
    monitor.let_in(CHANNEL, ONE, ONE)
    for mine, theirs in ((ONE, TWO), (TWO, ONE)):
        with pytest.raises(Violation, match="let in"):
            monitor.let_in(CHANNEL, mine, theirs)


def test_an_epoch_is_not_aborted_by_the_term_that_commits_it_in_either_order() -> None:
    monitor = ProtocolMonitor()
    monitor.aborted(ONE, Term(1), Epoch(5))
    monitor.committed(ONE, Term(2), Epoch(5))  # the number recurs under a higher term
    monitor.aborted(ONE, Term(1), Epoch(5))  # a late word of the old one
    with pytest.raises(Violation, match="aborts epoch 5"):
        monitor.aborted(ONE, Term(2), Epoch(5))
    monitor.aborted(ONE, Term(2), Epoch(6))
    with pytest.raises(Violation, match="which aborted it"):
        monitor.committed(ONE, Term(2), Epoch(6))


def test_no_task_goes_back_behind_a_committed_version() -> None:
    monitor = ProtocolMonitor()
    monitor.learn(AT, None)
    monitor.goes_on(ONE, Version(1))
    monitor.learn(replace(AT, version=Version(2)), None)
    monitor.goes_on(ONE, Version(2))
    monitor.goes_on(Attempt(0), Version(1))  # an attempt that is over harms nobody
    with pytest.raises(Violation, match="goes on in version 1"):
        monitor.goes_on(ONE, Version(1))


def test_what_is_being_prepared_stays_until_it_is_withdrawn() -> None:
    monitor, name = ProtocolMonitor(), BlobName("1-1-a-1.state")
    monitor.learn(AT, MembersFile(ONE, (), TABLE, NEXT))
    with pytest.raises(Violation, match="is gone while version 2"):
        monitor.missing(ONE, NEXT.version, name)
    monitor.learn(AT, MembersFile(ONE, (), TABLE, None))
    monitor.missing(ONE, NEXT.version, name)


def test_a_barrier_leaves_behind_the_newest_watermark() -> None:
    barrier = Barrier(Term(1), Epoch(1), Version(1), BarrierKind.CHECKPOINT, Epoch(0), 0)
    order = ChannelOrder()
    for element in (Watermark(1), Watermark(2), barrier):
        order.put(element)
    order.sent(Watermark(2))  # 1 was replaced before it left
    order.sent(barrier)
    order.put(Watermark(3))
    order.put(barrier)
    with pytest.raises(Violation, match="overtakes the watermark 3"):
        order.sent(barrier)
