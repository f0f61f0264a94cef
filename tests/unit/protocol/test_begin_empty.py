"""A job that begins without state: what it forgets, what comes first, and what is refused."""

from penstock.base.values import replace
from penstock.contract.control_messages import MembersFile
from penstock.contract.latest import Request, Restore
from penstock.protocol import keeper_core_messages as km
from tests.support.in_memory_control_plane import InMemoryControlPlane, Keeper
from tests.support.running_jobs import OTHER_PLAN, root, running, taken
from tests.support.stub_engine import PLAN

EMPTY = Restore("n1", empty=True, allow_output_replay=True)


def reset_from_nothing(plane: InMemoryControlPlane) -> bool:
    at = plane.latest
    return at.attempt == 2 and (at.epoch, at.root) == (0, None)


def test_a_running_job_begins_without_state_and_lists_its_splits_anew() -> None:
    plane = running(epoch=4)
    before = taken(plane, "Enumerate")
    newest, version = plane.latest.max_epoch, plane.latest.version
    plane.want(restore=EMPTY)
    plane.until(lambda: reset_from_nothing(plane))
    at = plane.latest
    assert (at.max_epoch, at.published_through, at.replayed) == (newest, newest, True)
    assert at.lost_output == ()
    assert at.version > version
    assert taken(plane, "Enumerate") == before + 1
    plane.until(lambda: plane.latest.epoch > 0)
    assert plane.latest.epoch == newest + 1
    plane.run(3.0)
    assert plane.latest.attempt == 2, "once per nonce"


def test_to_begin_without_state_needs_leave_to_repeat_output() -> None:
    plane = running(epoch=2)
    plane.want(restore=Restore("n1", empty=True))
    plane.until(lambda: plane.latest.failure is not None)
    assert "allowOutputReplay accepts that" in (plane.latest.failure or "")
    assert plane.latest.epoch >= 2, "nothing is forgotten"


def test_a_job_that_has_committed_nothing_needs_no_leave() -> None:
    plane = InMemoryControlPlane(0)
    plane.want(workers=2, restore=Restore("n1", empty=True))
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: plane.latest.epoch == 1)
    assert (plane.latest.restored, plane.latest.replayed) == ("n1", False)


def test_a_job_with_other_state_and_other_key_groups_begins_without_state() -> None:
    plane = running(epoch=2)
    plane.want(requests=(Request("r1", "stop"),))
    plane.until(lambda: plane.latest.stopped)
    assert plane.latest.published_through == plane.latest.epoch
    for ordinal in (0, 1):
        plane.kill(ordinal)
    plane.plan = replace(OTHER_PLAN, max_key_groups=PLAN.max_key_groups // 2)
    plane.want(run="run-2", restore=EMPTY)
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: plane.latest.epoch > 2)
    assert root(plane).fingerprint == "plan-2"


def test_committed_output_becomes_visible_before_the_state_is_forgotten() -> None:
    plane = running()
    plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    plane.want(restore=EMPTY)
    plane.run(2.0)
    assert plane.latest.epoch == 2, "its output is not visible"
    plane.engine(1).mute = []
    plane.kill(1)  # the next attempt publishes for it
    plane.run(0.1)
    plane.start(1)
    plane.until(lambda: plane.latest.epoch == 0)
    assert (plane.latest.published_through, plane.latest.lost_output) == (2, ())


def test_a_changed_job_that_owes_output_is_refused_unless_that_is_given_up() -> None:
    plane = running()
    plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    for ordinal in (0, 1):
        plane.kill(ordinal)
    plane.plan = OTHER_PLAN
    plane.want(run="run-2", restore=EMPTY)
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: plane.latest.failure is not None)
    assert "restore.unpublished: Drop" in (plane.latest.failure or "")
    plane.want(run="run-3", restore=replace(EMPTY, nonce="n2", drop_unpublished=True))
    plane.until(lambda: plane.latest.epoch > 2)
    assert plane.latest.lost_output == (2,)


def test_a_damaged_checkpoint_is_no_hindrance_to_begin_without_state() -> None:
    plane = running(epoch=3)
    plane.run(0.5)
    assert plane.latest.root is not None
    del plane.blobs[plane.latest.root.name]
    for ordinal in (0, 1):
        plane.kill(ordinal)
    plane.want(run="run-2", restore=replace(EMPTY, drop_unpublished=True))
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: plane.latest.epoch > 3)


class SlowDisk(InMemoryControlPlane):
    """A control plane in which members files are written when the test allows it."""

    def __init__(self, workers: int) -> None:
        self.slow = False
        self.waiting: list[tuple[Keeper, object]] = []
        super().__init__(workers)

    def _file(self, keeper: Keeper, action: object) -> None:
        if self.slow and isinstance(action, km.WriteBlob):
            self.waiting.append((keeper, action))
        else:
            super()._file(keeper, action)

    def write(self) -> None:
        """Write what waits."""
        self.slow = False
        for keeper, action in self.waiting:
            self._file(keeper, action)


def test_an_admission_that_was_drafted_before_a_restore_is_never_made_after_it() -> None:
    plane = SlowDisk(2)
    plane.until(lambda: plane.latest.epoch == 3 and plane.latest.published_through >= 2)
    plane.run(0.5)
    plane.slow = True
    plane.kill_engine(1)
    plane.until(lambda: bool(plane.waiting))
    plane.want(restore=EMPTY)
    plane.write()
    plane.until(lambda: plane.latest.epoch > 3)
    for swap in (s for s in plane.cas if s.members is not None):
        file = plane.blobs.get(swap.members.name) if swap.members is not None else None
        assert not isinstance(file, MembersFile) or file.attempt == swap.attempt
        assert not isinstance(file, MembersFile) or swap.epoch or file.splits
