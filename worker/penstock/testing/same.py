"""``penstock.testing.same``: does a compiled job do what the same functions do in Python?

same(job, rows=rows(Txn))  # rows that Hypothesis draws
same(job, rows=[Txn("ann", 4), Txn("bob", 2)])
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import ConfigError
from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import Source
from penstock.graph.refused_functions import refused_functions
from penstock.inprocess.list_source import Item
from penstock.inprocess.prepare import JobLike, Prepared, prepare
from penstock.testing.harness import Run

Given = Iterable[Item] | object


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """All that a run did: the rows of each sink, the state of each step that has types, and its error."""

    rows: Mapping[str, list[str]]
    state: Mapping[str, list[str]]
    error: str


def same(
    job: JobLike, rows: Given | Mapping[str, Given], params: Mapping[str, object] | None = None, *, workers: int = 1
) -> None:
    """Run a job as it is, and again with Python for each function, and compare all that both did.

    ``rows`` are those of the job's only source, or by the name of the source: a list, or a strategy of
    Hypothesis that draws lists (:func:`penstock.testing.rows`). Compared are the rows of all sinks in
    order, the states of functions with types, and the error if the job fails; floats bit for bit.

    Raises AssertionError that shows both when they differ; with a strategy, for the smallest rows that
    Hypothesis finds. Raises ConfigError when the job cannot run, or when none of its functions is compiled.
    """
    given = rows if isinstance(rows, Mapping) else {_only_source(job, params): rows}
    drawn: dict[str, Any] = {name: each for name, each in given.items() if _is_strategy(each)}
    if not drawn:
        _compare(job, params, given, workers)
        return
    from hypothesis import given as given_by  # noqa: PLC0415  needed for strategies only, and then it is there
    from hypothesis import settings  # noqa: PLC0415
    from hypothesis import strategies as st  # noqa: PLC0415

    @settings(deadline=None)  # the first run compiles
    @given_by(st.fixed_dictionaries(drawn))
    def check(inputs: Mapping[str, Given]) -> None:
        _compare(job, params, {**given, **inputs}, workers)

    check()


def _is_strategy(given: object) -> bool:
    return any(base.__module__.startswith("hypothesis.") for base in type(given).__mro__)


def _only_source(job: JobLike, params: Mapping[str, object] | None) -> str:
    prepared = prepare(job, params, None, collect=True, pushed=True)
    nodes = [node for stage in prepared.job.stages for node in stage.nodes]
    names = [node.name for node in nodes if isinstance(node.parameters, Source)]
    if len(names) != 1:
        raise ConfigError(f"same: the job has the sources {', '.join(names)}: give rows={{name: rows}}")
    return names[0]


def _compare(job: JobLike, params: Mapping[str, object] | None, inputs: Mapping[str, Given], workers: int) -> None:
    kept = {name: list(each) if isinstance(each, Iterable) else each for name, each in inputs.items()}
    as_it_is = prepare(job, params, kept, collect=True)
    refused = refused_functions(as_it_is.job)
    if all(refused.values()):
        why = "; ".join(f"{name}: {reason}" for (name, _), reason in refused.items()) or "none has types"
        raise ConfigError(f"same: no function of the job is compiled, so there is nothing to compare: {why}")
    compiled = _outcome(as_it_is, workers)
    interpreted = _outcome(prepare(job, params, kept, collect=True, compiled=CompileChoice.NEVER), workers)
    assert compiled == interpreted, f"\ncompiled:    {compiled}\ninterpreted: {interpreted}"


def _outcome(prepared: Prepared, workers: int) -> RunOutcome:
    for source in prepared.lists.values():
        source.begin()
    with Run(prepared, workers) as run:
        try:
            run.run()
        except Exception as error:  # whatever a function raises, both have to raise it
            return RunOutcome({}, {}, f"{type(error).__name__}: {error}")
        nodes = (node for stage in prepared.job.stages for node in stage.nodes)
        stateful = [node.name for node in nodes if node.types is not None and node.types.state is not None]
        rows = {name: [repr(row) for row in run.rows(name)] for name in prepared.sinks}
        return RunOutcome(rows, {name: sorted(map(repr, run.state(name).items())) for name in stateful}, "")
