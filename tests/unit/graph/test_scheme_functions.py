"""Several schemes of a partition: in Python, in a file, in the plan; and what is wrong with them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.cli.preflight import check_schemes
from penstock.contract.graph import decode_graph, encode_graph
from penstock.contract.schemes import SchemeNames
from penstock.contract.streamjob import Job, PartitionChoice, Spec, StreamJob
from penstock.graph import CompiledJob, JobFile, load_job, read_job_file
from penstock.graph.describe import edge_text
from penstock.graph.load import compile_draft

LINES = {"n": "int64"}
FILE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: dealt}
spec:
  partition: [{step: work, use: hot}]
  job:
    graph:
      steps:
        - {name: lines, source: {parquet: {path: in}, columns: [{name: x, type: int64}]}}
        - name: work
          partition: custom
          partitionSchemes: {even: "dealing:even", hot: "dealing:hot"}
          use: even
          map: {function: "dealing:same", columns: [{name: x, type: int64}]}
        - {name: out, sink: {discard: {}}}
"""
MODULE = """\
def even(batch, tasks):
    return [x % tasks for x in batch.column("x").to_pylist()]

def hot(batch, tasks):
    return [0] * batch.num_rows

def same(batch):
    return batch
"""


def even(batch: pa.RecordBatch, tasks: int) -> list[int]:
    return [n % tasks for n in batch.column("n").to_pylist()]


def hot(batch: pa.RecordBatch, tasks: int) -> list[int]:
    return [0] * batch.num_rows


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def compiled(deal: Callable[[ps.Stream], ps.Stream], *asked: PartitionChoice) -> CompiledJob:
    job = ps.Job()
    lines = job.source("lines", ps.parquet("x"), columns=LINES)
    deal(lines).map("work", same, columns=LINES).sink("out", ps.discard())
    spec = Spec(job=Job(entrypoint="a:b"), partition=asked)
    return compile_draft(JobFile(StreamJob("test", spec), {}), job.draft, None)


def with_schemes(stream: ps.Stream) -> ps.Stream:
    return stream.partition(schemes={"even": even, "hot": hot}, use="even")


def test_the_plan_has_the_names_and_the_edge_the_functions() -> None:
    job = compiled(with_schemes)
    assert job.plan.schemes == {"work": SchemeNames(("even", "hot"), "even")}
    (edge,) = job.edges
    assert edge.functions == {"even": even, "hot": hot}
    assert edge_text(edge) == "custom(even of even, hot)"
    assert decode_graph(encode_graph(job.graph)) == job.graph
    other = compiled(with_schemes, PartitionChoice(step="work", use="hot"))
    assert edge_text(other.edges[0]) == "custom(hot of even, hot)"
    assert other.plan == job.plan  # a choice changes no plan, so it restarts nothing


def test_all_streams_of_a_union_go_by_one_scheme() -> None:
    job = ps.Job()
    one, two = (job.source(name, ps.parquet("x"), columns=LINES) for name in ("one", "two"))
    with_schemes(one.union(two)).map("work", same, columns=LINES).sink("out", ps.discard())
    edges = compile_draft(JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None).edges
    assert [edge.functions for edge in edges] == 2 * [{"even": even, "hot": hot}]


def test_one_function_is_no_scheme() -> None:
    job = compiled(lambda stream: stream.partition(even))
    assert job.plan.schemes == {}
    assert job.edges[0].functions == {"": even}
    assert edge_text(job.edges[0]) == "custom"


@pytest.mark.parametrize(
    ("deal", "message"),
    [
        (lambda s: s.partition(schemes={}, use="even"), "it has no scheme: name at least one function"),
        (lambda s: s.partition(schemes={"even": even}, use="evne"), "use: unknown scheme 'evne': did you mean 'even'?"),
        (
            lambda s: s.partition(schemes={"Even": even}, use="Even"),
            "'Even' is no name of a scheme: write a lower-case",
        ),
        (lambda s: s.partition(schemes={"even": 3}, use="even"), "scheme 'even' is int, not a function"),
        (lambda s: s.partition(3), "its argument is int, not a function"),
        (lambda s: s.partition(schemes={"even": even}), "give one function, or schemes={name: function} with use=name"),
        (lambda s: s.partition(even, use="even"), "give one function, or schemes="),
        (lambda s: s.partition(), "give one function, or schemes="),
        (lambda s: s.partition(schemes={f"s{n}": even for n in range(33)}, use="s0"), "it has 33 schemes; at most 32"),
        (lambda s: s.partition(even).union(s), "union: call partition behind it"),
    ],
)
def test_a_wrong_partition_is_refused_where_it_was_written(
    deal: Callable[[ps.Stream], ps.Stream], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        compiled(deal)
    assert message in str(refused.value)
    assert "test_scheme_functions.py:" in str(refused.value)


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    (folder / "dealing.py").write_text(MODULE)
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "job.yaml").write_text(text)
    return folder / "job.yaml"


def test_a_file_has_the_same(tmp_path: Path) -> None:
    job = load_job(written(tmp_path), None)
    assert job.plan.schemes == compiled(with_schemes).plan.schemes
    assert edge_text(job.edges[0]) == "custom(hot of even, hot)"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("use: even", "use: evne", "use names the scheme of partitionSchemes that holds at first"),
        ("          use: even\n", "", "use names the scheme of partitionSchemes that holds at first"),
        ("partition: custom", "partition: broadcast", "custom needs partitionFunction or partitionSchemes"),
        ("use: even", "use: even\n          partitionFunction: dealing:hot", "needs partitionFunction or partition"),
        ('hot: "dealing:hot"', 'HOT: "dealing:hot"', "'HOT' is no name of a scheme"),
        ("dealing:hot", "dealing:hto", "hto"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_job(written(tmp_path, (old, new)), None)
    assert message in str(refused.value)
    assert "job.yaml:1" in str(refused.value)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("{step: work, use: cold}", "work=cold: step 'work' has no scheme 'cold'; its schemes: even, hot"),
        ("{step: wrok, use: hot}", "wrok=hot: no step 'wrok' has schemes; steps with schemes: work"),
    ],
)
def test_a_choice_of_the_file_that_cannot_be_is_refused_before_the_start(
    tmp_path: Path, choice: str, message: str
) -> None:
    file = read_job_file(written(tmp_path, ("{step: work, use: hot}", choice)))
    job = load_job(file, None)  # an engine takes it: what holds stays
    with pytest.raises(ConfigError) as refused:
        check_schemes(job, file)
    assert str(refused.value) == f"{tmp_path}/job.yaml:5: {message}"
