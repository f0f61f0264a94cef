import threading

import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.base.limits import LAST_CHECKPOINT_WAIT_S
from penstock.base.values import replace
from penstock.contract.balance import Balance, StepBalance
from penstock.contract.codec import ABSENT, decode
from penstock.contract.ids import JobUid, Version
from penstock.contract.latest import Answer, Desired, Latest, Restore, encode_latest, overriding
from penstock.contract.pod import desired_name, latest_name
from penstock.contract.schemes import RefusedScheme, SchemeChoice
from penstock.ports import SwapUnknown
from penstock.supervisor.job_objects import JobObjects
from tests.support.fakes import FakeMetaStore


@pytest.fixture
def store() -> FakeMetaStore:
    return FakeMetaStore()


@pytest.fixture
def wanted(store: FakeMetaStore) -> JobObjects:
    wanted = JobObjects(store, "words", JobUid("uid"))
    wanted.begin(2, None)
    return wanted


def lead(store: FakeMetaStore, wanted: JobObjects, **changes: object) -> None:
    """Do what a leader does: swap -latest."""
    found = store.get(latest_name("words"))
    assert found is not None
    latest = replace(wanted.latest(), **changes)  # type: ignore[arg-type]
    store.swap(latest_name("words"), encode_latest(latest), found.version)


def test_the_first_run_makes_latest_and_later_ones_keep_it(store: FakeMetaStore, wanted: JobObjects) -> None:
    first_run = wanted.desired().run
    wanted.ask("checkpoint", None)
    lead(store, wanted, version=Version(7))
    wanted.begin(3, Restore("nonce"))
    assert wanted.latest().version == 7
    desired = wanted.desired()
    assert (desired.workers, desired.requests, desired.restore) == (3, (), Restore("nonce"))
    assert desired.run != first_run


def test_a_restore_of_the_file_is_not_done_again_behind_one_by_option(store: FakeMetaStore, wanted: JobObjects) -> None:
    done = overriding("a", Restore("of-the-file"))
    lead(store, wanted, restored=done)
    wanted.begin(2, Restore("of-the-file", empty=True))
    assert wanted.desired().restore == Restore(done, empty=True)
    wanted.begin(2, Restore("another"))
    assert wanted.desired().restore == Restore("another")


def test_a_request_is_taken_away_once_answered(store: FakeMetaStore, wanted: JobObjects) -> None:
    asked = wanted.ask("savepoint", "monday")
    assert wanted.answer(asked.id).ok is None
    lead(store, wanted, answers=(Answer(asked.id, True, "savepoints/monday"),))
    answer = wanted.answer(asked.id)
    assert (answer.ok, answer.kind, answer.text) == (True, "savepoint", "savepoints/monday")
    assert wanted.desired().requests == ()
    lead(store, wanted, answers=())
    assert wanted.answer(asked.id) == answer
    assert wanted.answers() == (answer,)


def test_requests_of_several_threads_are_all_kept(store: FakeMetaStore, wanted: JobObjects) -> None:
    threads = [threading.Thread(target=wanted.ask, args=("checkpoint", None)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.get(desired_name("words"))
    assert found is not None
    assert len(decode(Desired, found.data).requests) == 8


def test_a_rescale_is_answered_when_it_has_settled(store: FakeMetaStore, wanted: JobObjects) -> None:
    asked = wanted.rescale(3)
    assert asked.ok is None
    lead(store, wanted, workers=3, version=Version(2), settled=Version(1))
    assert wanted.answer(asked.id).ok is None
    lead(store, wanted, settled=Version(2))
    assert wanted.answer(asked.id).ok is True


def test_a_rescale_may_be_overtaken_or_outlived(store: FakeMetaStore, wanted: JobObjects) -> None:
    asked = wanted.rescale(3)
    wanted.rescale(4)
    answer = wanted.answer(asked.id)
    assert (answer.ok, answer.text) == (False, "overtaken by a request for 4 workers")
    asked = wanted.rescale(2)
    lead(store, wanted, finished=True)
    assert (wanted.answer(asked.id).ok, wanted.answer(asked.id).text) == (
        False,
        "the job has ended",
    )


HOT, EVEN, COLD = (SchemeChoice("work", use) for use in ("hot", "even", "cold"))


def test_a_scheme_is_answered_when_it_holds_and_all_is_settled(store: FakeMetaStore, wanted: JobObjects) -> None:
    asked = wanted.partition((HOT,))
    assert wanted.desired().partition == (HOT,)
    lead(store, wanted, schemes=(HOT,), version=Version(2), settled=Version(1))
    assert wanted.answer(asked.id).ok is None
    lead(store, wanted, settled=Version(2))
    answer = wanted.answer(asked.id)
    assert (answer.ok, answer.kind, answer.text) == (True, "partition", "rows go to work by hot")
    wanted.partition((EVEN,))
    assert wanted.answer(asked.id).text == "overtaken by a request for work by even"


def test_a_refused_scheme_is_told_and_what_holds_stays_wanted(store: FakeMetaStore, wanted: JobObjects) -> None:
    lead(store, wanted, schemes=(HOT,))
    asked = wanted.partition((COLD, SchemeChoice("nobody", "x")))
    refused = (RefusedScheme("work", "cold", "no cold"), RefusedScheme("nobody", "x", "no nobody"))
    lead(store, wanted, refused=refused)
    answer = wanted.answer(asked.id)
    assert (answer.ok, answer.text) == (False, "no cold\nno nobody")
    assert wanted.desired().partition == (HOT,)
    assert wanted.answer(wanted.partition((COLD,)).id).ok is False  # the leader still says so
    assert wanted.desired().partition == (HOT,)


def test_a_request_to_balance_is_answered_when_groups_have_moved_or_none_would(
    store: FakeMetaStore, wanted: JobObjects
) -> None:
    asked = wanted.rebalance()
    assert (wanted.desired().rebalance, asked.ok) == (1, None)
    moved = Balance(1, (StepBalance("count", 2, 10, 8, 5),))
    lead(store, wanted, balance=moved, version=Version(2), settled=Version(1))
    assert wanted.answer(asked.id).ok is None
    lead(store, wanted, settled=Version(2))
    answer = wanted.answer(asked.id)
    assert (answer.ok, answer.kind, answer.text) == (True, "rebalance", str(moved))
    second, third = wanted.rebalance(), wanted.rebalance()
    assert wanted.answer(second.id).text == "overtaken by another request to balance"
    lead(store, wanted, balance=Balance(3), version=Version(3))
    assert wanted.answer(third.id).ok
    wanted.begin(2, None)
    assert wanted.desired().rebalance is ABSENT
    wanted.rebalance()
    assert wanted.desired().rebalance == 4  # the number of an answer is never used again


def test_a_scheme_of_the_file_is_wanted_from_the_beginning(store: FakeMetaStore, wanted: JobObjects) -> None:
    assert wanted.desired().partition is ABSENT
    wanted.begin(2, None, (HOT,))
    assert wanted.desired().partition == (HOT,)


def test_what_is_not_known_is_said(wanted: JobObjects) -> None:
    with pytest.raises(ConfigError, match="no request 'x' is known"):
        wanted.answer("x")
    with pytest.raises(ConfigError, match="one of checkpoint, savepoint, stop"):
        wanted.ask("sleep", None)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-x", "a" * 64, "a b", "ü"])
def test_a_savepoints_name_is_a_folders(wanted: JobObjects, name: str) -> None:
    with pytest.raises(ConfigError, match=r"savepoint .*: a name is letters"):
        wanted.ask("savepoint", name)
    wanted.ask("stop", "monday-1.2_x")


def test_a_stop_follows_the_answer_of_a_last_checkpoint(store: FakeMetaStore, wanted: JobObjects) -> None:
    asked = wanted.ask("stop", None)
    (checkpoint,) = wanted.desired().requests
    assert checkpoint.kind == "checkpoint"
    assert wanted.answer(asked.id).ok is None
    wanted.stop_when_due(100.0)
    assert wanted.desired().requests == (checkpoint,)
    lead(store, wanted, answers=(Answer(checkpoint.id, False, "no space left"),))
    wanted.collect()
    wanted.stop_when_due(100.1)
    (stop,) = wanted.desired().requests
    assert (stop.id, stop.kind, stop.argument) == (asked.id, "stop", None)
    wanted.stop_when_due(200.0)
    assert wanted.desired().requests == (stop,)


def test_a_stop_waits_for_its_checkpoint_but_not_for_long(wanted: JobObjects) -> None:
    asked = wanted.ask("stop", None)
    wanted.stop_when_due(100.0)
    wanted.stop_when_due(100.0 + LAST_CHECKPOINT_WAIT_S - 0.1)
    assert [r.kind for r in wanted.desired().requests] == ["checkpoint"]
    wanted.stop_when_due(100.0 + LAST_CHECKPOINT_WAIT_S)
    assert wanted.desired().requests[-1].id == asked.id


@pytest.mark.parametrize(
    ("taken", "says"),
    [
        (True, "stopped at epoch 7"),
        (
            None,
            "stopped at epoch 7; no checkpoint was committed within 10 s: what was read after that epoch is rolled"
            " back, and the next run reads it again",
        ),
        (
            False,
            "stopped at epoch 7; its last checkpoint was not committed (no space left): what was read after that epoch"
            " is rolled back, and the next run reads it again",
        ),
    ],
)
def test_a_stop_says_that_it_had_to_do_without_a_last_checkpoint(
    store: FakeMetaStore, wanted: JobObjects, taken: bool | None, says: str
) -> None:
    asked = wanted.ask("stop", None)
    (checkpoint,) = wanted.desired().requests
    before = () if taken is None else (Answer(checkpoint.id, taken, "" if taken else "no space left"),)
    lead(store, wanted, answers=before)
    wanted.collect()
    wanted.stop_when_due(100.0)
    wanted.stop_when_due(100.0 + LAST_CHECKPOINT_WAIT_S)
    lead(store, wanted, stopped=True, answers=(*before, Answer(asked.id, True, "stopped at epoch 7")))
    assert wanted.answer(asked.id).text == says


def test_a_stop_that_cannot_be_written_is_tried_again(
    store: FakeMetaStore, wanted: JobObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SwapUnknown("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "swap", full)
        with pytest.raises(StorageError, match="the disk is full"):
            wanted.ask("stop", None)
        wanted.stop_when_due(1.0)
        with pytest.raises(StorageError, match="the disk is full"):
            wanted.stop_when_due(1.0 + LAST_CHECKPOINT_WAIT_S)
    wanted.stop_when_due(2.0 + LAST_CHECKPOINT_WAIT_S)
    assert [r.kind for r in wanted.desired().requests] == ["stop"]


def test_a_job_that_has_ended_takes_no_checkpoint_to_stop(store: FakeMetaStore, wanted: JobObjects) -> None:
    lead(store, wanted, finished=True)
    asked = wanted.ask("stop", None)
    assert [r.id for r in wanted.desired().requests] == [asked.id]


def test_the_end_waits_for_readers_but_not_for_long(store: FakeMetaStore, wanted: JobObjects) -> None:
    asked = wanted.ask("checkpoint", None)
    wanted.wait_for_readers(30)
    wanted.expect_reader(asked.id)
    wanted.wait_for_readers(0.01)
    lead(store, wanted, answers=(Answer(asked.id, True, "stopped"),))
    thread = threading.Thread(target=wanted.wait_for_readers, args=(30,))
    thread.start()
    assert wanted.answer(asked.id).ok is True
    thread.join(10)
    assert not thread.is_alive()


def test_latest_is_this_jobs(wanted: JobObjects) -> None:
    assert wanted.latest() == Latest(JobUid("uid"), wanted.latest().swap_id)
