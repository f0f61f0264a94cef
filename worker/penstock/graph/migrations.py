"""A function that converts the state of an earlier class: into a draft, which ``ps.migrate`` and a job file fill."""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract.graph import Call, Connect, Process
from penstock.graph.draft import MIGRATE, GraphDraft, label
from penstock.graph.typed_calls import state_fields
from penstock.model.declared.function_types import migrated_state
from penstock.model.declared.state_types import StateType

Migration = tuple[StateType, Callable[..., Any]]  # the earlier state, and what converts it


def add_migration(draft: GraphDraft, name: str, function: object, place: str, scope: Mapping[str, Any]) -> None:
    """Let ``function`` convert the earlier state of a step. ``scope`` is that of :func:`migrated_state`.

    Raises ConfigError that begins with ``place``.
    """
    about = f"{place}: step {name!r}: migrate"
    number = next(i for i, each in enumerate(draft.steps) if each.name == name)
    step, types = draft.steps[number], draft.types.get(name)
    process = step.parameters
    if not isinstance(process, Process | Connect) or types is None or types.state is None:
        raise ConfigError(f"{about}: only a @ps.state is migrated: give the function of a process step types")
    if not callable(function):
        raise ConfigError(f"{about}: {function!r} is not a function")
    if (name, MIGRATE) in draft.functions:
        raise ConfigError(f"{about}: the step has a function already")
    try:
        earlier = migrated_state(function, types.state, scope)
    except ConfigError as error:
        raise ConfigError(f"{about}: {error}") from None
    draft.functions[name, MIGRATE] = function
    draft.earlier[name] = earlier
    named = label(function)
    if isinstance(process, Process):
        typed: Process | Connect = replace(process, call=_with(process.call, earlier), migrate=named)
    else:
        typed = replace(process, left=_with(process.left, earlier), migrate=named)
    draft.steps[number] = replace(step, parameters=typed)


def _with(call: Call, earlier: StateType) -> Call:
    assert call.types is not None, "the step has types"
    return replace(call, types=replace(call.types, earlier=state_fields(earlier)))
