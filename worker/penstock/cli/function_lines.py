"""Says which functions with types run as machine code, and why the others do not."""

from collections.abc import Iterator

from penstock.contract.graph import ONLY, RIGHT
from penstock.graph.compiled import CompiledJob
from penstock.graph.refused_functions import refused_functions


def function_lines(job: CompiledJob) -> Iterator[str]:
    """Say for each function with types whether it is compiled."""
    handlers = {node.name: node.handlers for stage in job.stages for node in stage.nodes}
    for (name, side), refused in refused_functions(job).items():
        step = f"step {name!r}" + (f", {side}" if side else "")
        yield f"{step}: compiled" if refused is None else f"{step}: run by Python: {refused}"
        if handlers[name] and side in (ONLY, RIGHT):
            yield f"step {name!r}: the functions of its timers are run by Python: {', '.join(handlers[name])}"
