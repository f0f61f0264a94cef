"""Says which functions with types are machine code, and why the others are not."""

from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import Filter, FlatMap, Map, Process
from penstock.graph.compiled import CompiledJob
from penstock.graph.typed_calls import SHAPES
from penstock.steps.compiled.choice import refusal


def refused_functions(job: CompiledJob) -> dict[str, str | None]:
    """Return for each step whose function has types why it is not compiled; None if it is."""
    found: dict[str, str | None] = {}
    for node in (node for stage in job.stages for node in stage.nodes if node.types is not None):
        parameters = node.parameters
        assert isinstance(parameters, Map | Filter | FlatMap | Process), "only these have functions with types"
        assert node.function is not None, "a step with types has a function"
        assert node.types is not None, "chosen by it"
        never = parameters.call.compiled is CompileChoice.NEVER
        found[node.name] = "compiled=never" if never else refusal(node.function, SHAPES[type(parameters)], node.types)
    return found
