"""Says which functions with types are machine code, and why the others are not."""

from collections.abc import Callable, Iterator

from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import LEFT, RIGHT, Call, Connect, Enrich, Filter, FlatMap, Map, Process
from penstock.graph.compiled import CompiledJob, CompiledStep
from penstock.graph.typed_calls import SHAPES
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.steps.compiled.choice import refusal

_Typed = tuple[Call, CallShape, Callable[..., object] | None, FunctionTypes | None]


def refused_functions(job: CompiledJob) -> dict[tuple[str, str], str | None]:
    """Return for each function with types why it is not compiled; None if it is.

    The keys are the step and the side of its input, "" for a step that has one input.
    """
    found: dict[tuple[str, str], str | None] = {}
    for node in (node for stage in job.stages for node in stage.nodes if node.types is not None):
        for side, (call, shape, function, types) in _functions(node):
            assert function is not None, "a step with types has a function"
            assert types is not None, "chosen by it"
            never = call.compiled is CompileChoice.NEVER
            found[node.name, side] = "compiled=never" if never else refusal(function, shape, types)
    return found


def _functions(node: CompiledStep) -> Iterator[tuple[str, _Typed]]:
    match node.parameters:
        case Map(call) | Filter(call) | FlatMap(call) | Process(call):
            yield "", (call, SHAPES[type(node.parameters)], node.function, node.types)
        case Connect(left, right):
            for side, call in ((LEFT, left), (RIGHT, right)):
                yield side, (call, CallShape.PROCESS, node.side(side).function, node.side(side).types)
        case Enrich():
            return  # an asynchronous function is no candidate
        case _:
            raise AssertionError("only these have functions with types")
