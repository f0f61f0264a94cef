"""Finds the types of the functions of a draft's steps, and puts them into the graph as data.

A function with types needs no ``per=``, ``columns=`` and ``state=``: its hints say all of that.
"""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract.call_types import (
    CallTypes,
    CompileChoice,
    RecordFields,
    SideRecords,
    StateFields,
    TypedField,
)
from penstock.contract.codec import ABSENT
from penstock.contract.columns import Column, Columns
from penstock.contract.graph import LEFT, RIGHT, Connect, Enrich, Filter, FlatMap, Map, Parameters, Per, Process
from penstock.model.declared.field_kinds import field_text
from penstock.model.declared.function_types import (
    CallShape,
    FunctionTypes,
    function_place,
    function_types,
    types_of_both,
)
from penstock.model.declared.record_types import RecordType
from penstock.model.declared.state_types import StateType
from penstock.model.declared.value_kinds import kind_text

Calling = Map | FlatMap | Filter | Process | Enrich
SHAPES: Mapping[type, CallShape] = {
    Map: CallShape.MAP,
    Filter: CallShape.FILTER,
    FlatMap: CallShape.FLAT_MAP,
    Process: CallShape.PROCESS,
    Enrich: CallShape.MAP,
}


def typed_parameters(
    parameters: Parameters,
    function: Callable[..., Any],
    place: str,
    scope: Mapping[str, Any],
    *,
    sided: bool = False,
) -> tuple[Parameters, FunctionTypes | None]:
    """Return the parameters of a step with the types of its function, and these types; None if it has none.

    ``sided``: the function reads side tables. ``place`` begins error messages, and ``scope`` is that of
    :func:`function_types`. Raises ConfigError for types that do not fit the step, and for what the types say already.
    """
    if not isinstance(parameters, Calling):
        return parameters, None
    try:
        shape = CallShape.PROCESS_SIDE if sided else SHAPES[type(parameters)]
        types = function_types(function, shape, scope)
        call = parameters.call
        if sided and call.compiled is CompileChoice.REQUIRE:
            raise ConfigError(
                f"{function_place(function)}: compiled=require: Python runs functions that read side tables"
            )
        if types is None:
            _check_untyped(parameters, function)
            return parameters, None
        types = _with_ttl(types, parameters)
        _check_said_twice(parameters, function)
        if call.compiled is CompileChoice.REQUIRE:
            _check_compiled(function, SHAPES[type(parameters)], types)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    main = () if types.main is None else _columns(types.main)
    compiled = CompileChoice.NEVER if sided else call.compiled
    typed = replace(call, per=Per.RECORD, columns=main, types=_data(types), compiled=compiled)
    return replace(parameters, call=typed), types


def connected_types(
    connect: Connect, functions: Mapping[str, Callable[..., Any]], place: str, scope: Mapping[str, Any]
) -> tuple[Connect, Mapping[str, FunctionTypes], FunctionTypes]:
    """Return a step of two inputs with the types of its functions, these types by side, and what both write.

    Raises ConfigError for a function without types, and for two that do not fit each other.
    """
    calls, types = {}, {}
    for side, function in functions.items():
        typed, found = typed_parameters(Process(getattr(connect, side), ttl=connect.ttl), function, place, scope)
        if found is None:
            raise ConfigError(
                f"{place}: {side}: {function_place(function)} has no types: of a step with two inputs both functions "
                f"are {CallShape.PROCESS}, where A and B are a @ps.record and S is a @ps.state"
            )
        assert isinstance(typed, Process), "made above"
        calls[side], types[side] = typed.call, found
    try:
        both = types_of_both(functions[LEFT], types[LEFT], functions[RIGHT], types[RIGHT])
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    return replace(connect, left=calls[LEFT], right=calls[RIGHT]), types, both


def _with_ttl(types: FunctionTypes, parameters: Calling) -> FunctionTypes:
    """Return the types with the ttl that the step says. The class of the state keeps its own."""
    if not isinstance(parameters, Process) or parameters.ttl is ABSENT:
        return types
    assert types.state is not None, "a process has a state"
    return replace(types, state=replace(types.state, ttl_us=parameters.ttl.after_us, time=parameters.ttl.time))


def _check_untyped(parameters: Calling, function: Callable[..., Any]) -> None:
    """Refuse what only functions with types can have."""
    if isinstance(parameters, Process) and parameters.ttl is not ABSENT:
        raise ConfigError(
            f"{function_place(function)}: ttl: only the keys of a @ps.state are forgotten, and no hint of this "
            "function is one"
        )
    if parameters.call.compiled is CompileChoice.REQUIRE:
        raise ConfigError(
            f"{function_place(function)}: compiled=require: only functions with types are compiled, and no hint of "
            "this one is a @ps.record"
        )


def _check_compiled(function: Callable[..., Any], shape: CallShape, types: FunctionTypes) -> None:
    from penstock.steps.compiled.choice import refusal  # noqa: PLC0415  Arrow and LLVM stay out of the CLI

    refused = refusal(function, shape, types)
    if refused is not None:
        raise ConfigError(f"compiled=require: {refused}; with compiled=auto Python runs the function")


def _check_said_twice(parameters: Calling, function: Callable[..., Any]) -> None:
    """Refuse columns that are said beside types."""
    said = ["columns"] if parameters.call.columns else []
    said += ["state"] if isinstance(parameters, Process) and parameters.state else []
    if said:
        raise ConfigError(
            f"{function_place(function)} has types, which say its columns and its state: leave out {' and '.join(said)}"
        )


def _data(types: FunctionTypes) -> CallTypes:
    return CallTypes(
        _record(types.record),
        None if types.main is None else _record(types.main),
        None if types.state is None else state_fields(types.state),
        tuple(SideRecords(output, _record(record)) for output, record in types.sides),
    )


def _record(record: RecordType) -> RecordFields:
    fields = tuple(TypedField(f.name, kind_text(f.kind, f.nullable)) for f in record.fields)
    return RecordFields(record.name, fields, _columns(record))


def _columns(record: RecordType) -> Columns:
    return tuple(Column(name, arrow) for name, arrow in record.columns)


def state_fields(state: StateType) -> StateFields:
    """Return what a graph says of a class of states."""
    fields = (TypedField(f.name, field_text(f.kind), f.renamed or ABSENT) for f in state.fields)
    return StateFields(state.name, tuple(fields))
