"""The table of a job's phases, the diagram made from it, and how workers end."""

from itertools import product

import pytest

from penstock.base.values import replace
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.latest import Answer, Latest
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import Pending, Reason, StreamJobStatus
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile import lifecycle
from penstock_operator.reconcile.accept import accept
from penstock_operator.reconcile.lifecycle import (
    PHASES,
    Demand,
    Ending,
    JobPhase,
    Workers,
    ending_of,
    lifecycle_of,
)
from tests.unit.operator.observing import NOW_S, down, running, spec_of, target_for

OLD = spec_of()


def rendered() -> str:
    """Draw the table as the docstring of the module shows it."""
    head = ("demand", "workers: none", "leaving", "present")
    rows = [[demand, *(PHASES[workers, demand] for workers in Workers)] for demand in Demand]
    widths = [9, 14, 10, 10]
    lines = [head, tuple("-" * width for width in widths), *map(tuple, rows)]
    texts = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(f"    {text}".rstrip() for text in texts)


def latest_of(seen: Observed) -> Latest:
    assert seen.latest is not None
    assert seen.latest.value is not None
    return seen.latest.value


def phase_of(seen: Observed) -> JobPhase:
    return lifecycle_of(seen, accept(seen), latest_of(seen)).phase


def test_the_table_names_a_phase_for_each_case() -> None:
    assert set(PHASES) == set(product(Workers, Demand))


def test_the_diagram_is_made_from_the_table() -> None:
    assert rendered() in (lifecycle.__doc__ or "")


def test_workers_start_only_where_none_is_left() -> None:
    starts = {workers for (workers, _), phase in PHASES.items() if phase is JobPhase.START}
    assert starts == {Workers.NONE}


@pytest.mark.parametrize(
    ("spec", "phases"),
    [
        ({}, (JobPhase.START, JobPhase.TERMINATE, JobPhase.RUN)),
        ({"image": "example/penstock:2"}, (JobPhase.START, JobPhase.TERMINATE, JobPhase.TERMINATE)),
        ({"suspend": True}, (JobPhase.DOWN, JobPhase.TERMINATE, JobPhase.STOP)),
    ],
)
def test_the_phase_follows_from_the_workers_and_the_spec(spec: dict[str, Plain], phases: tuple[JobPhase, ...]) -> None:
    present = running(OLD, wanted={**OLD, **spec})
    none = down(present)
    leaving = replace(none, pods=present.pods)
    assert tuple(map(phase_of, (none, leaving, present))) == phases


def ending(latest: Latest | None = None, status: StreamJobStatus | None = None, **spec: Plain) -> Ending:
    """Decide how the workers of a job that is suspended, or changed in this way, end."""
    wanted = {**OLD, **(spec or {"suspend": True})}
    seen = running(OLD, wanted=wanted)
    seen = replace(seen, job=replace(seen.job, status=status or StreamJobStatus()))
    demand = Demand.REPLACE if spec else Demand.SUSPEND
    return ending_of(seen, latest or latest_of(seen), target_for(wanted), demand)


def waiting(deadline_s: float) -> StreamJobStatus:
    pending = Pending(str(Reason.SUSPENDING), 2, stamp(NOW_S), stamp(deadline_s), 2, "stop-1")
    return StreamJobStatus(pending=pending)


def test_each_way_to_end_has_its_case() -> None:
    latest = latest_of(running(OLD))
    refused = replace(latest, answers=(Answer("stop-1", ok=False, text="no space"),))
    assert ending() is Ending.SAVEPOINT
    assert ending(image="example/penstock:2") is Ending.NOT_ASKED_FOR
    assert ending(replace(latest, stopped=True)) is Ending.CLOSED
    assert ending(replace(latest, attempt=Attempt(0), epoch=Epoch(0))) is Ending.NEVER_BEGAN
    assert ending(status=waiting(NOW_S - 1)) is Ending.TOO_LATE
    assert ending(refused, waiting(NOW_S + 60)) is Ending.REFUSED


def test_an_upgrade_from_a_savepoint_never_ends_without_it() -> None:
    latest = latest_of(running(OLD))
    refused = replace(latest, answers=(Answer("stop-1", ok=False, text="no space"),))
    found = ending(refused, waiting(NOW_S - 1), upgrade={"mode": "Savepoint"})
    assert found is Ending.SAVEPOINT
