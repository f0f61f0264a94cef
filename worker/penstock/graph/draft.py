"""A graph under construction: its steps, their functions, and the place where each was written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.graph import LEFT, RIGHT, Input, LogicalGraph, Step
from penstock.contract.plan import Partitioning
from penstock.model.declared.function_types import FunctionTypes
from penstock.model.declared.state_types import StateType

CALL = "call"  # role of a step's own function; of a step with two inputs, that of the left one
CALL_RIGHT = "call right"  # role of the function of the right input
CONNECTOR = "connector"  # role of a user's own source or sink object
MIGRATE = "migrate"  # role of the function that converts the state of an earlier class


@dataclass(slots=True)
class GraphDraft:
    """What the Python API and ``job.graph`` both produce, before any check.

    ``functions`` has functions and connector objects by (step, role), ``types`` the types of a step's function if it
    has any. Of a step with a function for each of two inputs, ``types`` has what both write, and ``side_types`` the
    types of each function by (step, side). ``earlier`` has the state that MIGRATE converts. ``places`` says for each
    step in which file and line it was written. ``asked`` has the parameters that a function has asked for as it built
    the job; None if no function was called.
    """

    steps: list[Step] = field(default_factory=list)
    functions: dict[tuple[str, str], object] = field(default_factory=dict)
    types: dict[str, FunctionTypes] = field(default_factory=dict)
    side_types: dict[tuple[str, str], FunctionTypes] = field(default_factory=dict)
    earlier: dict[str, StateType] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    asked: frozenset[str] | None = None

    def graph(self, job: str) -> LogicalGraph:
        """Return the steps as the logical graph of ``job``."""
        return LogicalGraph(job, tuple(self.steps))

    def connect(
        self,
        step: str,
        functions: Mapping[str, Callable[..., object]],
        types: Mapping[str, FunctionTypes],
        both: FunctionTypes,
    ) -> None:
        """Note the functions of a step with two inputs, and their types, by side. ``both`` is what they write."""
        self.functions |= {(step, CALL): functions[LEFT], (step, CALL_RIGHT): functions[RIGHT]}
        self.types[step] = both
        self.side_types |= {(step, side): each for side, each in types.items()}

    def place(self, step: str) -> str:
        """Return the file and line where a step was written. Error messages begin with it."""
        return self.places.get(step, "the graph")


def side_inputs(inputs: tuple[Input, ...], side: str, keys: tuple[str, ...]) -> tuple[Input, ...]:
    """Return inputs as those of one side of a step, dealt out by ``keys``."""
    return tuple(
        replace(i, partitioning=Partitioning.KEY, keys=keys, side=side, function=None, schemes=ABSENT) for i in inputs
    )


def partition_role(index: int, scheme: str) -> str:
    """Name the role of a function that deals out a step's input. ``scheme`` is empty when there is only one."""
    return f"partition {index} {scheme}"


def label(function: Callable[..., object]) -> str:
    """Return the name of a function as ``module:qualified.name``.

    The name of a function that is nested in another one cannot be imported.
    """
    module = getattr(function, "__module__", None) or "?"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{module}:{name}"


Functions = Mapping[tuple[str, str], object]
