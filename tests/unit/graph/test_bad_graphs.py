"""Wrong jobs: each message names file, line and step, says what is wrong, and names similar names."""

from pathlib import Path

import pytest

from penstock.base.errors import ConfigError, ConnectorError, StorageError
from penstock.base.limits import STEPS_MAX
from penstock.contract.columns import Column, Columns
from penstock.graph import load_job

HEAD = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: j}
spec:
  job:
    parameters: {input: data}
"""
SOURCE = "{name: src, source: {parquet: {path: x}, columns: [COLUMNS], MORE}}"
COLUMNS = (
    "{name: word, type: string}, {name: 'n', type: int64}, {name: ts, type: 'timestamp[us]'}, "
    "{name: tags, type: 'list<item: int64>'}"
)
COUNT = "aggregate: {compute: [{name: count, function: count}]}"
SINK = "{name: out, sink: {discard: {}}}"
TIME = "eventTime: {column: ts}"
SESSION = "session: {gap: 1m, compute: [{name: count, function: count}]}"
WINDOW = "window: {size: 1m, compute: [{name: count, function: count}]}"


def graph_file(folder: Path, *steps: str, columns: str = COLUMNS, source: str = "") -> Path:
    lines = [SOURCE.replace("COLUMNS", columns).replace("MORE", source or "batchRows: 10"), *steps]
    file = folder / "job.yaml"
    file.write_text(HEAD + "    graph:\n      steps:\n" + "".join(f"        - {x}\n" for x in lines))
    return file


def message(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_job(file, None)
    return str(caught.value)


WRONG_STEPS = [
    (
        f"{{name: a, keyBy: [wrod], {COUNT}}}",
        "'wrod' does not exist: unknown column 'wrod': did you mean 'word'?",
    ),
    (
        f"{{name: a, keyBy: [tags], {COUNT}}}",
        "'tags' has type list<item: int64>, for which there is no key hash",
    ),
    (f"{{name: a, keyBy: ['n', 'n'], {COUNT}}}", "a key column is named twice: n, n"),
    (
        "{name: a, inputs: [scr], split: {column: word}}",
        "unknown step 'scr': did you mean 'src'?",
    ),
    (
        "{name: a, inputs: [src.lat], split: {column: word}}",
        "unknown output 'lat': known are main (of step 'src')",
    ),
    (
        "{name: a, inputs: [src.dead-letter], split: {column: word}}",
        "has no output 'dead-letter'",
    ),
    ("{name: a, split: {column: 'n'}}", "column 'n' has type int64; it must be a text"),
    (
        "{name: a, keyBy: ['n'], aggregate: {compute: [{name: s, function: sum, column: word}]}}",
        "column of 's' 'word' has type string; it must be a number",
    ),
    *(
        (
            f"{{name: a, keyBy: ['n'], aggregate: {{compute: [{{name: s, function: {kind}, column: word}}]}}}}",
            "column of 's' 'word' has type string; it must be a number, bool, date or time",
        )
        for kind in ("min", "max", "last")
    ),
    (
        f"{{name: a, keyBy: ['n'], {WINDOW.replace('size: 1m', 'size: 1m, gap: 10s')}}}",
        "unknown field 'gap': sessions have a shape of their own: ps.session('30m'); in a job file a step with session",
    ),
    *(
        (f"{{name: a, keyBy: ['n'], {WINDOW.replace('size: 1m', times)}}}", problem)
        for times, problem in (
            ("size: 0s", "must be at least 1us"),
            ("size: 1m, slide: 0s", "must be at least 1us"),
            ("size: 1m, slide: 7s", "slide 7s does not divide size 1m: of size 1m it leaves 4s"),
            ("size: 1m, slide: 2m", "slide 2m is above size 1m"),
            ("size: 3d, slide: 1s", "size 72h has 259,200 slides of 1s; at most 4,096 are allowed"),
        )
    ),
    *(
        (f"{{name: a, keyBy: ['n'], {SESSION.replace('gap: 1m, ', given)}}}", problem)
        for given, problem in (
            ("gap: 0s, ", "must be at least 1us"),
            ("", "field 'gap' is missing: the time without a row that ends a session"),
            ("gap: 1m, size: 1m, ", "unknown field 'size'"),
            ("gap: 1m, ", "a window needs event time, and its rows have none"),
        )
    ),
    *(
        (f"{{name: a, keyBy: ['n'], countWindow: {{{given}compute: [{{name: count, function: count}}]}}}}", problem)
        for given, problem in (
            ("rows: 0, ", "must be at least 1"),
            ("", "field 'rows' is missing: how many rows of a key a window has"),
            ("rows: 3, size: 1m, ", "unknown field 'size'"),
        )
    ),
    (
        "{name: a, countWindow: {rows: 3, compute: [{name: c, function: count}]}}",
        "keeps state by key: keyBy is missing",
    ),
    (f"{{name: a, {SESSION}}}", "keeps state by key: keyBy is missing"),
    *(
        (f"{{name: a, keyBy: ['n'], {step}}}", problem)
        for step, problem in (
            ("distinct: {within: 0s}", "must be at least 1us"),
            ("distinct: {within: 1m}", "within needs event time, and its rows have none"),
            ("latest: {by: tss}", "column to rank by 'tss' does not exist: unknown column 'tss': did you mean 'ts'?"),
            ("latest: {by: word}", "column to rank by 'word' has type string; it must be a number, bool, date or time"),
            ("latest: {}", "field 'by' is missing"),
            ("top: {by: ts}", "field 'count' is missing"),
            ("top: {count: 0, by: ts}", "must be at least 1"),
            ("top: {count: 1001, by: ts}", "must be at most 1000"),
        )
    ),
    ("{name: a, top: {count: 2, by: ts}}", "keeps state by key: keyBy is missing"),
    (
        "{name: a, keyBy: ['n'], aggregate: {compute: [{name: 'n', function: count}]}}",
        "two columns are named 'n'",
    ),
    (
        f"{{name: a, keyBy: ['n'], {WINDOW}}}",
        "a window needs event time, and its rows have none",
    ),
    ("{name: a, map: {function: 'nowhere_at_all:f'}}", "there is no module 'nowhere_at_all'"),
    (
        "{name: a, map: {function: 'json:dumpz', per: record}}",
        "unknown name 'dumpz': did you mean 'dump'?",
    ),
    ("{name: a, map: {function: 'json:dumps', per: record}}", "columns are missing"),
    ("{name: a, inputs: [a], split: {column: word}}", "reads its own output: a <- a"),
    (
        "{name: a, parallelism: 3, partition: forward, split: {column: word}}",
        "forward from 'src' needs equal",
    ),
]


@pytest.mark.parametrize(("step", "expected"), WRONG_STEPS)
def test_steps(tmp_path: Path, step: str, expected: str) -> None:
    text = message(graph_file(tmp_path, step, SINK))
    assert expected in text
    assert f"{tmp_path / 'job.yaml'}:10: " in text


@pytest.mark.parametrize(
    ("sink", "field"),
    [
        ("s3: {url: 's3://key:hunter2@lake/words'}", "sink.s3.url"),
        ("delta: {table: 's3://key:hun/ter2@lake/words'}", "sink.delta.table"),
        (
            "iceberg: {catalog: 'https://c', table: a.b, oauth2Server: 'https://id:hunter2@c'}",
            "sink.iceberg.oauth2Server",
        ),
        ("kafka: {bootstrapServers: 'a:9092,me:hunter2@b:9092', topic: t}", "sink.kafka.bootstrapServers"),
    ],
)
def test_an_address_with_a_user_is_refused_and_not_shown(tmp_path: Path, sink: str, field: str) -> None:
    text = message(graph_file(tmp_path, f"{{name: a, sink: {{{sink}}}}}"))
    assert f"{field}: the text, not shown here, does not fit: " in text
    assert "ter2" not in text


def test_two_sinks_whose_files_would_have_equal_names_are_refused(tmp_path: Path) -> None:
    """A dash is no sign of a file name here, so the rows of one of them were lost."""
    sinks = [f"{{name: {name}, inputs: [src], sink: {{parquet: {{path: out}}}}}}" for name in ("a-b", "a_b")]
    assert "files would have the names of those of sink 'a-b', in the same folder" in message(
        graph_file(tmp_path, *sinks)
    )
    load_job(graph_file(tmp_path, sinks[0], sinks[1].replace("path: out", "path: other")), None)
    load_job(graph_file(tmp_path, sinks[0], sinks[1].replace("a_b", "ab")), None)


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ("postgres: {uri: 'postgresql://h/d', table: t, keyColumns: [word, day]}", "between: 'word,day'"),
        ("postgres: {uri: 'postgresql://h/d', table: t, keyColumns: [1]}", "between"),
        ("kafka: {bootstrapServers: ['me:hunter2@b:1', 'c:1'], topic: t}", "between"),
    ],
)
def test_a_list_where_a_text_has_commas_is_refused_with_the_text(tmp_path: Path, sink: str, told: str) -> None:
    text = message(graph_file(tmp_path, f"{{name: a, sink: {{{sink}}}}}"))
    assert f"expected a text, got a list: it is one text, with commas {told}" in text
    assert "hunter2" not in text


def test_a_sink_of_kafka_writes_no_csv(tmp_path: Path) -> None:
    text = message(graph_file(tmp_path, "{name: a, sink: {kafka: {bootstrapServers: b, topic: t, format: csv}}}"))
    assert "sink.kafka.format: unknown value 'csv': known are avro, json, raw" in text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "eventTime: {column: tss}",
            "event-time column 'tss' does not exist: unknown column 'tss'",
        ),
        (
            "eventTime: {column: 'n'}",
            "event-time column 'n' has type int64; it must be timestamp[us]",
        ),
        (
            "eventTime: {column: word, unit: s}",
            "event-time column 'word' has type string; it must be int64 or int32, because a time unit is given",
        ),
        ("eventTime: {column: 'n', unit: min}", "eventTime.unit: unknown value 'min': known are ms, s, us"),
    ],
)
def test_event_time(tmp_path: Path, source: str, expected: str) -> None:
    assert expected in message(graph_file(tmp_path, SINK, source=source))


def test_a_window_is_refused_if_a_step_drops_the_event_time(tmp_path: Path) -> None:
    words = "{name: words, split: {column: word}}"
    text = message(graph_file(tmp_path, words, f"{{name: w, keyBy: [word], {WINDOW}}}", SINK, source=TIME))
    assert "step 'w': a window needs event time, and its rows have none" in text


def test_a_cycle_is_reported_with_all_its_steps(tmp_path: Path) -> None:
    steps = (
        "{name: a, inputs: [src, b], split: {column: word}}",
        "{name: b, inputs: [a], split: {column: word}}",
        SINK,
    )
    assert "step 'a': reads its own output: a <- b <- a" in message(graph_file(tmp_path, *steps))


def test_unread_outputs_and_readers_of_sinks_are_refused(tmp_path: Path) -> None:
    file = graph_file(tmp_path, SINK, "{name: a, inputs: [src], split: {column: word}}")
    assert "step 'a': nothing reads it; end every branch with a sink" in message(file)
    file = graph_file(tmp_path, SINK, "{name: a, split: {column: word}}", "{name: o, sink: {discard: {}}}")
    assert "step 'out' is a sink: nothing can be read from it" in message(file)
    dead = "{name: a, filter: {function: 'json:dumps', onError: dead-letter}}"
    assert "nothing reads its output 'dead-letter'" in message(graph_file(tmp_path, dead, SINK))


def test_inputs_with_different_columns_are_refused(tmp_path: Path) -> None:
    words = "{name: words, split: {column: word}}"
    text = message(graph_file(tmp_path, words, "{name: out, inputs: [src, words], sink: {discard: {}}}"))
    assert "its inputs have different columns: src has (word string, n int64" in text


def test_too_many_steps(tmp_path: Path) -> None:
    steps = [f"{{name: s{i}, inputs: [src], sink: {{discard: {{}}}}}}" for i in range(STEPS_MAX)]
    assert f"has {STEPS_MAX + 1} items; at most {STEPS_MAX} are allowed" in message(graph_file(tmp_path, *steps))


WRONG_ENTRYPOINTS = [
    (
        "import nothing_here_xyz\n",
        "bad_job.py:1: ModuleNotFoundError: No module named 'nothing_here_xyz'",
    ),
    ("x = 1\ny = x / 0\n", "bad_job.py:2: ZeroDivisionError: division by zero"),
    ("def job(:\n", "bad_job.py:1: SyntaxError"),
    ("def jab(params): pass\n", "unknown name 'job': did you mean 'jab'?"),
    ("job = 3\n", "is not a function: it is int"),
    (
        "def job(params):\n    return params['inptu']\n",
        "bad_job.py:2: unknown parameter 'inptu': did you mean 'input'?",
    ),
    ("def job(params):\n    raise KeyError('q')\n", "bad_job.py:2 (in job): KeyError: 'q'"),
    (
        "def job(params):\n    return 3\n",
        "the function returned int; it must return the ps.Job",
    ),
    (
        "import penstock as ps\ndef job(params):\n    j = ps.Job()\n"
        "    s = j.source('a', ps.parquet('x'), columns={'w': 'string'})\n"
        "    s.key_by('v').aggregate('c', n=ps.count()).sink('o', ps.discard())\n"
        "    return j\n",
        "bad_job.py:5: step 'c': key column 'v' does not exist: unknown column 'v': known are w",
    ),
    (
        "import penstock as ps\ndef job(params):\n    j = ps.Job()\n"
        "    j.source('a', ps.parquet('x'))\n    j.source('a', ps.parquet('x'))\n"
        "    return j\n",
        "bad_job.py:5: a step named 'a' exists already (at ",
    ),
    (
        "import penstock as ps\ndef job(params):\n    j = ps.Job()\n"
        "    j.source('a', ps.generator(rowz=3)).sink('o', ps.discard())\n    return j\n",
        "unknown field 'rowz': did you mean 'rows'?",
    ),
]


@pytest.mark.parametrize(("body", "expected"), WRONG_ENTRYPOINTS)
def test_entrypoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, expected: str) -> None:
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "bad_job", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "bad_job.py").write_text(body)
    (tmp_path / "job.yaml").write_text(HEAD + "    entrypoint: bad_job:job\n")
    text = message(tmp_path / "job.yaml")
    assert expected in text
    if "returned int" in expected or "unknown name" in expected:
        assert text.startswith("job.yaml:7: ")


def test_a_script_names_lines_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = "    script: |\n      def job(params):\n        return params['x']\n"
    (tmp_path / "job.yaml").write_text(HEAD + script)
    assert message(Path("job.yaml")).startswith("job.yaml:9: unknown parameter 'x'")
    (tmp_path / "job.yaml").write_text(HEAD + "    script: |\n      x =\n")
    assert message(Path("job.yaml")).startswith("job.yaml:8: job.script: invalid syntax")
    (tmp_path / "job.yaml").write_text(HEAD + "    script: |\n      x = 1\n")
    assert "defines no function job(params)" in message(Path("job.yaml"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1\n", "job.yaml:2: not YAML"),
        ("a: 1\na: 2\n", "job.yaml:2: 'a' occurs twice in one object"),
        ("a: 1\n---\nb: 2\n", "holds 2 objects; one is expected"),
        ("", "holds 0 objects"),
        ("? [1]\n: 2\n", "a key must be a text"),
        (
            "kind: StreamJob\nspek: {}\n",
            "job.yaml:2: spek: unknown field 'spek': did you mean 'spec'?",
        ),
    ],
)
def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(text)
    assert expected in message(Path("job.yaml"))


def test_a_missing_file() -> None:
    assert message(Path("no/such.yaml")) == "no/such.yaml: there is no such file"


def test_aliases_may_not_grow_without_bound(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)]
    (tmp_path / "job.yaml").write_text("".join(levels))
    assert "holds more than" in message(tmp_path / "job.yaml")


def test_a_batch_function_that_fails_without_rows_must_declare_its_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Inspector:
        def source_schema(self, connector: object, columns: Columns) -> list[Column]:
            return [Column("word", "string")]

    monkeypatch.chdir(tmp_path)
    (tmp_path / "fn_of_test.py").write_text("def f(batch):\n    return batch.nothing\n")
    file = graph_file(tmp_path, "{name: a, map: {function: 'fn_of_test:f'}}", SINK)
    with pytest.raises(ConfigError) as caught:
        load_job(file, Inspector())
    assert "its columns are not declared, and calling it with an empty batch failed" in str(caught.value)
    assert "fn_of_test.py:2 (in f): AttributeError" in str(caught.value)


@pytest.mark.parametrize("step", ["latest: {by: ts}", "top: {count: 3, by: ts}"])
def test_only_a_sink_reads_changes(tmp_path: Path, step: str) -> None:
    changes = f"{{name: best, keyBy: ['n'], {step}}}"
    load_job(graph_file(tmp_path, changes, SINK), None)
    text = message(graph_file(tmp_path, changes, "{name: b, split: {column: word}}", SINK))
    assert f"{tmp_path / 'job.yaml'}:11: step 'b': 'best' emits changes of a table (column 'op')" in text


@pytest.mark.parametrize("kind", [StorageError, ConnectorError])
def test_an_input_that_is_away_is_no_mistake_of_the_job(tmp_path: Path, kind: type[StorageError]) -> None:
    """An engine that starts again would end the job for good by a ConfigError."""

    class Away:
        def source_schema(self, connector: object, columns: Columns) -> list[Column]:
            raise kind("the store does not answer")

    file = graph_file(tmp_path, SINK)
    file.write_text(file.read_text().replace(f"columns: [{COLUMNS}], ", ""))
    with pytest.raises(kind, match=r"job.yaml:\d+: step 'src': the store does not answer") as caught:
        load_job(file, Away())
    assert type(caught.value) is kind
