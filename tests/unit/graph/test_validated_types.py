"""The checks of columns that ``validate`` makes before a run. Each error names step and line."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError
from penstock.cli.inspect_job import validate
from penstock.connectors.file_output import parquet_form, stage
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.file_system import OS_FILES
from penstock.graph import load_job
from penstock.graph.compiled import CompiledJob

BERLIN = pa.timestamp("us", "Europe/Berlin")
TABLE = pa.table(
    {
        "k": ["a", "b"],
        "tags": [[1, 2], [3]],
        "pair": [{"x": 1}, {"x": 2}],
        "named": pa.array([[("x", 1)], []], pa.map_(pa.string(), pa.int64())),
        "ts": pa.array([0, 1], BERLIN),
        "utc": pa.array([0, 1], pa.timestamp("us", "UTC")),
        "money": pa.array([1, 2], pa.decimal128(5, 2)),
    }
)
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: types}}
spec:
  job:
    script: |
      import penstock as ps

      def job(params):
          job = ps.Job()
          rows = job.source("src", ps.parquet("{folder}"), {source})
          made = rows{steps}
          made.sink("out", ps.discard())
          return job
"""
COUNT = '.key_by("k").aggregate("count", n=ps.count())'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one file that has columns of unusual types."""
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(TABLE, data / "a.parquet")
    return data


def job_file(folder: Path, steps: str, source: str = "") -> Path:
    file = folder.parent / "types.yaml"
    file.write_text(JOB.format(folder=folder, steps=steps, source=source))
    return file


def compiled(folder: Path, steps: str, source: str = "") -> CompiledJob:
    return load_job(job_file(folder, steps, source), ConnectorInspector())


def complaint(folder: Path, steps: str, source: str = "") -> str:
    with pytest.raises(ConfigError) as error:
        compiled(folder, steps, source)
    return str(error.value)


def schema_at(job: CompiledJob, step: str) -> pa.Schema:
    node = next(n for stage in job.stages for n in stage.nodes if n.name == step)
    return node.input_schema()


def test_nested_columns_do_not_break_a_job_that_does_not_use_them(folder: Path) -> None:
    seen = schema_at(compiled(folder, COUNT), "count")
    assert seen.equals(TABLE.schema)


def test_nested_columns_may_be_declared(folder: Path) -> None:
    columns = 'columns={"k": "string", "pair": "struct<x: int64>", "tags": "list<item: int64>"}'
    assert schema_at(compiled(folder, COUNT, columns), "count").names == ["k", "pair", "tags"]


def test_a_column_that_cannot_pass_through_a_job_is_named(folder: Path) -> None:
    odd = pa.table({"k": ["a"], "y": pa.array([{"a: b": 1}], pa.struct([("a: b", pa.int64())]))})
    pq.write_table(odd, folder / "a.parquet")
    text = complaint(folder, COUNT)
    assert "types.yaml:12: step 'src': column 'y': columns of type struct<a: b: int64>" in text
    compiled(folder, COUNT, 'columns={"k": "string"}')


def test_a_misspelt_type_is_refused(folder: Path) -> None:
    text = complaint(folder, COUNT, 'columns={"k": "strng"}')
    assert "step 'src': column 'k': unknown column type 'strng': did you mean 'string'?" in text


def test_windows_keep_the_zone_of_their_time(folder: Path) -> None:
    steps = '.key_by("k").window("hours", "1h", n=ps.count())'
    seen = schema_at(compiled(folder, steps, 'event_time="ts"'), "out")
    assert seen.field("window_start").type == seen.field("window_end").type == BERLIN


def test_a_time_zone_must_be_declared_as_it_is_in_the_file(folder: Path) -> None:
    def check(kind: str, column: str) -> None:
        job = compiled(folder, "", f'columns={{"{column}": "{kind}"}}')
        source = job.graph.steps[0].parameters
        ConnectorInspector().check_files(source.connector, source.columns)  # type: ignore[union-attr]

    check("timestamp[us, tz=Europe/Berlin]", "ts")
    check("timestamp[us, tz=UTC]", "ts")  # the same instants
    check("timestamp[us]", "utc")  # with the same digits
    remedy = r"'ts' is timestamp\[us, tz=Europe/Berlin\].*declare 'timestamp\[us, tz=Europe/Berlin\]'"
    with pytest.raises(ConfigError, match=remedy):
        check("timestamp[us]", "ts")
    pq.write_table(pa.table({"ts": pa.array([0], pa.timestamp("us"))}), folder / "a.parquet")
    with pytest.raises(ConfigError, match="neither dropped nor guessed"):
        check("timestamp[us, tz=UTC]", "ts")


VIEWS = pa.table({"c": pa.array(["a" * 30], pa.string_view()), "b": pa.array([b"a" * 30], pa.binary_view())})
DISTINCT = '.key_by("c").distinct("own")'


def test_views_are_refused_where_they_are_declared_or_found(folder: Path) -> None:
    pq.write_table(VIEWS, folder / "a.parquet")
    text = "column 'c': columns of type string_view cannot pass through a job: declare string"
    for source in ("", 'columns={"c": "string_view"}'):
        assert f"types.yaml:12: step 'src': {text}" in complaint(folder, DISTINCT, source)
    steps = '.map("own", print, columns={"c": "list<item: binary_view>"})'
    text = "step 'own': column 'c': columns of type binary_view cannot pass through a job: declare binary"
    assert f"types.yaml:13: {text}" in complaint(folder, steps, 'columns={"c": "string"}')


def test_columns_of_views_in_files_are_read_as_what_is_declared(folder: Path) -> None:
    pq.write_table(VIEWS, folder / "a.parquet")
    columns = 'columns={"c": "string", "b": "binary"}'
    validate(job_file(folder, DISTINCT, columns), quiet=True)
    assert schema_at(compiled(folder, DISTINCT, columns), "own").types == [pa.string(), pa.binary()]


@pytest.mark.parametrize(
    ("kind", "per", "why"),
    [
        ("list<item: int64>", "record", "state column 'x' cannot be of type list<item: int64>"),
        ("halffloat", "batch", "state column 'x' cannot be of type halffloat"),
        ("timestamp[ns]", "record", "Python's dates and times have no ns"),
        ("strng", "batch", "unknown column type 'strng'"),
        ("timestamp[ns]", "batch", None),
        ("timestamp[us, tz=Europe/Berlin]", "record", None),
        ("decimal128(38, 4)", "record", None),
        ("large_binary", "record", None),
    ],
)
def test_state_columns_are_checked(folder: Path, kind: str, per: str, why: str | None) -> None:
    steps = f'.key_by("k").process("own", print, state={{"x": "{kind}"}}, per="{per}", columns={{"k": "string"}})'
    if why is None:
        compiled(folder, steps)
    else:
        assert "types.yaml:13: step 'own': " in (text := complaint(folder, steps))
        assert why in text


def test_a_state_column_named_twice_is_refused(folder: Path) -> None:
    state = '[("x", "int64"), ("x", "int64")]'
    steps = f'.key_by("k").process("own", print, state={state}, columns={{"k": "string"}})'
    assert "step 'own': two columns are named 'x'" in complaint(folder, steps)


def test_an_aggregate_of_decimals_is_refused_with_the_remedy(folder: Path) -> None:
    text = complaint(folder, '.key_by("k").aggregate("sums", s=ps.sum("money"))')
    assert "'money' has type decimal128(5, 2); it must be a number: cast a decimal to int64" in text


def test_validate_looks_at_every_file(folder: Path, capsys: Any) -> None:
    pq.write_table(TABLE.slice(1).drop_columns(["pair"]), folder / "b.parquet")
    file = job_file(folder, COUNT)
    validate(file, first=True, quiet=True)
    with pytest.raises(ConfigError, match=r"step 'src': .*b\.parquet has no column 'pair'"):
        validate(file)


def test_validate_compares_declared_columns_with_the_files(folder: Path) -> None:
    file = job_file(folder, COUNT, 'columns={"k": "int64"}')
    with pytest.raises(ConfigError, match=r"step 'src': .*column 'k' is string, declared is int64"):
        validate(file)


def test_types_that_parquet_lacks_are_stored_in_the_arrow_schema(tmp_path: Path) -> None:
    odd = pa.table({"ts": pa.array([0], BERLIN), "span": pa.array([5], pa.duration("us"))})
    stage(OS_FILES, tmp_path / "odd.parquet", parquet_form(odd.schema), odd.to_batches())
    assert pq.read_table(tmp_path / "odd.parquet").schema.equals(odd.schema)
    plain = pa.table({"text": pa.array(["a"], pa.large_string())})
    stage(OS_FILES, tmp_path / "plain.parquet", parquet_form(plain.schema), plain.to_batches())
    assert pq.read_table(tmp_path / "plain.parquet").schema.field("text").type == pa.string()
