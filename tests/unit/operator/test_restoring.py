"""An upgrade without state is asked for once per change, and repeats no earlier restore."""

import pytest

from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.latest import ANY_STATE, Latest, Restore, SinkRestore, Unpublished
from penstock.contract.schema import Plain
from penstock_operator.api.observed import Observed
from penstock_operator.reconcile.accept import (
    Accepted,
    accept,
    nonce_of,
    stateless_restore,
    wants_restore,
)
from penstock_operator.reconcile.actions import WriteDesired
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.lifecycle import JobPhase, lifecycle_of
from tests.unit.operator.observing import down, running, spec_of, target_for

OLD = spec_of()
STATELESS = spec_of(image="example/penstock:2", upgrade={"mode": "Stateless"})


def latest_of(seen: Observed) -> Latest:
    assert seen.latest is not None
    assert seen.latest.value is not None
    return seen.latest.value


def written(seen: Observed) -> WriteDesired:
    status = decide(seen).status
    assert status is not None
    job = replace(seen.job, status=status)  # the target first, then its effects
    found = [a for a in decide(replace(seen, job=job)).actions if isinstance(a, WriteDesired)]
    assert len(found) == 1
    return found[0]


def test_output_becomes_visible_before_state_goes() -> None:
    seen = running(OLD, wanted=STATELESS)
    assert lifecycle_of(seen, accept(seen), latest_of(seen)).phase is JobPhase.STOP
    request = written(seen).value.requests[-1]
    assert (request.kind, request.argument) == ("stop", None)


def test_a_change_begins_without_state_and_a_resume_does_not() -> None:
    restore = written(down(running(OLD, wanted=STATELESS))).value.restore
    assert restore is not None
    assert (restore.empty, restore.allow_output_replay, restore.drop_unpublished) == (
        True,
        True,
        False,
    )
    resumed = down(running(STATELESS))
    latest = latest_of(resumed)
    stopped = replace(resumed.latest, value=replace(latest, stopped=True))  # type: ignore[type-var]
    assert written(replace(resumed, latest=stopped)).value.restore is None


def test_a_job_without_state_has_none_to_drop() -> None:
    seen = running(OLD, wanted=STATELESS)
    empty = replace(latest_of(seen), max_epoch=Epoch(0))
    assert stateless_restore(target_for(STATELESS), empty, "2-0-x") is None


@pytest.mark.parametrize(
    ("given", "dropped"),
    [({"dropState": ["a", "b"]}, ("a", "b")), ({"allowNonRestoredState": True}, (ANY_STATE,))],
)
def test_what_is_given_up_of_the_newest_checkpoint_is_asked_of_the_leader(
    given: dict[str, Plain], dropped: tuple[str, ...]
) -> None:
    restore: Plain = {"nonce": "2", **given}
    seen = down(running(OLD, wanted={**OLD, "restore": restore}))
    assert written(seen).value.restore == Restore("2", drop_state=dropped)


def test_a_change_without_state_gives_up_everything_and_asks_once() -> None:
    restore: Plain = {"nonce": "2", "dropState": ["a"]}
    wanted = {**STATELESS, "restore": restore}
    asked = written(down(running(OLD, wanted=wanted))).value.restore
    assert asked is not None
    assert (asked.empty, asked.drop_state) == (True, ())
    after = replace(latest_of(running(OLD)), restored=asked.nonce)
    assert not wants_restore(target_for(wanted), after)


def test_the_restore_of_a_spec_is_not_done_again_after_it() -> None:
    done: Plain = {"nonce": "monday it was", "path": "apps/wc/savepoints/s"}
    target = target_for({**STATELESS, "restore": done})
    before = replace(latest_of(running(OLD)), restored="monday it was")
    fresh = stateless_restore(target, before, "2-7-abc")
    assert fresh is not None
    after = replace(before, restored=fresh.nonce)
    assert nonce_of(after) == "monday it was"
    assert not wants_restore(target, after)
    again = stateless_restore(target, after, "3-9-def")
    assert again is not None
    assert nonce_of(replace(after, restored=again.nonce)) == "monday it was"


def test_what_a_spec_asks_for_comes_before_the_mode() -> None:
    asked: dict[str, Plain] = {"nonce": "1", "empty": True, "allowOutputReplay": True, "unpublished": "Drop"}
    asked["unpublishedSinks"] = {"out": "Fail"}
    seen = down(running(OLD, wanted={**STATELESS, "restore": asked}))
    sinks = (SinkRestore("out", Unpublished.FAIL),)
    wanted = Restore("1", allow_output_replay=True, drop_unpublished=True, empty=True, unpublished=sinks)
    assert written(seen).value.restore == wanted
    assert isinstance(accept(seen), Accepted)
