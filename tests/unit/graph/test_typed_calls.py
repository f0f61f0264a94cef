"""Functions with types in Python and in YAML: the graph and the plan, and what is refused with file and line."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.columns import Column
from penstock.contract.graph import Process, decode_graph, encode_graph
from penstock.contract.plan import StateColumn, StepState
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import CompiledJob, JobFile, load_job
from penstock.graph.load import compile_draft
from tests.support.compiled_jobs import DeclaredInputs

TXNS = {"entity": "string", "state": "string", "amount": "float", "at": "timestamp[us]"}


@ps.record
class Txn:
    entity: str
    state: ps.Enum["A", "B"]  # noqa: F821
    amount: float
    at: ps.Time


@ps.record
class Alert:
    entity: str
    at: ps.Time


@ps.record
class Rare:
    entity: str


@ps.state
class Seen:
    total: int = 0
    last: ps.Ring[ps.int8, 5]  # type: ignore[valid-type]
    names: ps.Map[str, int]


@ps.state(ttl="7d")
class Expiring:
    total: int = 0


def score(r: Txn, s: Seen, out: ps.Out[Alert, {"rare": Rare}]) -> None:  # type: ignore[type-arg,misc] # noqa: F821
    s.total += 1
    out.emit(Alert(r.entity, r.at))


def expires(r: Txn, s: Expiring, out: ps.Out[Alert]) -> None: ...


def shorter(r: Txn) -> Alert:
    return Alert(r.entity, r.at)


def high(r: Txn) -> bool:
    return r.amount > 1


def untyped(r: dict[str, Any]) -> dict[str, Any]:
    return r


def compiled(build: Callable[[ps.Job], None]) -> CompiledJob:
    job = ps.Job()
    build(job)
    file = JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {})
    return compile_draft(file, job.draft, DeclaredInputs())


def source(job: ps.Job, columns: dict[str, str] | None = None) -> ps.Stream:
    return job.source("txns", ps.parquet("x"), columns=columns or TXNS, event_time="at")


def stages(job: CompiledJob) -> list[tuple[str, ...]]:
    return [stage.steps for stage in job.plan.stages]


def build_score(job: ps.Job) -> None:
    alerts = source(job).filter("high", high).key_by("entity").process("score", score, on_error="dead-letter")
    alerts.sink("alerts", ps.discard())
    alerts.output("rare").sink("rare", ps.discard())
    alerts.dead_letter.sink("bad", ps.discard())


YAML = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: test}
spec:
  job:
    graph:
      steps:
        - name: txns
          source:
            parquet: {path: x}
            columns: [{name: entity, type: string}, {name: state, type: string}, {name: amount, type: float},
              {name: at, type: "timestamp[us]"}]
            eventTime: {column: at}
        - {name: high, filter: {function: "jobs:high"}}
        - name: score
          keyBy: [entity]
          process: {function: "jobs:score", onError: dead-letter}
        - {name: alerts, sink: {discard: {}}}
        - {name: rare, inputs: [score.rare], sink: {discard: {}}}
        - {name: bad, inputs: [score.dead-letter], sink: {discard: {}}}
"""


def test_a_job_in_python_is_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jobs", sys.modules[__name__])
    (tmp_path / "job.yaml").write_text(YAML)
    theirs, ours = load_job(tmp_path / "job.yaml", DeclaredInputs()), compiled(build_score)
    assert ours.plan.states == theirs.plan.states
    for one, other in zip(ours.graph.steps, theirs.graph.steps, strict=True):
        names = (getattr(s.parameters, "call", None) for s in (one, other))
        assert len({None if call is None else call.types for call in names}) == 1
    assert [n.types for n in ours.stages[1].nodes] == [n.types for n in theirs.stages[1].nodes]
    assert decode_graph(encode_graph(ours.graph)) == ours.graph


def test_the_plan_has_the_schemas() -> None:
    job = compiled(build_score)
    parameters = job.graph.step("score").parameters
    assert isinstance(parameters, Process)
    types = parameters.call.types
    assert types is not None
    assert [(f.name, f.type) for f in types.record.fields][1:3] == [("state", "Enum[A, B]"), ("amount", "double")]
    assert parameters.call.columns == (Column("entity", "string"), Column("at", "timestamp[us]"))
    assert job.graph.step("score").outputs == ("main", "rare", "dead-letter")
    columns = ("total", "int64", 1), ("last", "Ring[int8, 5]", 2), ("names", "Map[string, int64]", 3)
    kept = tuple(StateColumn(name, kind, number=number) for name, kind, number in columns)
    assert job.plan.states[1] == StepState("score", "process", keys=(Column("entity", "string"),), columns=kept)
    node = job.stages[1].nodes[0]
    assert node.outputs["rare"] == (Column("entity", "string"),)
    assert [c.name for c in node.outputs["dead-letter"]][:4] == list(TXNS)


def test_event_time_is_kept_if_its_column_is() -> None:
    def build(job: ps.Job) -> None:
        alerts = source(job).map("shorter", shorter)
        alerts.key_by("entity").window("counts", "1m", n=ps.count()).sink("out", ps.discard())

    assert compiled(build).stages[1].nodes[0].time == "at"


def refused(text: str, build: Callable[[ps.Job], object]) -> None:
    def whole(job: ps.Job) -> None:
        stream = build(job)
        assert isinstance(stream, ps.Stream)
        stream.sink("out", ps.discard())

    with pytest.raises(ConfigError, match=rf"^\S*test_typed_calls\.py:\d+: step '\w+': {text}"):
        compiled(whole)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"entity": "string", "at": "timestamp[us]"}, r"record Txn has 'state', and the rows have entity, at"),
        ({**TXNS, "amount": "string"}, r"record Txn: column 'amount' has type string, and Txn.amount is double"),
        ({**TXNS, "entity": "int64"}, r"record Txn: column 'entity' has type int64, and Txn.entity is string"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, str], text: str) -> None:
    place = r"\S*test_typed_calls\.py:\d+: "
    refused(place + text, lambda job: source(job, columns).filter("high", high))


def test_what_types_say_is_not_said_twice() -> None:
    of = r"shorter \(\S*test_typed_calls\.py:\d+\)"
    refused(
        f"{of} has types, .* leave out columns", lambda j: source(j).map("m", shorter, columns={"entity": "string"})
    )
    keyed = r"score \(.*leave out columns and state"
    refused(
        keyed,
        lambda j: source(j).key_by("entity").process("p", score, state={"n": "int64"}, columns={"n": "int64"}),
    )
    refused('per="batch": its function takes records of Txn', lambda j: source(j).map("m", shorter, per="batch"))
    assert stages(compiled(lambda j: source(j).map("m", shorter, per="record").sink("out", ps.discard()))) == [
        ("txns", "m", "out")
    ]


def test_types_that_do_not_fit_the_step_are_refused() -> None:
    refused(r"high \(\S+\): it returns bool, which is no @ps.record", lambda j: source(j).map("m", high))
    refused(r"score \(\S+\): it has the parameters", lambda j: source(j).flat_map("m", score))


def test_a_state_that_expires_needs_event_time() -> None:
    refused(
        r"the ttl of Expiring \(\S+test_typed_calls\.py:\d+\) goes by event time, and the rows have none",
        lambda j: j.source("txns", ps.parquet("x"), columns=TXNS).key_by("entity").process("p", expires),
    )


def searching(r: Alert) -> Alert:
    import re

    return r if re.match("a", r.entity) else Alert(r.entity, 0)


def test_require_is_refused_with_the_reason() -> None:
    assert stages(compiled(lambda j: source(j).map("m", shorter, compiled="require").sink("out", ps.discard())))
    of = r"compiled=require: \S*test_typed_calls\.py:\d+: import re is not known to compiled functions"
    refused(of, lambda j: source(j).map("m", searching, compiled="require"))
    plain = r"untyped \(\S+\): compiled=require: only functions with types are compiled"
    refused(plain, lambda j: source(j).map("m", untyped, per="record", columns=TXNS, compiled="require"))
    assert stages(compiled(lambda j: source(j).map("m", shorter, compiled="never").sink("out", ps.discard()))) == [
        ("txns", "m", "out")
    ]
    with pytest.raises(ConfigError, match=r"'soon' is not one of auto, never, require"):
        compiled(lambda j: source(j).map("m", shorter, compiled="soon").sink("out", ps.discard()))  # type: ignore[arg-type]


def test_a_side_output_that_nothing_reads_is_refused() -> None:
    def build(job: ps.Job) -> ps.Stream:
        return source(job).key_by("entity").process("score", score)

    refused("nothing reads its output 'rare'; end every branch with a sink", build)
