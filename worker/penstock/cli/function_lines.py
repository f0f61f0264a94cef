"""Says which functions with types run as machine code, and why the others do not."""

from collections.abc import Iterator

from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import Filter, FlatMap, Map, Process
from penstock.graph.compiled import CompiledJob
from penstock.graph.typed_calls import SHAPES
from penstock.steps.compiled.choice import refusal


def function_lines(job: CompiledJob) -> Iterator[str]:
    """Say for each function with types whether it is compiled."""
    for node in (node for stage in job.stages for node in stage.nodes if node.types is not None):
        parameters = node.parameters
        assert isinstance(parameters, Map | Filter | FlatMap | Process), "only these have functions with types"
        assert node.function is not None, "a step with types has a function"
        assert node.types is not None, "chosen by it"
        refused: str | None = "compiled=never"
        if parameters.call.compiled is not CompileChoice.NEVER:
            refused = refusal(node.function, SHAPES[type(parameters)], node.types)
        yield f"step {node.name!r}: compiled" if refused is None else f"step {node.name!r}: run by Python: {refused}"
        if node.handlers:
            yield f"step {node.name!r}: the functions of its timers are run by Python: {', '.join(node.handlers)}"
