"""Bounded input, stops, savepoints, restores, failures: how a job ends and begins again."""

from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.latest import (
    Answer,
    Request,
)
from penstock.contract.manifest import RootManifest
from penstock.protocol import keeper_core_messages as km
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane, Keeper
from tests.support.running_jobs import root, running, taken


def exhaust(plane: InMemoryControlPlane, *ordinals: int) -> None:
    for ordinal in ordinals:
        plane.engine(ordinal).exhausted = True


# --- The end of bounded input ---------------------------------------------------------------------


def test_a_bounded_job_takes_a_final_epoch_publishes_it_and_finishes() -> None:
    plane = running()
    exhaust(plane, 0, 1)
    plane.until(lambda: plane.latest.finished)
    assert root(plane).kind == "final"
    assert plane.latest.published_through == plane.latest.epoch
    plane.until(lambda: all(k.engine is None for k in plane.keepers.values()))
    plane.run(5.0)
    assert all(k.engine is None for k in plane.keepers.values())


def test_no_final_epoch_while_one_member_has_input_left() -> None:
    plane = running()
    exhaust(plane, 0)
    plane.run(4.0)
    assert root(plane).kind == "checkpoint"


def test_streams_end_only_after_the_last_output_is_visible() -> None:
    plane = running()
    plane.engine(1).mute = ["Commit"]
    exhaust(plane, 0, 1)
    plane.until(lambda: root(plane).kind == "final")
    plane.run(3.0)
    assert taken(plane, "EndStreams") == 0
    assert not plane.latest.finished


def test_finished_is_swapped_only_when_all_streams_have_ended() -> None:
    plane = running()
    plane.engine(1).mute = ["EndStreams"]
    exhaust(plane, 0, 1)
    plane.until(lambda: taken(plane, "EndStreams") == 2)
    plane.run(1.0)
    assert not plane.latest.finished


def test_a_failure_before_finished_restores_and_takes_another_final() -> None:
    plane = running()
    plane.engine(1).mute = ["EndStreams"]
    exhaust(plane, 0, 1)
    plane.until(lambda: taken(plane, "EndStreams") == 2)
    final = plane.latest.epoch
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2)
    plane.run(0.1)
    exhaust(plane, 1)
    plane.until(lambda: plane.latest.finished)
    assert plane.latest.epoch > final
    assert root(plane).kind == "final"


def test_a_new_leader_ends_what_its_predecessor_left_published() -> None:
    plane = running()
    plane.engine(1).mute = ["EndStreams"]
    exhaust(plane, 0, 1)
    plane.until(lambda: taken(plane, "EndStreams") == 2)
    final = plane.latest.epoch
    plane.engine(1).mute = []
    plane.post(plane.leader().ordinal, km.Retire())
    plane.report(1, replace(plane.engine(1).status, ended=True))
    plane.engine(1).status = replace(plane.engine(1).status, ended=True)
    plane.until(lambda: plane.latest.finished)
    assert (plane.latest.epoch, plane.latest.attempt) == (final, 1)


def test_a_final_epoch_with_input_left_in_a_source_is_aborted() -> None:
    plane = running()
    original = plane.engine(1).exhausted
    exhaust(plane, 0, 1)
    plane.engine(1).exhausted = original
    status = replace(plane.engine(1).status, exhausted=True)
    keeper = plane.keepers[1]
    plane.events.append((keeper, "m", km.EngineReported(plane.engine(1).incarnation, status)))
    plane.until(lambda: any("kind=final" in line for line in plane.log), seconds=5.0)
    plane.run(0.2)
    told = [line for line in plane.log if "a source has more to read" in line]
    assert len(told) == 1, "and not again and again"
    assert root(plane).kind == "checkpoint"


def test_what_was_exhausted_under_an_older_table_does_not_count() -> None:
    plane = running()
    plane.start(2)
    plane.engine(1).mute = ["Adopt"]
    plane.want(workers=3)
    plane.until(lambda: plane.latest.version == 2)
    exhaust(plane, 0, 1, 2)
    plane.run(2.0)
    assert root(plane).kind == "rescale"


def test_requests_after_the_end_are_answered_finished() -> None:
    plane = running()
    exhaust(plane, 0, 1)
    plane.until(lambda: plane.latest.finished)
    late = (Request("a", "checkpoint"), Request("b", "stop"), Request("c", "stop", "kept"))
    plane.want(requests=late)
    plane.until(lambda: len(plane.latest.answers) == 3)
    assert plane.latest.answers == (
        Answer("a", False, "the job is finished"),
        Answer("b", True, "the job is finished"),
        Answer("c", False, "the job is finished: savepoint 'kept' was not taken"),
    )


# --- Requests -------------------------------------------------------------------------------------


def test_a_checkpoint_that_was_asked_for_is_answered_once_published() -> None:
    plane = running()
    plane.want(requests=(Request("a", "checkpoint"), Request("b", "checkpoint")))
    plane.until(lambda: len(plane.latest.answers) == 2)
    assert plane.latest.answers[0] == Answer("a", True, "epoch 2 is committed and published", Epoch(2))
    assert plane.latest.published_through == 2


def test_an_aborted_checkpoint_is_answered_with_its_reason() -> None:
    plane = running()
    plane.engine(1).mute = ["Inject"]
    plane.want(requests=(Request("a", "checkpoint"),))
    plane.run(SETTINGS.checkpoint_timeout_s + 1.0)
    assert plane.latest.answers[0] == Answer("a", False, "epoch 2 was aborted: not complete in time")


def test_a_checkpoint_interrupted_by_a_rollback_is_taken_after_it() -> None:
    plane = running()
    plane.engine(1).mute = ["Inject"]
    plane.want(requests=(Request("a", "checkpoint"),))
    plane.run(0.5)
    plane.kill_engine(1)
    plane.until(lambda: bool(plane.latest.answers))
    assert plane.latest.answers[0].ok
    assert plane.latest.attempt == 2


def test_an_unknown_request_is_answered_and_stops_nobody() -> None:
    plane = running()
    plane.want(requests=(Request("a", "checkpiont"), Request("b", "checkpoint")))
    plane.until(lambda: len(plane.latest.answers) == 2)
    assert not plane.latest.answers[0].ok
    assert "known are checkpoint, savepoint, stop" in plane.latest.answers[0].text


def test_an_answer_stays_until_nobody_asks_any_more() -> None:
    plane = running()
    plane.want(requests=(Request("a", "checkpoint"),))
    plane.until(lambda: bool(plane.latest.answers))
    plane.want(requests=(Request("a", "checkpoint"), Request("b", "checkpoint")))
    plane.until(lambda: len(plane.latest.answers) == 2)
    plane.want(requests=(Request("c", "checkpoint"),))
    plane.until(lambda: [a.request for a in plane.latest.answers] == ["c"])


# --- Savepoints and stops -------------------------------------------------------------------------


def test_a_savepoint_is_an_epoch_copied_after_its_publication() -> None:
    plane = running()
    plane.want(requests=(Request("a", "savepoint", "before-upgrade"),))
    plane.until(lambda: bool(plane.latest.answers))
    assert plane.latest.answers[0] == Answer("a", True, "savepoints/before-upgrade", Epoch(2))
    assert [r.savepoint for s in plane.cas for r in s.retained if r.savepoint] == ["a"]
    assert all(r.savepoint is None for r in plane.latest.retained)
    copies = [a for *_, acts in plane.steps for a in acts if isinstance(a, km.CopySavepoint)]
    assert [(c.name, c.request) for c in copies] == [("before-upgrade", "a")]


def test_epochs_go_on_while_a_savepoint_is_copied() -> None:
    plane = Slow(2)
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.want(requests=(Request("a", "savepoint", "s"),))
    plane.until(lambda: plane.latest.epoch >= 8)
    assert any(r.savepoint == "a" for r in plane.latest.retained), "kept while it is copied"
    plane.finish_copies()
    plane.until(lambda: bool(plane.latest.answers))
    plane.until(lambda: len(plane.latest.retained) == SETTINGS.retain)


def test_a_job_does_not_finish_while_a_savepoint_is_copied() -> None:
    plane = Slow(2)
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.want(requests=(Request("a", "savepoint", "s"),))
    plane.until(lambda: bool(plane.__dict__.get("copies")))
    exhaust(plane, 0, 1)
    plane.until(lambda: root(plane).kind == "final")
    plane.run(5.0)
    assert not plane.latest.finished
    plane.finish_copies()
    plane.until(lambda: plane.latest.finished)
    assert plane.latest.answers == (Answer("a", True, "savepoints/s", Epoch(2)),)


class Slow(InMemoryControlPlane):
    """A control plane whose savepoints are complete when the test says so."""

    copies: list[tuple[Keeper, km.CopySavepoint]]

    def _file(self, keeper: Keeper, action: object) -> None:
        if isinstance(action, km.CopySavepoint):
            self.__dict__.setdefault("copies", []).append((keeper, action))
        else:
            super()._file(keeper, action)

    def finish_copies(self) -> None:
        for keeper, action in self.copies:
            done = km.SavepointCopied(action.request, action.folder)
            self.post(keeper.ordinal, done)


def test_a_savepoint_that_cannot_be_copied_is_answered_with_the_reason() -> None:
    plane = Slow(2)
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.want(requests=(Request("a", "stop", "s"),))
    for tries in (1, 2, 3):
        plane.until(lambda n=tries: len(plane.__dict__.get("copies", [])) == n)  # type: ignore[misc]
        folder = plane.copies[-1][1].folder
        plane.post(0, km.SavepointNotCopied("a", folder, "s is already another savepoint"))
    plane.until(lambda: bool(plane.latest.answers))
    text = "it was not copied: s is already another savepoint"
    assert plane.latest.answers[0] == Answer("a", False, text, Epoch(2))
    assert not plane.latest.stopped
    plane.until(lambda: plane.latest.epoch >= 4)


def test_a_savepoint_outlives_its_leader() -> None:
    plane = Slow(2)
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.want(requests=(Request("a", "savepoint", "s"),))
    plane.until(lambda: bool(plane.__dict__.get("copies")))
    epoch = next(r.epoch for r in plane.latest.retained if r.savepoint == "a")
    plane.post(plane.leader().ordinal, km.Retire())
    plane.until(lambda: len(plane.copies) == 2)
    plane.finish_copies()
    plane.until(lambda: bool(plane.latest.answers))
    kinds = [r.kind for r in plane.blobs.values() if isinstance(r, RootManifest)]
    assert kinds.count("savepoint") <= 1
    assert epoch <= plane.latest.epoch


def test_a_stop_never_takes_a_final_epoch() -> None:
    plane = running(epoch=2)
    plane.want(requests=(Request("a", "stop"),))
    plane.until(lambda: plane.latest.stopped)
    assert root(plane).kind == "checkpoint"
    assert heard_all(plane, "EndStreams") == 0
    assert plane.latest.answers[0].ok
    plane.until(lambda: all(k.engine is None for k in plane.keepers.values()))


def heard_all(plane: InMemoryControlPlane, kind: str) -> int:
    return sum(
        1
        for *_, actions in plane.steps
        for a in actions
        if isinstance(a, km.ToEngine) and type(a.command).__name__ == kind
    )


def test_a_stop_with_a_savepoint_starts_no_later_epoch() -> None:
    plane = Slow(2)
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.want(requests=(Request("a", "stop", "s"),))
    plane.until(lambda: bool(plane.__dict__.get("copies")))
    saved = plane.latest.epoch
    plane.run(4.0)
    assert plane.latest.epoch == saved
    plane.finish_copies()
    plane.until(lambda: plane.latest.stopped)
    assert plane.latest.answers[0] == Answer("a", True, "savepoints/s", saved)


def test_a_stop_waits_a_while_for_output_and_then_stops_all_the_same() -> None:
    plane = running()
    plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    plane.want(requests=(Request("a", "stop"),))
    plane.run(SETTINGS.ready_timeout_s - 1.0)
    assert not plane.latest.stopped
    plane.until(lambda: plane.latest.stopped)
    assert "the next run publishes it" in plane.latest.answers[0].text
    assert plane.latest.published_through == 1


def test_a_new_run_goes_on_from_where_the_last_stopped() -> None:
    plane = running(epoch=2)
    plane.want(requests=(Request("a", "stop"),))
    plane.until(lambda: plane.latest.stopped)
    epoch = plane.latest.epoch
    plane.want(requests=(), run="run-2")
    plane.until(lambda: plane.latest.epoch > epoch)
    assert not plane.latest.stopped
    assert (plane.latest.attempt, plane.latest.run) == (2, "run-2")


def test_the_same_run_stays_stopped() -> None:
    plane = running(epoch=2)
    plane.want(requests=(Request("a", "stop"),))
    plane.until(lambda: plane.latest.stopped)
    plane.want(requests=())
    plane.run(5.0)
    assert plane.latest.stopped
