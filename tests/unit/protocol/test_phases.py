"""Phases change only as their tables say, and the diagrams in the docstrings show the tables."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from penstock.contract.ids import Incarnation, JobUid, Ordinal, SwapId
from penstock.contract.latest import Latest, Leader
from penstock.protocol.channel import admission
from penstock.protocol.core_context import Sign, StepContext
from penstock.protocol.leader import (
    election,
    leader_state,
    rescale_coordinator,
    takeover,
    user_requests,
)
from penstock.protocol.leader.leader_storage import MetadataCas
from penstock.protocol.leader.worker_registry import CommandRetrier, WorkerRegistry
from penstock.protocol.member import member_core
from penstock.protocol.task import rescale_buffer, task_state
from tests.support.in_memory_control_plane import JOB, SETTINGS
from tests.support.task_harness import COUNT, rig
from tools import phases

ME = Leader(Ordinal(0), Incarnation("me"), "mine")
Enter = Callable[[Any], None]
Machine = Callable[[Any], Enter]


def leading() -> leader_state.LeaderState:
    """Return the state of a leader whose term has just begun."""
    latest = Latest(JOB, SwapId("created"))
    return leader_state.LeaderState(
        settings=SETTINGS,
        me=ME,
        context=StepContext(ME.incarnation),
        cas=MetadataCas(latest, "1", 1.0),
        retrier=CommandRetrier(JOB, latest.term, ME.ordinal, 1.0),
        registry=WorkerRegistry(1.0, Sign(), 1.0),
        uid="object-1",
        plan=None,
        desired=None,
    )


def leader_in(phase: leader_state.LeaderPhase) -> Enter:
    state = leading()
    state.phase = phase
    return state.enter


def rescale_in(stage: rescale_coordinator.RescalePhase) -> Enter:
    state, rescale = leading(), rescale_coordinator.RescaleCoordinator(stage=stage)
    return lambda after: rescale._enter(state, after)


def takeover_in(stage: takeover.TakeoverStage) -> Enter:
    return takeover.Takeover(SETTINGS, ME, stage=stage)._enter


def copying_in(stage: user_requests.RequestStage) -> Enter:
    return user_requests.Copying(stage).enter


def election_in(phase: election.ElectionPhase) -> Enter:
    return election.Election(SETTINGS, "me", phase)._enter


def engine_in(phase: member_core.EnginePhase) -> Enter:
    member = member_core.MemberCore(SETTINGS, Ordinal(0), "keeper", JobUid("job"))
    member.engine = phase
    return member._enter


def buffer_in(phase: rescale_buffer.BufferPhase) -> Enter:
    buffer = rescale_buffer.RescaleBuffer(1)
    buffer.phase = phase
    return buffer._enter


def task_in(life: task_state.TaskLifecycle) -> Enter:
    state = rig(COUNT).core.state
    state.life = life
    return state.enter


def admission_in(phase: admission.AdmissionPhase) -> Enter:
    admitting = admission.Admission(JobUid("job"), Ordinal(0))
    admitting._phase = phase
    return admitting._enter


# Each machine with a table, how it is brought into a phase, and the phases that it begins in.
MACHINES: list[tuple[Any, Machine, set[Any]]] = [
    (leader_state, leader_in, {leader_state.LeaderPhase.OPENING}),
    (rescale_coordinator, rescale_in, {rescale_coordinator.RescalePhase.IDLE}),
    (takeover, takeover_in, {takeover.TakeoverStage.WATCHING}),
    (user_requests, copying_in, {user_requests.RequestStage.WAITING}),
    (election, election_in, {election.ElectionPhase.WATCHING}),
    (member_core, engine_in, {member_core.EnginePhase.OFF}),
    (rescale_buffer, buffer_in, {rescale_buffer.BufferPhase.NONE}),
    (admission, admission_in, {admission.AdmissionPhase.CLOSED}),
    (
        task_state,
        task_in,
        {task_state.TaskLifecycle.BUILDING, task_state.TaskLifecycle.JOINING},
    ),
]
PAIRS = [
    pytest.param(machine, before, after, after in following, id=f"{before}-{after}")
    for module, machine, _ in MACHINES
    for before, following in module.TRANSITIONS.items()
    for after in type(before)
]


@pytest.mark.parametrize(("machine", "before", "after", "listed"), PAIRS)
def test_a_transition_is_made_if_the_table_has_it_and_refused_by_name_if_not(
    machine: Machine, before: Enum, after: Enum, listed: bool
) -> None:
    enter = machine(before)
    if listed:
        enter(after)
    elif before is not after or machine is not election_in:  # a Lease that is held is renewed
        with pytest.raises(AssertionError, match=f"from {before.name} to {after.name}"):
            enter(after)


@pytest.mark.parametrize(("module", "first"), [(module, first) for module, _, first in MACHINES])
def test_every_phase_has_a_row_and_is_reached(module: Any, first: set[Enum]) -> None:
    reached = {after for following in module.TRANSITIONS.values() for after in following}
    every = set(type(next(iter(first))))
    assert set(module.TRANSITIONS) == every
    assert reached | first == every


def test_every_task_phase_can_end() -> None:
    ended = task_state.TaskLifecycle.ENDED
    assert all(ended in following for following in task_state.TRANSITIONS.values())


def test_every_module_with_a_table_is_tested_here() -> None:
    files = {module.__file__ for module, _, _ in MACHINES}
    assert files == {str(path) for path in phases.modules()}


def test_the_diagram_in_each_docstring_is_that_of_the_table() -> None:
    for path in phases.modules():
        assert phases.redrawn(path) == path.read_text(encoding="utf-8"), path
