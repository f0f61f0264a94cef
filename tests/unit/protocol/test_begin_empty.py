"""To begin without state: what is forgotten, what comes first, and what is refused."""

from penstock.base.values import replace
from penstock.contract.control import MembersFile
from penstock.contract.latest import Request, Restore
from penstock.protocol import control_actions as do
from tests.support.in_memory_control_plane import InMemoryControlPlane, Keeper
from tests.support.running_jobs import OTHER_PLAN, heard, root, running
from tests.support.stub_engine import PLAN

EMPTY = Restore("n1", empty=True, allow_output_replay=True)


def reset_from_nothing(town: InMemoryControlPlane) -> bool:
    at = town.latest
    return at.attempt == 2 and (at.epoch, at.root) == (0, None)


def test_a_running_job_begins_without_state_and_lists_its_splits_anew() -> None:
    town = running(epoch=4)
    before = heard(town, "Enumerate")
    newest, version = town.latest.max_epoch, town.latest.version
    town.want(restore=EMPTY)
    town.until(lambda: reset_from_nothing(town))
    at = town.latest
    assert (at.max_epoch, at.published_through, at.replayed) == (newest, newest, True)
    assert at.lost_output == ()
    assert at.version > version
    assert heard(town, "Enumerate") == before + 1
    town.until(lambda: town.latest.epoch > 0)
    assert town.latest.epoch == newest + 1
    town.run(3.0)
    assert town.latest.attempt == 2, "once per nonce"


def test_to_begin_without_state_needs_leave_to_repeat_output() -> None:
    town = running(epoch=2)
    town.want(restore=Restore("n1", empty=True))
    town.until(lambda: town.latest.failure is not None)
    assert "allowOutputReplay accepts that" in (town.latest.failure or "")
    assert town.latest.epoch >= 2, "nothing is forgotten"


def test_a_job_that_has_committed_nothing_needs_no_leave() -> None:
    town = InMemoryControlPlane(0)
    town.want(workers=2, restore=Restore("n1", empty=True))
    for ordinal in (0, 1):
        town.start(ordinal)
    town.until(lambda: town.latest.epoch == 1)
    assert (town.latest.restored, town.latest.replayed) == ("n1", False)


def test_a_job_with_other_state_and_other_key_groups_begins_without_state() -> None:
    town = running(epoch=2)
    town.want(requests=(Request("r1", "stop"),))
    town.until(lambda: town.latest.stopped)
    assert town.latest.published_through == town.latest.epoch
    for ordinal in (0, 1):
        town.kill(ordinal)
    town.plan = replace(OTHER_PLAN, max_key_groups=PLAN.max_key_groups // 2)
    town.want(run="run-2", restore=EMPTY)
    for ordinal in (0, 1):
        town.start(ordinal)
    town.until(lambda: town.latest.epoch > 2)
    assert root(town).fingerprint == "plan-2"


def test_committed_output_becomes_visible_before_the_state_is_forgotten() -> None:
    town = running()
    town.engine(1).mute = ["Commit"]
    town.until(lambda: town.latest.epoch == 2)
    town.want(restore=EMPTY)
    town.run(2.0)
    assert town.latest.epoch == 2, "its output is not visible"
    town.engine(1).mute = []
    town.kill(1)  # the next attempt publishes for it
    town.run(0.1)
    town.start(1)
    town.until(lambda: town.latest.epoch == 0)
    assert (town.latest.published_through, town.latest.lost_output) == (2, ())


def test_a_changed_job_that_owes_output_is_refused_unless_that_is_given_up() -> None:
    town = running()
    town.engine(1).mute = ["Commit"]
    town.until(lambda: town.latest.epoch == 2)
    for ordinal in (0, 1):
        town.kill(ordinal)
    town.plan = OTHER_PLAN
    town.want(run="run-2", restore=EMPTY)
    for ordinal in (0, 1):
        town.start(ordinal)
    town.until(lambda: town.latest.failure is not None)
    assert "restore.unpublished: Drop" in (town.latest.failure or "")
    town.want(run="run-3", restore=replace(EMPTY, nonce="n2", drop_unpublished=True))
    town.until(lambda: town.latest.epoch > 2)
    assert town.latest.lost_output == (2,)


def test_a_damaged_checkpoint_is_no_hindrance_to_begin_without_state() -> None:
    town = running(epoch=3)
    town.run(0.5)
    assert town.latest.root is not None
    del town.blobs[town.latest.root.name]
    for ordinal in (0, 1):
        town.kill(ordinal)
    town.want(run="run-2", restore=replace(EMPTY, drop_unpublished=True))
    for ordinal in (0, 1):
        town.start(ordinal)
    town.until(lambda: town.latest.epoch > 3)


class SlowDisk(InMemoryControlPlane):
    """A town in which members files are written when the test lets them."""

    def __init__(self, workers: int) -> None:
        self.slow = False
        self.waiting: list[tuple[Keeper, object]] = []
        super().__init__(workers)

    def _file(self, keeper: Keeper, action: object) -> None:
        if self.slow and isinstance(action, do.WriteBlob):
            self.waiting.append((keeper, action))
        else:
            super()._file(keeper, action)

    def write(self) -> None:
        """Write what waits."""
        self.slow = False
        for keeper, action in self.waiting:
            self._file(keeper, action)


def test_an_admission_that_was_drafted_before_a_restore_is_never_made_after_it() -> None:
    town = SlowDisk(2)
    town.until(lambda: town.latest.epoch == 3 and town.latest.published_through >= 2)
    town.run(0.5)
    town.slow = True
    town.kill_engine(1)
    town.until(lambda: bool(town.waiting))
    town.want(restore=EMPTY)
    town.write()
    town.until(lambda: town.latest.epoch > 3)
    for swap in (s for s in town.cas if s.members is not None):
        file = town.blobs.get(swap.members.name) if swap.members is not None else None
        assert not isinstance(file, MembersFile) or file.attempt == swap.attempt
        assert not isinstance(file, MembersFile) or swap.epoch or file.splits
