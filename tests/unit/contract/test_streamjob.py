"""The StreamJob file: strict, all problems at once, each with its place and the nearest name."""

import dataclasses
from collections.abc import Iterator

import pytest

from penstock.base.errors import ConfigError
from penstock.contract import streamjob as sj
from penstock.contract import streamsnapshot
from penstock.contract.graph import Aggregate, Function, OnError, Source, Window
from penstock.contract.job_reader import cluster_only, override, read_stream_job
from penstock.contract.reader import Origin, Reader
from penstock.contract.schema import FieldRow, Fields, Kind, Plain, rows_of
from penstock.contract.settings import (
    BackoffSettings,
    CompressionMode,
    RestartSettings,
    ShuffleSettings,
)
from penstock.contract.streamjob import SPEC, STREAM_JOB
from penstock.contract.streamjob_status import STATUS

STEPS: list[Plain] = [
    {"name": "lines", "source": {"parquet": {"path": "${input}/x"}, "columns": []}},
    {
        "name": "counts",
        "keyBy": ["w"],
        "aggregate": {"compute": [{"name": "n", "function": "count"}]},
    },
    {"name": "out", "sink": {"parquet": {"path": "$${kept}"}}},
]

VALUE_FROM: Plain = {"secretKeyRef": {"name": "s", "key": "k"}}


def job_file(spec: dict[str, Plain] | None = None, steps: list[Plain] | None = None) -> Plain:
    job: Plain = {"parameters": {"input": "in"}, "graph": {"steps": steps or STEPS}}
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "words"},
        "spec": {"job": job, **(spec or {})},
    }


def message(plain: Plain, origin: Origin | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_stream_job(plain, origin)
    return str(caught.value)


def test_defaults_are_those_of_the_value_classes() -> None:
    spec = read_stream_job(job_file()).spec
    assert spec == sj.Spec(job=spec.job)
    assert spec.checkpoint == sj.Checkpoint()


def test_units_are_read_and_kept_in_the_names() -> None:
    spec = read_stream_job(
        job_file(
            {
                "checkpoint": {"interval": "1m30s", "retain": 5},
                "shuffle": {
                    "bufferBytes": "64Ki",
                    "flushInterval": "500us",
                    "compression": {"mode": "auto"},
                },
                "state": {"memory": "64Mi"},
            }
        )
    ).spec
    assert spec.checkpoint == sj.Checkpoint(interval_s=90.0, retain=5)
    assert spec.shuffle.buffer_bytes == 65536
    assert spec.shuffle.flush_interval_s == 0.0005
    assert spec.shuffle.compression.mode is CompressionMode.AUTO
    assert spec.state.memory_bytes == 64 * 1024 * 1024


def test_restarts_are_bounded_as_the_file_says() -> None:
    backoff: Plain = {"initial": "1s", "max": "5s"}
    limit: Plain = {"attempts": 3, "window": "1m", "backoff": backoff}
    assert read_stream_job(job_file({"restart": limit})).spec.restart == RestartSettings(
        3, 60.0, BackoffSettings(1.0, 5.0)
    )
    assert read_stream_job(job_file()).spec.restart == RestartSettings(10, 600.0)
    said = message(job_file({"restart": {"backoff": {"initial": "1m"}}}))
    assert "backoff.initial (60 s) must not exceed backoff.max (30 s)" in said


def test_steps_are_typed_and_parameters_are_filled_in() -> None:
    graph = read_stream_job(job_file()).spec.job.graph
    assert graph is not None
    lines, counts, out = graph.steps
    assert isinstance(lines.parameters, Source)
    assert lines.parameters.connector.options["path"] == "in/x"
    assert isinstance(counts.parameters, Aggregate)
    assert counts.parameters.compute[0].function is Function.COUNT
    assert counts.key_by == ("w",)
    assert out.parameters.connector.options == {"path": "${kept}"}  # type: ignore[union-attr]


def test_window_and_function_fields() -> None:
    steps: list[Plain] = [
        STEPS[0],
        {"name": "m", "map": {"function": "jobs:parse", "onError": "dead-letter", "batchRows": 10}},
        {
            "name": "w",
            "keyBy": ["k"],
            "window": {
                "size": "1m",
                "allowedLateness": "10s",
                "compute": [{"name": "s", "function": "sum", "column": "t"}],
            },
        },
    ]
    graph = read_stream_job(job_file(steps=steps)).spec.job.graph
    assert graph is not None
    mapped, window = graph.steps[1].parameters, graph.steps[2].parameters
    assert mapped.call.on_error is OnError.DEAD_LETTER  # type: ignore[union-attr]
    assert isinstance(window, Window)
    assert (window.size_us, window.allowed_lateness_us) == (60_000_000, 10_000_000)


def test_all_problems_come_at_once_with_places() -> None:
    plain = job_file({"replicaz": 2, "checkpoint": {"interval": "5 s"}}, steps=[{"name": "x", "splt": {}}])
    origin = Origin("job.yaml", {"": "job.yaml:1", "spec.replicaz": "job.yaml:7", "spec.job": "job.yaml:9"})
    lines = message(plain, origin).splitlines()
    assert "job.yaml:7: spec.replicaz: unknown field 'replicaz': did you mean 'replicas'?" in lines
    assert any("job.yaml:9: spec.job.graph.steps[0].splt: unknown field 'splt'" in x for x in lines)
    assert any("'5 s' is no duration" in x for x in lines)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"replicas": 300}, "replicas (300) must not exceed maxKeyGroups (256)"),
        ({"replicas": 4, "maxReplicas": 3}, "replicas (4) must not exceed maxReplicas (3)"),
        ({"maxReplicas": 512}, "maxReplicas (512) must not exceed maxKeyGroups (256)"),
        ({"replicas": 0}, "must be at least 1"),
        ({"maxKeyGroups": 40000}, "must be at most 32768"),
        ({"shuffle": {"highWatermark": "1Mi"}}, "must be above lowWatermark"),
        ({"shuffle": {"bufferBytes": "9Mi"}}, "must not exceed highWatermark"),
        ({"replicas": True}, "expected a whole number, got a boolean"),
        (
            {"upgrade": {"mode": "savepoint"}},
            "unknown value 'savepoint': did you mean 'Savepoint'?",
        ),
        ({"restore": {"nonce": "1"}}, "the newest checkpoint is restored: say what to give up"),
        ({"restore": {"nonce": "1", "path": "a", "empty": True}}, "may be given"),
        ({"restore": {"nonce": "1", "path": "a", "dropState": ["A b"]}}, "'A b' does not fit"),
        (
            {"restore": {"nonce": "1", "dropState": ["a"], "allowNonRestoredState": True}},
            "allowNonRestoredState all state that no step takes",
        ),
        ({"restore": {"nonce": "1", "empty": True}}, "it needs allowOutputReplay: true"),
        ({"state": {"memory": "64MB"}}, "'64MB' is no quantity"),
        ({"job": {"entrypoint": "a:b", "script": "x"}}, "entrypoint and script are there"),
        ({"job": {"entrypoint": "a.b"}}, "'a.b' does not fit: package.module:function"),
        ({"job": {"entrypoint": "a:b", "parameters": {"x": 1.5}}}, "got 1.5: put it in quotes"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "name 'A' is there twice"),
        ({"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}, "maxReplicas (2) must be at least"),
        ({"maxReplicas": 2, "autoscaling": {"maxReplicas": 2}}, "autoscaling and maxReplicas are"),
        ({"autoscaling": {"maxReplicas": 512}}, "autoscaling.maxReplicas (512) must not exceed"),
        ({"env": [{"name": "PENSTOCK_X"}]}, "names that begin with PENSTOCK_ belong to"),
        ({"env": [{"name": "A", "value": "", "valueFrom": VALUE_FROM}]}, "value and valueFrom are"),
        ({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1999m"}}}, "requests must not"),
        ({"resources": {"limits": {"cpu": "1 core"}}}, "'1 core' does not fit: an amount like"),
        ({"placement": {"nodes": ["a", "a"]}}, "'a' is there twice"),
        ({"podTemplate": {"spec": []}}, "spec.podTemplate.spec: expected an object, got a list"),
        ({"restartNonce": 2**63}, "does not fit 64 bits"),
        ({"image": ""}, "spec.image: is empty"),
        ({"autoscaling": {"maxReplicas": 2, "targetBusy": float("nan")}}, "a finite number"),
        ({"job": {"entrypoint": "a:b", "args": ["x"] * 257}}, "has 257 items; at most 256"),
        ({"job": {"script": 1}}, "expected a text, got 1: put it in quotes"),
    ],
)
def test_rules(spec: dict[str, Plain], expected: str) -> None:
    assert expected in message(job_file(spec))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            {"name": "a", "keyBy": ["k"], "partition": "broadcast", "split": {"column": "c"}},
            "keyBy and partition",
        ),
        (
            {"name": "a", "partition": "custom", "split": {"column": "c"}},
            "custom needs partitionFunction or partitionSchemes",
        ),
        (
            {"name": "a", "aggregate": {"compute": [{"name": "n", "function": "count"}]}},
            "keyBy is missing",
        ),
        (
            {
                "name": "a",
                "keyBy": ["k"],
                "aggregate": {"compute": [{"name": "n", "function": "sum"}]},
            },
            "sum needs a column",
        ),
        ({"name": "a", "source": {"parket": {"path": "x"}}}, "did you mean 'parquet'?"),
        ({"name": "a", "source": {"parquet": {}}}, "field 'path' is missing"),
        (
            {"name": "a", "source": {"parquet": {"path": "x"}, "generator": {}}},
            "parquet and generator are there",
        ),
        (
            {"name": "a", "split": {"column": "__hidden"}},
            "names that begin with __ belong to the engine",
        ),
        ({"name": "Big", "split": {"column": "c"}}, "'Big' does not fit: a lower-case letter"),
        ({"name": "a", "sink": {"parquet": {"path": "${outptu}"}}}, "unknown parameter 'outptu'"),
    ],
)
def test_step_rules(step: Plain, expected: str) -> None:
    assert expected in message(job_file(steps=[step]))


def test_another_version_and_kind_are_refused() -> None:
    plain = job_file()
    assert isinstance(plain, dict)
    plain |= {"apiVersion": "penstock.dev/v1", "kind": "Job"}
    text = message(plain)
    assert "unknown value 'penstock.dev/v1': did you mean 'penstock.dev/v1alpha1'?" in text
    assert "spec" not in text


def test_a_parameter_that_no_step_uses_is_misspelt() -> None:
    plain, path = override(job_file(), "job.parameters.inptu=x")
    origin = Origin("job.yaml", {path: "--set job.parameters.inptu=x"})
    assert message(plain, origin) == (
        "--set job.parameters.inptu=x: spec.job.parameters.inptu: no step uses it; "
        "unknown parameter 'inptu': did you mean 'input'?"
    )


def test_choices_and_names_of_items_are_never_parameters() -> None:
    step: Plain = {"name": "a", "partition": "${input}", "split": {"column": "${input}"}}
    assert "unknown value '${input}'" in message(job_file(steps=[step]))


def test_whole_numbers_may_be_written_as_floats() -> None:
    spec = read_stream_job(job_file({"replicas": 2.0, "state": {"memory": 67108864.0}, "restartNonce": -1e3})).spec
    assert (spec.replicas, spec.state.memory_bytes) == (2, 64 * 1024 * 1024)
    assert spec.restart_nonce == -1000


def test_a_cluster_asks_for_more() -> None:
    with pytest.raises(ConfigError) as caught:
        read_stream_job(job_file({"checkpoint": {"interval": "1s"}}), cluster=True)
    assert "spec: field 'image' is missing: image of the workers" in str(caught.value)
    assert "field 'volume' is missing: where checkpoints live in a cluster" in str(caught.value)


def test_what_only_a_cluster_uses_is_listed() -> None:
    plain = job_file(
        {
            "image": "x",
            "suspend": True,
            "checkpoint": {"interval": "1s", "volume": {"claimName": "c"}},
            "state": {"volume": {}},
        }
    )
    assert cluster_only(plain) == (
        "spec.image",
        "spec.suspend",
        "spec.checkpoint.volume",
        "spec.state.volume",
    )
    assert cluster_only([]) == ()


def test_a_list_or_a_text_is_no_job() -> None:
    assert message([1]) == "the object: expected an object, got a list"


# --- The table itself --------------------------------------------------------------------------


def rows(row: FieldRow, path: str) -> Iterator[tuple[str, FieldRow]]:
    for child in row.fields:
        yield f"{path}.{child.name}", child
        yield from rows(child, f"{path}.{child.name}")


ALL_ROWS = [
    *rows(SPEC, "spec"),
    *rows(STATUS, "status"),
    *rows(streamsnapshot.SPEC, "StreamSnapshot.spec"),
    *rows(streamsnapshot.STATUS, "StreamSnapshot.status"),
]


def test_every_row_has_a_meaning_and_a_readable_default() -> None:
    for path, row in ALL_ROWS:
        assert row.meaning, path
        if row.default is not None and row.kind is not Kind.OBJECT:
            reader = Reader(Origin())
            reader.read(row, row.default, path)
            assert not reader.problems, path


def test_every_attribute_is_a_field_and_its_default_is_read_as_it_is() -> None:
    made = {row.make for _, row in ALL_ROWS if row.kind in {Kind.OBJECT, Kind.LIST}}
    classes = [c for c in made if isinstance(c, type) and issubclass(c, Fields)]
    assert len(classes) > 30
    for kind in classes:
        attributes = {f.name: f.default for f in dataclasses.fields(kind)}
        rows_by_name = {row.target: row for row in rows_of(kind)}
        assert rows_by_name.keys() == attributes.keys(), kind
        for name, default in attributes.items():
            row = rows_by_name[name]
            if row.default is not None and row.kind is not Kind.OBJECT:
                read = Reader(Origin()).read(row, row.default, name)
                assert (type(read), read) == (type(default), default), f"{kind}.{name}"


# --- --set -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("job.parameters.input=x=y", "spec.job.parameters.input"),
        ("spec.replicas=3", "spec.replicas"),
        ("metadata.name=other", "metadata.name"),
        (
            "job.graph.steps[lines].source.parquet.path=q",
            "spec.job.graph.steps[0].source.parquet.path",
        ),
        ("job.graph.steps[1].parallelism=2", "spec.job.graph.steps[1].parallelism"),
        ("security.mtls=false", "spec.security.mtls"),
        ('restore={"nonce": "1", "path": "p"}', "spec.restore"),
    ],
)
def test_set_writes_one_value(setting: str, path: str) -> None:
    before = job_file()
    after, where = override(before, setting)
    assert where == path
    assert before == job_file()
    assert read_stream_job(after) != read_stream_job(before)


def test_set_keeps_texts_that_look_like_numbers() -> None:
    plain, _ = override(job_file(), "job.parameters.input=007")
    assert read_stream_job(plain).spec.job.parameters["input"] == "007"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("replicas", "write path=value"),
        ("replicaz=2", "--set replicaz=2: unknown field 'replicaz': did you mean 'replicas'?"),
        ("replicas=two", "expected a whole number, got 'two'"),
        ("job.graph.steps[lins].name=x", "unknown item 'lins': did you mean 'lines'?"),
        ("job.graph.steps[7].name=x", "has 3 items; there is no [7]"),
        ("replicas.x=1", "spec.replicas is a value (integer) and has no field 'x'"),
        ("job..x=1", "'job..x' is no path"),
    ],
)
def test_set_complains_with_what_was_typed(setting: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override(job_file(), setting)
    assert expected in str(caught.value)


def test_shuffle_settings_hold_their_relation_however_they_are_made() -> None:
    with pytest.raises(ConfigError, match="must be above lowWatermark"):
        ShuffleSettings(high_watermark_bytes=1, low_watermark_bytes=1, buffer_bytes=1)
    assert STREAM_JOB.fields
