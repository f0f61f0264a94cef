"""Commands as a shell runs them: output, messages on standard error, exit codes."""

import json
import os
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock.base.errors import ConfigError, ConnectorError, StorageError
from penstock.base.values import replace
from penstock.cli.app import exit_code, make_app
from penstock.cli.exits import Exit, exit_of_error
from penstock.cli.local_settings import cluster_settings, restore_of
from penstock.cli.preflight import Begins, check_before_start
from penstock.cli.run import logs_command
from penstock.cluster.rpc import ASK, RESCALE, Server
from penstock.contract.latest import ANY_STATE, Restore, SinkRestore, Unpublished, is_done
from penstock.contract.status import RequestAnswer
from penstock.contract.streamjob import AllUnpublished, Job, RestoreFrom, Spec
from penstock.graph import keep_job_file, read_job_file
from penstock.supervisor.folders import Endpoint, JobFolder, starting
from tests.unit.kubernetes.small_api import small_api

TABLE_JOB = """apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: tables}}
spec:
  job:
    graph:
      steps:
        - {{name: lines, source: {{delta: {{table: {folder}/none}}{columns}}}}}
        - {{name: output, sink: {{parquet: {{path: {folder}/out}}}}}}
"""
EXAMPLES = Path(__file__).parents[3] / "examples"
COMMANDS = [
    "run",
    "validate",
    "graph",
    "status",
    "rescale",
    "partition",
    "rebalance",
    "checkpoint",
    "savepoint",
    "stop",
    "logs",
    "replay",
]


def test_help_names_every_command_and_the_exit_codes() -> None:
    done = CliRunner().invoke(make_app(), ["--help"])
    assert done.exit_code == 0
    assert all(f"\n  {c} " in done.output for c in COMMANDS)
    assert "0 done, 1 failed, 2 something must be edited" in done.output
    for command in COMMANDS[:-1]:
        assert CliRunner().invoke(make_app(), [command, "--help"]).exit_code == 0


def test_version() -> None:
    assert CliRunner().invoke(make_app(), ["--version"]).output == "penstock 0.1.0\n"


@pytest.mark.parametrize("format_", ["text", "svg", "mermaid"])
def test_graph_draws(format_: str, tmp_path: Path) -> None:
    file = str(EXAMPLES / "wordcount.yaml")
    done = CliRunner().invoke(make_app(), ["graph", file, "--format", format_])
    assert done.exit_code == 0
    assert "counts" in done.output
    assert "key(word)" in done.output
    written = CliRunner().invoke(make_app(), ["graph", file, "-f", format_, "-o", f"{tmp_path}/g"])
    assert written.output == f"wrote {tmp_path}/g\n"
    assert (tmp_path / "g").read_text() == done.output


def test_validate_for_a_cluster_asks_for_what_its_api_server_asks_for() -> None:
    here, there = EXAMPLES / "wordcount.yaml", EXAMPLES / "kubernetes" / "wordcount.yaml"
    done = CliRunner().invoke(make_app(), ["validate", "--cluster", str(here)])
    assert isinstance(done.exception, ConfigError)
    assert "field 'image' is missing: image of the workers" in str(done.exception)
    assert "field 'volume' is missing: where checkpoints live" in str(done.exception)
    done = CliRunner().invoke(make_app(), ["validate", "--cluster", str(there)])
    assert done.output.endswith("wordcount: 4 steps in 2 stages, all well\n")


ROWS = "{kafka: {bootstrapServers: b, topic: t, MORE}, columns: [{name: word, type: string}]}"
WRONG_OPTIONS = [
    (
        ROWS.replace("MORE", "startup: yesterday"),
        "discard: {}",
        "5: step 'rows': kafka source: startup is 'yesterday'",
    ),
    (ROWS, "kafka: {bootstrapServers: b, topic: u, keyColumn: wrod}", "6: step 'out': kafka sink: keyColumn: unknown"),
    (
        ROWS,
        "postgres: {uri: 'postgresql://u@h/d?sslmod=no', table: t}",
        "6: step 'out': postgres: uri: unknown setting",
    ),
    (
        ROWS.replace("MORE", "clientFile: /no/such"),
        "discard: {}",
        "5: step 'rows': kafka: there is no clientFile /no/such",
    ),
    *(
        (ROWS, f"{sink}: {{{options}, {option}: 'env:NO_SUCH'{more}}}", f"6: step 'out': {sink}: {option}: there is no")
        for sink, options, option, more in (
            ("postgres", "uri: 'postgresql://u@h/d', table: t", "password", ""),
            ("s3", "url: 's3://lake/words'", "secretKey", ", accessKey: 'file:/dev/null'"),
            ("iceberg", "catalog: 'https://c', table: a.b", "token", ""),
            ("delta", "table: 's3://lake/words'", "secretKey", ", accessKey: 'file:/dev/null'"),
            (
                "kafka",
                "bootstrapServers: b, topic: u, format: avro, registry: 'http://r', registryUser: me",
                "registryPassword",
                "",
            ),
        )
    ),
    (ROWS, "s3: {url: 's3://lake', accessKey: 'env:KEY'}", "6: step 'out': s3: accessKey and secretKey go together"),
    *(
        (ROWS.replace("MORE", option), "discard: {}", f"5: step 'rows': kafka: {told}, and this one is json")
        for option, told in (
            ("registryUser: me", "registryUser is for format avro"),
            ("readerSchema: '{}'", "readerSchema is for format avro"),
            ("delimiter: ';'", "delimiter is for format csv"),
        )
    ),
    *(
        (
            ROWS.replace("MORE", f"format: csv, delimiter: {sign}"),
            "discard: {}",
            f"5: spec.job.graph.steps[0].source.kafka.delimiter: {shown} does not fit: one character of ASCII",
        )
        for sign, shown in (("é", "'é'"), ("'\"'", "'\"'"), ('"\\n"', "'\\n'"))
    ),
    *(
        (
            ROWS,
            f"kafka: {{bootstrapServers: b, topic: u, {option}}}",
            f"6: step 'out': kafka: {told} is for format avro",
        )
        for option, told in (
            ("registry: 'http://r'", "registry"),
            ("registryPassword: 'env:R', format: raw", "registryPassword"),
            ("subject: words", "subject"),
            ("registerSchema: false", "registerSchema"),
        )
    ),
    *(
        (ROWS, f"iceberg: {{catalog: 'https://c', table: a.b, {option}}}", f"6: step 'out': iceberg: {told}")
        for option, told in (
            ("token: 'env:T', credential: 'env:C'", "credential is what a token is had for: give token or credential"),
            ("oauth2Server: 'https://id'", "oauth2Server is for tokens that are had for a credential"),
            ("token: 'env:T', scope: all", "scope is for tokens that are had for a credential: give credential, too"),
        )
    ),
]


@pytest.mark.parametrize(("source", "sink", "told"), WRONG_OPTIONS)
def test_validate_finds_options_that_do_not_fit_and_asks_no_server(
    tmp_path: Path, source: str, sink: str, told: str
) -> None:
    file = tmp_path / "job.yaml"
    steps = f"{{name: rows, source: {source.replace('MORE', '')}}},\n{{name: out, sink: {{{sink}}}}}"
    head = "apiVersion: penstock.dev/v1alpha1\nkind: StreamJob\nmetadata: {name: j}\n"
    file.write_text(f"{head}spec: {{job: {{graph: {{steps: [\n{steps}]}}}}}}\n")
    done = CliRunner().invoke(make_app(), ["validate", str(file)])
    assert isinstance(done.exception, ConfigError)
    assert f"job.yaml:{told}" in str(done.exception)
    assert list(tmp_path.iterdir()) == [file]


def test_commands_on_a_job_that_no_cluster_has_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_api() as server:
        cluster, context = {"server": server.url}, {"cluster": "c", "user": "u", "namespace": "here"}
        named = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": context}],
        }
        (tmp_path / "config").write_text(json.dumps({"current-context": "x", **named}))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        for command in (["status", "j"], ["rescale", "j", "2"], ["rebalance", "j"]):
            done = CliRunner().invoke(make_app(), [*command, "--context", "x"])
            assert done.exit_code == 3, command
            assert "no StreamJob 'j' in namespace 'here'" in done.stderr


def test_commands_on_a_job_that_does_not_run_say_so(tmp_path: Path) -> None:
    commands = (
        ["status", "j"],
        ["rescale", "j", "2"],
        ["partition", "j", "a=b"],
        ["rebalance", "j"],
        ["checkpoint", "j"],
        ["stop", "j"],
    )
    for command in commands:
        done = CliRunner().invoke(make_app(), [*command, "--dir", str(tmp_path)])
        assert done.exit_code == 3, command
        assert "'j'" in done.stderr or " j " in done.stderr, done.stderr


def test_a_fault_of_ours_is_one_line_and_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(lambda: tuple(range(1))[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["penstock"])
        assert exit_code(app) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: IndexError: tuple index out of range: this is a fault of Penstock")
    kept = Path(line.split()[-1])
    assert "Traceback" in kept.read_text()
    kept.unlink()


def test_a_missing_input_folder_is_found_before_anything_starts(tmp_path: Path) -> None:
    file = EXAMPLES / "wordcount.yaml"
    settings = [f"job.parameters.input={tmp_path}/nowhere"]
    with pytest.raises(ConfigError) as caught:
        check_before_start(read_job_file(file, settings), file, settings, Begins(tmp_path))
    assert "wordcount.yaml:19: step 'lines': " in str(caught.value)
    assert f"{tmp_path}/nowhere is not there" in str(caught.value)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("columns", ["", ", columns: [{name: line, type: string}]"])
def test_a_missing_table_is_found_before_anything_starts(tmp_path: Path, columns: str, *, first: bool) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(TABLE_JOB.format(folder=tmp_path, columns=columns))
    done = CliRunner().invoke(make_app(), ["validate", str(file), *(["--first"] if first else [])])
    assert isinstance(done.exception, ConnectorError if not columns else ConfigError)
    assert "job.yaml:8: step 'lines': delta: " in str(done.exception)
    assert "there is no table: correct `table`, or make the table first" in str(done.exception)
    with pytest.raises(ConfigError, match="there is no table"):
        check_before_start(read_job_file(file), file, (), Begins(tmp_path))


def test_a_catalog_that_does_not_answer_is_left_to_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StorageError("no answer")

    monkeypatch.setattr("penstock.connectors.open_connectors.delta_log", away)
    file = tmp_path / "job.yaml"
    file.write_text(TABLE_JOB.format(folder=tmp_path, columns=", columns: [{name: line, type: string}]"))
    assert CliRunner().invoke(make_app(), ["validate", str(file), "--first", "--quiet"]).exception is None
    done = CliRunner().invoke(make_app(), ["validate", str(file)])
    assert isinstance(done.exception, StorageError)


def test_folders_that_cannot_be_are_found_before_anything_starts(tmp_path: Path) -> None:
    file = EXAMPLES / "wordcount.yaml"
    (tmp_path / "empty").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").touch()
    (tmp_path / "file").touch()
    for given, at, message in (
        (("empty", "out"), "step 'lines'", "empty has no *.parquet file"),
        (("in", "file/out"), "step 'output'", f"can be no folder: {tmp_path}/file is a file"),
        (("in", "in/../in"), "step 'output'", "is the input of 'lines': name another folder"),
    ):
        names = zip(("input", "output"), given, strict=True)
        settings = [f"job.parameters.{name}={tmp_path}/{place}" for name, place in names]
        with pytest.raises(ConfigError) as caught:
            check_before_start(read_job_file(file, settings), file, settings, Begins(tmp_path))
        assert at in str(caught.value)
        assert message in str(caught.value)


def test_a_picture_or_state_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = ["graph", str(EXAMPLES / "wordcount.yaml"), "-o", f"{tmp_path}/file/x"]
    with pytest.raises(ConfigError, match=r"--output .*/file/x: Not a directory"):
        CliRunner().invoke(make_app(), command, catch_exceptions=False)
    job = read_job_file(EXAMPLES / "wordcount.yaml")
    with pytest.raises(ConfigError, match=r"--dir: .*/file/x: Not a directory"):
        keep_job_file(job, tmp_path / "file" / "x" / "job.json")


def test_what_the_cluster_is_told(tmp_path: Path) -> None:
    file = read_job_file(EXAMPLES / "wordcount.yaml", ["checkpoint.interval=125ms", "replicas=3"])
    settings = cluster_settings(file, tmp_path, None)
    assert (settings.job, settings.workers, settings.max_key_groups) == ("wordcount", 3, 256)
    assert settings.checkpoint.interval_s == 0.125
    assert settings.control.checkpoint_first_delay_s == 0.125
    assert settings.job_file.parent == tmp_path / "wordcount"
    other = read_job_file(EXAMPLES / "wordcount.yaml", ["replicas=4"])
    assert cluster_settings(other, tmp_path, None).job_file != settings.job_file


def test_what_a_job_begins_from(tmp_path: Path) -> None:
    spec = Spec(job=Job(entrypoint="a:b"))
    assert restore_of(spec, None, replay_output=False, drop_unpublished=False) is None
    latest = restore_of(spec, "latest", replay_output=True, drop_unpublished=False)
    assert latest is not None
    assert (latest.path, latest.epoch, latest.allow_output_replay) == (None, None, True)
    epoch = restore_of(spec, "12", replay_output=False, drop_unpublished=False)
    folder = restore_of(spec, str(tmp_path), replay_output=False, drop_unpublished=True)
    assert epoch is not None
    assert folder is not None
    assert (epoch.epoch, folder.path, folder.drop_unpublished) == (12, str(tmp_path), True)
    assert len({latest.nonce, epoch.nonce, folder.nonce}) == 3
    with pytest.raises(ConfigError, match="there is no such folder"):
        restore_of(spec, f"{tmp_path}/no", replay_output=False, drop_unpublished=False)


def test_restore_of_the_file_happens_once_by_its_nonce(tmp_path: Path) -> None:
    given = RestoreFrom("n1", path=str(tmp_path), unpublished=AllUnpublished.DROP)
    spec = Spec(job=Job(entrypoint="a:b"), restore=given)
    restore = restore_of(spec, None, replay_output=False, drop_unpublished=False)
    assert restore is not None
    assert (restore.nonce, restore.path, restore.drop_unpublished) == ("n1", str(tmp_path), True)
    assert restore.drop_state == ()
    spec = replace(spec, restore=replace(given, allow_non_restored_state=True))
    every = restore_of(spec, None, replay_output=False, drop_unpublished=False)
    assert every is not None
    assert every.drop_state == (ANY_STATE,)


def test_state_is_given_up_of_the_newest_checkpoint_unless_another_is_named(tmp_path: Path) -> None:
    spec = Spec(job=Job(entrypoint="a:b"))
    newest = restore_of(spec, None, drop_state=["a", "b", "a"], replay_output=False, drop_unpublished=False)
    assert newest is not None
    assert (newest.path, newest.epoch, newest.drop_state) == (None, None, ("a", "b"))
    folder = restore_of(spec, str(tmp_path), drop_state=["a"], replay_output=False, drop_unpublished=False)
    assert folder is not None
    assert (folder.path, folder.drop_state) == (str(tmp_path), ("a",))
    with pytest.raises(ConfigError, match="leave --drop-state out"):
        restore_of(spec, "empty", drop_state=["a"], replay_output=False, drop_unpublished=False)


def test_output_is_given_up_sink_by_sink_of_the_newest_checkpoint() -> None:
    spec = Spec(job=Job(entrypoint="a:b"))

    def asked(*unpublished: str, spec: Spec = spec, drop: bool = False) -> Restore:
        found = restore_of(spec, None, replay_output=False, drop_unpublished=drop, unpublished=unpublished)
        assert found is not None
        return found

    named, sinks = asked("out=Publish", "other=Drop"), {"out": Unpublished.PUBLISH, "other": Unpublished.DROP}
    expected = tuple(SinkRestore(sink, how) for sink, how in sinks.items())
    assert (named.path, named.epoch, named.empty, named.unpublished) == (None, None, False, expected)
    assert asked(drop=True).drop_unpublished
    file = RestoreFrom("n1", unpublished_sinks={"out": "Publish", "other": "Drop"})
    assert asked(spec=replace(spec, restore=file)).unpublished == expected
    for wrong in ("out", "=Drop", "out=drop"):
        with pytest.raises(ConfigError, match="give SINK=Fail, SINK=Publish, SINK=Skip or SINK=Drop"):
            asked(wrong)


def test_a_restore_by_option_counts_for_the_one_of_the_file(tmp_path: Path) -> None:
    spec = Spec(job=Job(entrypoint="a:b"), restore=RestoreFrom("n1", path=str(tmp_path)))
    of_file = restore_of(spec, None, replay_output=False, drop_unpublished=False)
    by_option = restore_of(spec, "latest", replay_output=False, drop_unpublished=False)
    assert of_file is not None
    assert by_option is not None
    assert not is_done(of_file, None)
    assert not is_done(of_file, "n2")
    assert is_done(of_file, "n1")
    assert is_done(of_file, by_option.nonce)
    assert not is_done(Restore("n2"), by_option.nonce)
    assert not is_done(Restore("n1"), "other/n1"), "a nonce of the file's own"


def test_the_command_for_logs_names_the_folder(tmp_path: Path) -> None:
    job = read_job_file(EXAMPLES / "wordcount.yaml", ["job.parameters.input=a"])
    elsewhere = tmp_path / "my state"
    assert logs_command(cluster_settings(job, elsewhere, None)) == (f"penstock logs wordcount --dir '{elsewhere}'")
    here = cluster_settings(job, Path(".penstock"), None)
    assert logs_command(here) == "penstock logs wordcount"


def test_a_request_that_a_running_job_cannot_note_has_failed_and_is_not_unreachable(
    tmp_path: Path,
) -> None:
    def full(_request: object) -> RequestAnswer:
        raise StorageError("metadata.sqlite: database or disk is full")

    server = Server({ASK: full, RESCALE: full}, "secret")
    folder = JobFolder.make(tmp_path, "j", "default")
    folder.announce(Endpoint(os.getpid(), server.address, "secret"))
    commands = (
        ["stop", "j"],
        ["rescale", "j", "2"],
    )
    for command in commands:
        done = CliRunner().invoke(make_app(), [*command, "--dir", str(tmp_path)])
        assert isinstance(done.exception, StorageError), done.stderr
        assert exit_of_error(done.exception) is Exit.FAILED
        assert str(done.exception) == "metadata.sqlite: database or disk is full"
    server.close()
    for command in commands:
        done = CliRunner().invoke(make_app(), [*command, "--dir", str(tmp_path)])
        assert done.exit_code == Exit.UNREACHABLE
        assert "job 'j' does not answer" in done.stderr


def test_a_job_that_starts_cannot_be_asked_yet(tmp_path: Path) -> None:
    with starting(tmp_path, "j"):
        done = CliRunner().invoke(make_app(), ["status", "j", "--dir", str(tmp_path)])
    assert done.exit_code == Exit.UNREACHABLE
    assert "job 'j' is starting in " in done.stderr
