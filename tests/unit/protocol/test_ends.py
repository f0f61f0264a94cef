"""Bounded input, stops, savepoints, restores, failures: how a job ends and begins again."""

from penstock.base.values import replace
from penstock.contract.latest import (
    Answer,
    Request,
)
from penstock.contract.manifest import RootManifest
from penstock.protocol import control_actions as do
from penstock.protocol import control_events as on
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane, Keeper
from tests.support.running_jobs import heard, root, running


def exhaust(town: InMemoryControlPlane, *ordinals: int) -> None:
    for ordinal in ordinals:
        town.engine(ordinal).exhausted = True


# --- The end of bounded input ---------------------------------------------------------------------


def test_a_bounded_job_takes_a_final_epoch_publishes_it_and_finishes() -> None:
    town = running()
    exhaust(town, 0, 1)
    town.until(lambda: town.latest.finished)
    assert root(town).kind == "final"
    assert town.latest.published_through == town.latest.epoch
    town.until(lambda: all(k.engine is None for k in town.keepers.values()))
    town.run(5.0)
    assert all(k.engine is None for k in town.keepers.values())


def test_no_final_epoch_while_one_member_has_input_left() -> None:
    town = running()
    exhaust(town, 0)
    town.run(4.0)
    assert root(town).kind == "checkpoint"


def test_streams_end_only_after_the_last_output_is_visible() -> None:
    town = running()
    town.engine(1).mute = ["Commit"]
    exhaust(town, 0, 1)
    town.until(lambda: root(town).kind == "final")
    town.run(3.0)
    assert heard(town, "EndStreams") == 0
    assert not town.latest.finished


def test_finished_is_swapped_only_when_all_streams_have_ended() -> None:
    town = running()
    town.engine(1).mute = ["EndStreams"]
    exhaust(town, 0, 1)
    town.until(lambda: heard(town, "EndStreams") == 2)
    town.run(1.0)
    assert not town.latest.finished


def test_a_failure_before_finished_restores_and_takes_another_final() -> None:
    town = running()
    town.engine(1).mute = ["EndStreams"]
    exhaust(town, 0, 1)
    town.until(lambda: heard(town, "EndStreams") == 2)
    final = town.latest.epoch
    town.kill_engine(1)
    town.until(lambda: town.latest.attempt == 2)
    town.run(0.1)
    exhaust(town, 1)
    town.until(lambda: town.latest.finished)
    assert town.latest.epoch > final
    assert root(town).kind == "final"


def test_a_new_leader_ends_what_its_predecessor_left_published() -> None:
    town = running()
    town.engine(1).mute = ["EndStreams"]
    exhaust(town, 0, 1)
    town.until(lambda: heard(town, "EndStreams") == 2)
    final = town.latest.epoch
    town.engine(1).mute = []
    town.post(town.leader().ordinal, on.Retire())
    town.say(1, replace(town.engine(1).status, ended=True))
    town.engine(1).status = replace(town.engine(1).status, ended=True)
    town.until(lambda: town.latest.finished)
    assert (town.latest.epoch, town.latest.attempt) == (final, 1)


def test_a_final_epoch_with_input_left_in_a_source_is_aborted() -> None:
    town = running()
    original = town.engine(1).exhausted
    exhaust(town, 0, 1)
    town.engine(1).exhausted = original
    status = replace(town.engine(1).status, exhausted=True)
    keeper = town.keepers[1]
    town.events.append((keeper, "m", on.EngineSaid(town.engine(1).incarnation, status)))
    town.until(lambda: any("kind=final" in line for line in town.log), seconds=5.0)
    town.run(0.2)
    told = [line for line in town.log if "a source has more to read" in line]
    assert len(told) == 1, "and not again and again"
    assert root(town).kind == "checkpoint"


def test_what_was_exhausted_under_an_older_table_does_not_count() -> None:
    town = running()
    town.start(2)
    town.engine(1).mute = ["Adopt"]
    town.want(workers=3)
    town.until(lambda: town.latest.version == 2)
    exhaust(town, 0, 1, 2)
    town.run(2.0)
    assert root(town).kind == "rescale"


def test_requests_after_the_end_are_answered_finished() -> None:
    town = running()
    exhaust(town, 0, 1)
    town.until(lambda: town.latest.finished)
    late = (Request("a", "checkpoint"), Request("b", "stop"), Request("c", "stop", "kept"))
    town.want(requests=late)
    town.until(lambda: len(town.latest.answers) == 3)
    assert town.latest.answers == (
        Answer("a", False, "the job is finished"),
        Answer("b", True, "the job is finished"),
        Answer("c", False, "the job is finished: savepoint 'kept' was not taken"),
    )


# --- Requests -------------------------------------------------------------------------------------


def test_a_checkpoint_that_was_asked_for_is_answered_once_published() -> None:
    town = running()
    town.want(requests=(Request("a", "checkpoint"), Request("b", "checkpoint")))
    town.until(lambda: len(town.latest.answers) == 2)
    assert town.latest.answers[0] == Answer("a", True, "epoch 2 is committed and published")
    assert town.latest.published_through == 2


def test_an_aborted_checkpoint_is_answered_with_its_reason() -> None:
    town = running()
    town.engine(1).mute = ["Inject"]
    town.want(requests=(Request("a", "checkpoint"),))
    town.run(SETTINGS.checkpoint_timeout_s + 1.0)
    assert town.latest.answers[0] == Answer("a", False, "epoch 2 was aborted: not complete in time")


def test_a_checkpoint_interrupted_by_a_rollback_is_taken_after_it() -> None:
    town = running()
    town.engine(1).mute = ["Inject"]
    town.want(requests=(Request("a", "checkpoint"),))
    town.run(0.5)
    town.kill_engine(1)
    town.until(lambda: bool(town.latest.answers))
    assert town.latest.answers[0].ok
    assert town.latest.attempt == 2


def test_an_unknown_request_is_answered_and_stops_nobody() -> None:
    town = running()
    town.want(requests=(Request("a", "checkpiont"), Request("b", "checkpoint")))
    town.until(lambda: len(town.latest.answers) == 2)
    assert not town.latest.answers[0].ok
    assert "known are checkpoint, savepoint, stop" in town.latest.answers[0].text


def test_an_answer_stays_until_nobody_asks_any_more() -> None:
    town = running()
    town.want(requests=(Request("a", "checkpoint"),))
    town.until(lambda: bool(town.latest.answers))
    town.want(requests=(Request("a", "checkpoint"), Request("b", "checkpoint")))
    town.until(lambda: len(town.latest.answers) == 2)
    town.want(requests=(Request("c", "checkpoint"),))
    town.until(lambda: [a.request for a in town.latest.answers] == ["c"])


# --- Savepoints and stops -------------------------------------------------------------------------


def test_a_savepoint_is_an_epoch_copied_after_its_publication() -> None:
    town = running()
    town.want(requests=(Request("a", "savepoint", "before-upgrade"),))
    town.until(lambda: bool(town.latest.answers))
    assert town.latest.answers[0] == Answer("a", True, "savepoints/before-upgrade")
    assert [r.savepoint for s in town.cas for r in s.retained if r.savepoint] == ["a"]
    assert all(r.savepoint is None for r in town.latest.retained)
    copies = [a for *_, acts in town.steps for a in acts if isinstance(a, do.CopySavepoint)]
    assert [(c.name, c.request) for c in copies] == [("before-upgrade", "a")]


def test_epochs_go_on_while_a_savepoint_is_copied() -> None:
    town = Slow(2)
    town.until(lambda: town.latest.epoch >= 1)
    town.want(requests=(Request("a", "savepoint", "s"),))
    town.until(lambda: town.latest.epoch >= 8)
    assert any(r.savepoint == "a" for r in town.latest.retained), "kept while it is copied"
    town.finish_copies()
    town.until(lambda: bool(town.latest.answers))
    town.until(lambda: len(town.latest.retained) == SETTINGS.retain)


def test_a_job_does_not_finish_while_a_savepoint_is_copied() -> None:
    town = Slow(2)
    town.until(lambda: town.latest.epoch >= 1)
    town.want(requests=(Request("a", "savepoint", "s"),))
    town.until(lambda: bool(town.__dict__.get("copies")))
    exhaust(town, 0, 1)
    town.until(lambda: root(town).kind == "final")
    town.run(5.0)
    assert not town.latest.finished
    town.finish_copies()
    town.until(lambda: town.latest.finished)
    assert town.latest.answers == (Answer("a", True, "savepoints/s"),)


class Slow(InMemoryControlPlane):
    """A town whose savepoints take until they are told to be done."""

    copies: list[tuple[Keeper, do.CopySavepoint]]

    def _file(self, keeper: Keeper, action: object) -> None:
        if isinstance(action, do.CopySavepoint):
            self.__dict__.setdefault("copies", []).append((keeper, action))
        else:
            super()._file(keeper, action)

    def finish_copies(self) -> None:
        for keeper, action in self.copies:
            done = on.SavepointCopied(action.request, action.folder)
            self.post(keeper.ordinal, done)


def test_a_savepoint_that_cannot_be_copied_is_answered_with_the_reason() -> None:
    town = Slow(2)
    town.until(lambda: town.latest.epoch >= 1)
    town.want(requests=(Request("a", "stop", "s"),))
    for tries in (1, 2, 3):
        town.until(lambda n=tries: len(town.__dict__.get("copies", [])) == n)  # type: ignore[misc]
        folder = town.copies[-1][1].folder
        town.post(0, on.SavepointNotCopied("a", folder, "s is already another savepoint"))
    town.until(lambda: bool(town.latest.answers))
    text = "it was not copied: s is already another savepoint"
    assert town.latest.answers[0] == Answer("a", False, text)
    assert not town.latest.stopped
    town.until(lambda: town.latest.epoch >= 4)


def test_a_savepoint_outlives_its_leader() -> None:
    town = Slow(2)
    town.until(lambda: town.latest.epoch >= 1)
    town.want(requests=(Request("a", "savepoint", "s"),))
    town.until(lambda: bool(town.__dict__.get("copies")))
    epoch = next(r.epoch for r in town.latest.retained if r.savepoint == "a")
    town.post(town.leader().ordinal, on.Retire())
    town.until(lambda: len(town.copies) == 2)
    town.finish_copies()
    town.until(lambda: bool(town.latest.answers))
    kinds = [r.kind for r in town.blobs.values() if isinstance(r, RootManifest)]
    assert kinds.count("savepoint") <= 1
    assert epoch <= town.latest.epoch


def test_a_stop_never_takes_a_final_epoch() -> None:
    town = running(epoch=2)
    town.want(requests=(Request("a", "stop"),))
    town.until(lambda: town.latest.stopped)
    assert root(town).kind == "checkpoint"
    assert heard_all(town, "EndStreams") == 0
    assert town.latest.answers[0].ok
    town.until(lambda: all(k.engine is None for k in town.keepers.values()))


def heard_all(town: InMemoryControlPlane, kind: str) -> int:
    return sum(
        1
        for *_, actions in town.steps
        for a in actions
        if isinstance(a, do.ToEngine) and type(a.command).__name__ == kind
    )


def test_a_stop_with_a_savepoint_starts_no_later_epoch() -> None:
    town = Slow(2)
    town.until(lambda: town.latest.epoch >= 1)
    town.want(requests=(Request("a", "stop", "s"),))
    town.until(lambda: bool(town.__dict__.get("copies")))
    saved = town.latest.epoch
    town.run(4.0)
    assert town.latest.epoch == saved
    town.finish_copies()
    town.until(lambda: town.latest.stopped)
    assert town.latest.answers[0] == Answer("a", True, "savepoints/s")


def test_a_stop_waits_a_while_for_output_and_then_stops_all_the_same() -> None:
    town = running()
    town.engine(1).mute = ["Commit"]
    town.until(lambda: town.latest.epoch == 2)
    town.want(requests=(Request("a", "stop"),))
    town.run(SETTINGS.ready_timeout_s - 1.0)
    assert not town.latest.stopped
    town.until(lambda: town.latest.stopped)
    assert "the next run publishes it" in town.latest.answers[0].text
    assert town.latest.published_through == 1


def test_a_new_run_goes_on_from_where_the_last_stopped() -> None:
    town = running(epoch=2)
    town.want(requests=(Request("a", "stop"),))
    town.until(lambda: town.latest.stopped)
    epoch = town.latest.epoch
    town.want(requests=(), run="run-2")
    town.until(lambda: town.latest.epoch > epoch)
    assert not town.latest.stopped
    assert (town.latest.attempt, town.latest.run) == (2, "run-2")


def test_the_same_run_stays_stopped() -> None:
    town = running(epoch=2)
    town.want(requests=(Request("a", "stop"),))
    town.until(lambda: town.latest.stopped)
    town.want(requests=())
    town.run(5.0)
    assert town.latest.stopped
