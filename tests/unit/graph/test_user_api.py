"""The Python API and the file make the same graph; steps that are not keyed never shuffle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.columns import Column
from penstock.contract.graph import decode_graph, encode_graph
from penstock.contract.plan import Partitioning, PhysicalPlan, StateColumn, StepState
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import ENTRY, CompiledJob, JobFile, Link, load_job, read_job_file
from penstock.graph.load import compile_draft, draft_of

EXAMPLES = Path(__file__).parents[3] / "examples"
LINES = {"line": "string", "n": "int64"}


class EmptyInputs:
    def source_schema(self, connector: object, columns: object) -> pa.Schema:
        return pa.schema([("line", pa.string()), ("n", pa.int64())])


def compiled(build: Callable[[ps.Job], None], *, look: bool = False) -> CompiledJob:
    job = ps.Job()
    build(job)
    file = JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {})
    return compile_draft(file, job.draft, EmptyInputs() if look else None)


def stages(job: CompiledJob) -> list[tuple[str, ...]]:
    return [s.steps for s in job.plan.stages]


def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(0, "line", pc.utf8_upper(batch.column("line")))


def test_word_count_in_python_is_the_graph_of_the_file() -> None:
    def build(job: ps.Job) -> None:
        lines = job.source("lines", ps.parquet("data/lines"), columns={"line": "string"})
        counts = lines.split("words", "line").key_by("word").aggregate("counts", count=ps.count())
        counts.sink("output", ps.parquet("data/counts"))

    ours = compiled(build)
    theirs = load_job(EXAMPLES / "wordcount.yaml", None)
    assert stages(ours) == [("lines", "words"), ("counts", "output")]
    assert [e.keys for e in ours.edges] == [("word",)]
    assert ours.stages[1].nodes[0].outputs == theirs.stages[1].nodes[0].outputs
    assert ours.plan.states == theirs.plan.states
    assert decode_graph(encode_graph(theirs.graph)) == theirs.graph


def test_temperature_file_has_windows_with_a_late_output() -> None:
    job = load_job(EXAMPLES / "temperature.yaml", None)
    assert stages(job) == [("readings",), ("minutes", "output", "late")]
    window, output, late = job.stages[1].nodes
    assert window.time == "ts"
    assert [c.name for c in output.columns][:3] == ["mote", "window_start", "window_end"]
    assert output.columns[3:5] == (Column("count", "int64"), Column("sum", "double"))
    assert late.inputs == (Link(0, "late"),)
    assert [c.name for c in late.columns] == ["mote", "ts", "temperature"]
    assert job.edges[0].timed


@pytest.mark.parametrize(("lateness", "stage_count"), [("0s", 2), ("1s", 3)])
def test_a_step_that_holds_time_back_is_the_last_one_with_keys_of_its_stage(lateness: str, stage_count: int) -> None:
    def build(job: ps.Job) -> None:
        readings = job.source(
            "readings", ps.parquet("x"), columns={"mote": "int64", "ts": "timestamp[us]"}, event_time="ts"
        )
        first = readings.key_by("mote").window("first", "1m", allowed_lateness=lateness, n=ps.count())
        kept = first.filter("kept", lambda b: b.column("n"))
        kept.key_by("mote").aggregate("total", n=ps.sum("n")).sink("out", ps.discard())

    assert len(stages(compiled(build))) == stage_count


def test_steps_without_keys_are_chained() -> None:
    def build(job: ps.Job) -> None:
        lines = job.source("lines", ps.parquet("x"), columns=LINES, parallelism=3)
        left = lines.map("left", upper, columns=LINES)
        right = lines.filter("right", lambda b: b.column("n"))
        left.union(right).sink("out", ps.discard())

    job = compiled(build)
    assert stages(job) == [("lines", "left", "right", "out")]
    assert job.plan.stages[0].parallelism == 3
    assert job.stages[0].nodes[3].inputs == (Link(1, "main"), Link(2, "main"))


@pytest.mark.parametrize(
    ("deal", "expected"),
    [
        (ps.Stream.broadcast, Partitioning.BROADCAST),
        (ps.Stream.round_robin, Partitioning.ROUND_ROBIN),
        (lambda s: s.partition(lambda batch, tasks: [0] * batch.num_rows), Partitioning.CUSTOM),
        (lambda s: s.key_by("n"), Partitioning.KEY),
        (lambda s: s.parallel(4), Partitioning.ROUND_ROBIN),
    ],
)
def test_a_partitioning_begins_a_stage(deal: Callable[[ps.Stream], ps.Stream], expected: Partitioning) -> None:
    def build(job: ps.Job) -> None:
        stream = deal(job.source("lines", ps.parquet("x"), columns=LINES))
        stream.map("next", upper, columns=LINES).sink("out", ps.discard())

    job = compiled(build)
    assert stages(job) == [("lines",), ("next", "out")]
    edge = job.edges[0]
    assert edge.plan.partitioning is expected
    assert bool(edge.functions) == (expected is Partitioning.CUSTOM)
    assert job.stages[1].nodes[0].inputs == (Link(ENTRY, "main"),)
    assert job.plan.stages[1].keyed == (expected is Partitioning.KEY)


def test_a_union_of_stages_is_a_stage_with_forward_edges() -> None:
    def build(job: ps.Job) -> None:
        one = job.source("one", ps.parquet("x"), columns=LINES)
        two = job.source("two", ps.parquet("y"), columns=LINES)
        one.union(two).sink("out", ps.discard())

    job = compiled(build)
    assert stages(job) == [("one",), ("two",), ("out",)]
    assert {e.plan.partitioning for e in job.edges} == {Partitioning.FORWARD}


KEYED_AGAIN: list[tuple[Callable[[ps.KeyedStream], ps.Stream], bool]] = [
    (lambda s: s.aggregate("first", n=ps.count()), True),
    (lambda s: s.filter("first", upper), True),
    (lambda s: s.map("first", upper, columns=LINES), False),  # it may have changed the key
    (lambda s: s.aggregate("first", n=ps.count()).parallel(3), False),
]


@pytest.mark.parametrize(("before", "chained"), KEYED_AGAIN)
def test_rows_with_the_same_keys_stay_in_their_task(
    before: Callable[[ps.KeyedStream], ps.Stream], chained: bool
) -> None:
    def build(job: ps.Job) -> None:
        keyed = job.source("lines", ps.parquet("x"), columns=LINES).key_by("line")
        again = before(keyed).filter("same", upper).key_by("line")
        again.aggregate("second", m=ps.count()).sink("out", ps.discard())

    behind = [("first", "same", "second", "out")]
    job = compiled(build)
    if chained:
        assert stages(job) == [("lines",), *behind]
        assert job.plan.stages[1].keyed
    else:
        assert [names[-2:] for names in stages(job)][-1] == ("second", "out")
        assert len(job.edges) >= 2


def test_other_keys_begin_a_stage() -> None:
    def build(job: ps.Job) -> None:
        keyed = job.source("lines", ps.parquet("x"), columns=LINES).key_by("line")
        other = keyed.aggregate("first", n=ps.count()).key_by("n")
        other.aggregate("second", m=ps.count()).sink("out", ps.discard())

    assert stages(compiled(build)) == [("lines",), ("first",), ("second", "out")]


def test_columns_of_a_batch_function_are_found_by_a_call_with_an_empty_batch() -> None:
    def build(job: ps.Job) -> None:
        lines = job.source("lines", ps.parquet("x"))
        lines.map("loud", upper).sink("out", ps.discard())

    node = compiled(build, look=True).stages[0].node("loud")
    assert node.outputs["main"] == (Column("line", "string"), Column("n", "int64"))


def test_the_fingerprint_covers_the_whole_job_and_states_only_the_stored_columns() -> None:
    def build(key: str, path: str, lateness: str) -> PhysicalPlan:
        def make(job: ps.Job) -> None:
            rows = job.source(
                "rows",
                ps.parquet(path),
                columns={"k": "string", "line": "string", "ts": "timestamp[us]"},
                event_time="ts",
            )
            window = rows.key_by(key).window("w", "1m", allowed_lateness=lateness, n=ps.count())
            window.sink("out", ps.discard())

        return compiled(make).plan

    one, moved, other = (build(*how) for how in (("k", "x", "0s"), ("k", "y", "1s"), ("line", "x", "0s")))
    assert (moved.states, moved.state_fingerprint) == (one.states, one.state_fingerprint)
    assert other.states != one.states
    assert other.state_fingerprint != one.state_fingerprint
    assert len({p.fingerprint for p in (one, moved, other)}) == 3
    assert build("k", "x", "0s").fingerprint == one.fingerprint
    assert (
        StepState(
            "w",
            "window",
            keys=(Column("k", "string"),),
            columns=(StateColumn("n", "int64", "count"),),
            times=(60_000_000, 0),
        )
        in one.states
    )


def test_the_state_fingerprint_of_manifests_of_format_1_is_unchanged() -> None:
    found = {n: load_job(EXAMPLES / f"{n}.yaml", None) for n in ("wordcount", "temperature")}
    seen = {name: job.plan.state_fingerprint for name, job in found.items()}
    assert seen == {"wordcount": "c42e3a9d9b5939e2", "temperature": "a60450781e554629"}


def test_a_script_and_an_entrypoint_build_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = (
        "import penstock as ps\n"
        "def job(params):\n"
        "    job = ps.Job()\n"
        "    job.source('a', ps.parquet(params['input']), columns={'x': 'int64'})"
        ".sink('b', ps.discard())\n"
        "    return job\n"
    )
    (tmp_path / "my_test_job.py").write_text(body)
    head = "apiVersion: penstock.dev/v1alpha1\nkind: StreamJob\nmetadata: {name: j}\nspec:\n  job:\n"
    head += "    parameters: {input: here}\n"
    (tmp_path / "e.yaml").write_text(head + "    entrypoint: my_test_job:job\n")
    indented = "".join(f"      {line}\n" for line in body.splitlines())
    (tmp_path / "s.yaml").write_text(head + "    script: |\n" + indented)
    for name in ("e.yaml", "s.yaml"):
        job = load_job(tmp_path / name, None, ["job.parameters.input=there"])
        assert job.graph.step("a").parameters.connector.options == {"path": "there"}  # type: ignore[union-attr]


def test_a_kept_copy_compiles_to_the_same_job_and_names_the_same_lines(tmp_path: Path) -> None:
    from penstock.graph import keep_job_file

    file = read_job_file(EXAMPLES / "wordcount.yaml", ["job.parameters.input=q", "replicas=3"])
    keep_job_file(file, tmp_path / "job.json")
    again = load_job(tmp_path / "job.json", None)
    assert again == load_job(file, None)
    assert again.places["words"].endswith("wordcount.yaml:23")
    assert again.spec.replicas == 3


def test_pipeline_and_farm_only_build_graphs() -> None:
    def build(job: ps.Job) -> None:
        lines = job.source("lines", ps.parquet("x"), columns=LINES)
        shaped = ps.pipeline(one=upper, two=upper).on(lines)
        ps.farm("work", upper, workers=4, columns=LINES).on(shaped).sink("out", ps.discard())

    job = compiled(build, look=True)
    assert stages(job) == [("lines", "one", "two"), ("work", "out")]
    assert job.plan.stages[1].parallelism == 4
    assert job.edges[0].plan.partitioning is Partitioning.ROUND_ROBIN


def test_parameters_are_texts_that_typed_methods_convert() -> None:
    parameters = ps.Parameters({"n": "3", "x": "0.5", "on": "true", "t": "1m"})
    assert (parameters.integer("n"), parameters.number("x")) == (3, 0.5)
    assert (parameters.boolean("on"), parameters.seconds("t")) == (True, 60.0)
    assert (parameters.integer("m", 7), parameters.get("m")) == (7, None)
    with pytest.raises(ConfigError, match="unknown parameter 'nn': did you mean 'n'"):
        parameters["nn"]
    with pytest.raises(ConfigError, match="'on': expected a whole number, got 'true'"):
        parameters.integer("on")


def test_functions_are_not_imported_to_draw(tmp_path: Path) -> None:
    draft = draft_of(read_job_file(EXAMPLES / "wordcount.yaml"), with_functions=False)
    assert [s.name for s in draft.steps] == ["lines", "words", "counts", "output"]


def test_types_of_computed_columns() -> None:
    columns = {"k": "bool", "t": "timestamp[ms, tz=UTC]", "f": "float32", "i": "int8"}

    def build(job: ps.Job) -> None:
        rows = job.source("rows", ps.parquet("x"), columns=columns)
        rows.key_by("k").aggregate(
            "a",
            first=ps.min("t"),
            last=ps.last("k"),
            total=ps.sum("i"),
            mass=ps.sum("f"),
            mean=ps.mean("i"),
            there=ps.count("f"),
        ).sink("out", ps.discard())

    given = compiled(build).stages[1].nodes[0].outputs["main"]
    assert {c.name: c.type for c in given} == {
        "k": "bool",
        "first": "timestamp[ms, tz=UTC]",
        "last": "bool",
        "total": "int64",
        "mass": "double",
        "mean": "double",
        "there": "int64",
    }


def test_an_object_that_is_not_a_source_or_sink_is_refused() -> None:
    job = ps.Job()
    with pytest.raises(ps.ConfigError, match=r"step 'a': str is not a source: it lacks bounded"):
        job.source("a", "data/lines")
    lines = job.source("b", ps.parquet("x"), columns={"line": "string"})
    with pytest.raises(ps.ConfigError, match=r"test_user_api.*step 'o': str is not a sink: it lacks"):
        lines.sink("o", "data/out")


@pytest.mark.parametrize("tasks", [0, -1, 4097, "2", 2.0, True])
def test_a_number_of_tasks_that_no_step_can_have_is_refused_with_its_place(tasks: Any) -> None:
    lines = ps.Job().source("lines", ps.parquet("x"), columns=LINES, parallelism=4096)
    with pytest.raises(ConfigError, match=r"test_user_api\.py:\d+: parallel: tasks=.* a whole number from 1 to 4,096"):
        lines.parallel(tasks)
    with pytest.raises(ConfigError, match=r"test_user_api\.py:\d+: step 'b': parallelism=.* a whole number from 1 to"):
        ps.Job().source("b", ps.parquet("x"), columns=LINES, parallelism=tasks)


def test_a_new_input_column_changes_the_fingerprint_only_if_it_is_sent() -> None:
    class Wider(EmptyInputs):
        def source_schema(self, connector: object, columns: object) -> pa.Schema:
            return super().source_schema(connector, columns).append(pa.field("more", pa.int64()))

    def compiled_with(inputs: EmptyInputs, *, narrow: bool) -> str:
        job = ps.Job()
        rows = job.source("rows", ps.parquet("x"))
        words = rows.split("words", "line") if narrow else rows
        words.key_by("word" if narrow else "line").aggregate("n", n=ps.count()).sink("out", ps.discard())
        file = JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {})
        return compile_draft(file, job.draft, inputs).plan.fingerprint

    both = EmptyInputs(), Wider()
    assert len({compiled_with(inputs, narrow=True) for inputs in both}) == 1
    assert len({compiled_with(inputs, narrow=False) for inputs in both}) == 2


def test_a_step_that_a_stream_does_not_have_is_named_with_what_to_write() -> None:
    rows: Any = ps.Job().source("rows", ps.parquet("none"), columns={"k": "string"})
    with pytest.raises(AttributeError, match=r"process keeps state for each key: write \.key_by\(\.\.\.\)\.process"):
        rows.process("p", lambda row, state: [])
    with pytest.raises(AttributeError, match="unknown name 'flatmap': did you mean 'flat_map'"):
        rows.flatmap("f", lambda row: [])
    with pytest.raises(AttributeError, match="unknown name 'windows': did you mean 'window'"):
        rows.key_by("k").windows("w", "1m")
    assert not hasattr(rows, "__array__")
