"""What ``run`` checks before any process starts: the graph, inputs, outputs, and stored state.

User code is loaded in a process of its own, so that what it imports stays out of this one. No Arrow
is loaded here. The leader decides whether stored state fits; here its rules are only asked.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError, PenstockError, StateError, StorageError
from penstock.cli.record import JobRecord, read_record, record_of
from penstock.connectors.input_files import folder_names, list_input, look_at, nothing_to_read
from penstock.connectors.published import FILE_KINDS
from penstock.contract.connectors import Role
from penstock.contract.graph import Connector, Lookup, Sink, Source, Step
from penstock.contract.latest import ANY_STATE, Latest, Restore, is_done
from penstock.contract.status import passed_text
from penstock.graph.load import compile_draft, draft_of
from penstock.graph.scheme_functions import check_choices
from penstock.protocol.state_matching import Match, called, match, refusal, without
from penstock.supervisor.wording import as_options

if TYPE_CHECKING:
    from penstock.contract.declared_graph import DeclaredGraph
    from penstock.contract.manifest import RootManifest
    from penstock.contract.plan import PhysicalPlan
    from penstock.contract.streamjob import StreamJob
    from penstock.graph import JobFile
    from penstock.graph.compiled import CompiledJob, CompiledStep
    from penstock.supervisor.folders import JobFolder


TABLES = ("delta", "iceberg")  # sources that read a table


@dataclass(frozen=True, slots=True)
class Begins:
    """From what a run begins: the folder of all jobs, and what its options say."""

    directory: Path
    restore: str | None = None
    drop: tuple[str, ...] = ()


class Detail(StrEnum):
    """How much is said of stored state."""

    CHANGES = "changes"
    STEPS = "steps"
    FIELDS = "fields"


def fit_lines(job: "StreamJob", plan: "PhysicalPlan", begins: Begins, detail: Detail = Detail.STEPS) -> list[str]:
    """Say which steps take their state over, with which changes, which begin anew, and what is given up.

    Nothing where there is no checkpoint. ``detail`` FIELDS lists all fields of states with types, and needs a
    checkpoint; CHANGES leaves out the steps that take their state over. Raises StateError when it does not fit.
    """
    root, drop, savepoint = _stored(job, begins)
    if root is None:
        if detail is Detail.FIELDS:
            raise StateError(
                f"job {job.name!r} has no checkpoint in {begins.directory}, so there is nothing to restore"
            )
        return []
    left, why = without(root, plan, drop), refusal(root, plan, drop, savepoint)
    if why is not None:
        raise StateError(as_options(why))
    now, had = match(left, plan), match(root, plan)
    sources = {stage.source for stage in plan.stages}
    gone = [n for n in had.gone if n in drop or ANY_STATE in drop]
    what = called(root, savepoint)
    said = {
        f"{what}: the job takes over the state of": [] if detail is Detail.CHANGES else list(now.kept),
        f"{what} knows nothing of these sources, which are read from their beginning": [
            name for name in now.new if name in sources
        ],
        f"{what} has no state of these steps, which begin empty": [name for name in now.new if name not in sources],
        f"{what}: the job gives up the state of": [
            *gone,
            *(n for n in (*had.changed, *had.kept) if n in drop),
        ],
    }
    return [
        *(f"{text}: {', '.join(names)}" for text, names in said.items() if names),
        *(_field_lines(now) if detail is Detail.FIELDS else (f"{what}: {text}" for text in now.evolved)),
    ]


def _field_lines(found: Match) -> Iterator[str]:
    for step in found.kept:
        if step in found.migrated:
            yield f"step {step!r}: {found.migrated[step]}"
        elif step in found.fields:
            yield f"step {step!r}:"
            yield from (f"  {change}" for change in found.fields[step])


def _stored(job: "StreamJob", begins: Begins) -> tuple["RootManifest | None", Sequence[str], str | None]:
    """Find what a run would begin from, what it gives up of it, and the savepoint it is in."""
    from penstock.cli.local_settings import EMPTY, LATEST  # noqa: PLC0415

    folder = _folder_of(begins.directory, job)
    latest, given = _latest(folder), job.spec.restore
    restore, drop = begins.restore, begins.drop
    asked = restore is not None or bool(drop)
    restored = None if latest is None else latest.restored
    if not asked and given is not None and not is_done(Restore(given.nonce), restored):
        restore, drop = EMPTY if given.empty else given.path, given.dropped
    if restore == EMPTY or (restore is not None and restore.isdigit()):
        return None, (), None
    if restore is not None and restore != LATEST:
        path = str(Path(restore).resolve())
        return _savepoint(path), drop, path
    return _newest(folder, latest), drop, None


def _latest(folder: "JobFolder") -> Latest | None:
    from penstock.contract.latest import decode_latest  # noqa: PLC0415
    from penstock.contract.pod import latest_name  # noqa: PLC0415
    from penstock.storage.sqlite import Database, SqliteMetaStore  # noqa: PLC0415

    if not folder.database.exists():
        return None
    try:
        database = Database(folder.database)
        found = SqliteMetaStore(database).get(latest_name(folder.job))
        database.close()
        return None if found is None else decode_latest(found.data)
    except PenstockError:
        return None  # a run says what is wrong with it


def _folder_of(directory: Path, job: "StreamJob") -> "JobFolder":
    from penstock.supervisor.folders import JobFolder  # noqa: PLC0415  keep --help fast

    return JobFolder.find(directory, job.name, job.namespace)


def newest_state(directory: Path, job: "StreamJob") -> "tuple[Path, RootManifest]":
    """Return the folder of the files of a job's newest checkpoint on this machine, and its manifest.

    Raises StateError if the job has no checkpoint in ``directory``.
    """
    folder = _folder_of(directory, job)
    root = _newest(folder, _latest(folder))
    if root is None:
        raise StateError(f"job {job.name!r} has no checkpoint in {directory}")
    return folder.storage(folder.uid()), root


def _newest(folder: "JobFolder", latest: Latest | None) -> "RootManifest | None":
    from penstock.supervisor.committed import read_manifest  # noqa: PLC0415

    return None if latest is None else read_manifest(folder.storage(folder.uid()), latest.root)


def _savepoint(path: str) -> "RootManifest":
    from penstock.keeper.savepoint_copies import read_snapshot  # noqa: PLC0415
    from penstock.protocol.keeper_core_messages import ImportFailed, ReadSnapshot, SnapshotRead  # noqa: PLC0415

    found = read_snapshot(ReadSnapshot(0, path))
    if isinstance(found, SnapshotRead):
        return found.manifest
    reason = found.reason if isinstance(found, ImportFailed) else "it cannot be read"
    raise StateError(f"--restore {path}: {reason}")


CHANGE = "changed: "  # begins a line of a quiet validation, for the process that started it


MISFIT = CHANGE + "stored state does not fit"


@dataclass(frozen=True, slots=True)
class Checked:
    """A job as it would run now. ``changes`` has one line for each state of its checkpoint that is not taken over."""

    record: JobRecord
    changes: tuple[str, ...] = ()


def check_before_start(job: "JobFile", file: Path, settings: Sequence[str], begins: Begins) -> Checked:
    """Describe the job as it would run, with what is not taken over of the checkpoint.

    Raises ConfigError when the job cannot run: unknown columns, no such input folder. Whether
    state fits is for the leader to judge.
    """
    graph = job.job.spec.job.graph
    if graph is None or _needs_a_look(graph):
        return _validate_elsewhere(file, settings, begins)
    compiled = compile_draft(job, draft_of(job), None)
    check_schemes(compiled, job)
    check_paths(compiled)
    record = record_of(compiled, job)
    try:
        return Checked(record, tuple(fit_lines(job.job, compiled.plan, begins, Detail.CHANGES)))
    except StateError:
        return Checked(record)


def check_schemes(job: "CompiledJob", file: "JobFile") -> None:
    """Raise ConfigError when spec.partition names a step or a scheme that is not there."""
    asked = file.job.spec.choices
    check_choices(job.plan.schemes, asked, lambda number: file.origin.at(f"spec.partition[{number}]"))


def check_paths(job: "CompiledJob") -> None:
    """Raise ConfigError when an input is not there, or an output can be no folder."""
    for step in job.graph.steps:
        path = _files_path(step)
        if path is None:
            continue
        given = step.parameters
        if isinstance(given, Source) and given.connector.options.get("follow"):
            continue  # new files come later; its own check looks at those that are there
        problem = input_problem(path, given.connector) if isinstance(given, Source) else output_problem(path)
        if problem is not None:
            raise ConfigError(f"{job.places[step.name]}: step {step.name!r}: {path} {problem}")
    _check_apart(job)


def _check_apart(job: "CompiledJob") -> None:
    """Raise ConfigError when an output folder is an input of the job."""
    found = [(step, path) for step in job.graph.steps if (path := _files_path(step)) is not None]
    read = {path.resolve(): s.name for s, path in found if isinstance(s.parameters, Source)}
    for step, path in found:
        if isinstance(step.parameters, Sink) and path.resolve() in read:
            raise ConfigError(
                f"{job.places[step.name]}: step {step.name!r}: {path} is the input of"
                f" {read[path.resolve()]!r}: name another folder for the output"
            )


def check_outside(job: "CompiledJob", *, first: bool) -> None:
    """Raise ConfigError as :func:`check_paths` and :func:`check_connectors`; if ``first``, as :func:`check_tables`."""
    check_paths(job)
    if first:
        check_tables(job)
    else:
        check_connectors(job)


def check_connectors(job: "CompiledJob") -> None:
    """Raise ConfigError when a file of an input is broken, or an option does not fit; needs Arrow.

    Connectors that are objects of the user's own, or come from packages, are not checked. Raises StorageError when a
    table cannot be looked at now.
    """
    for stage in job.stages:
        for node in stage.nodes:
            if node.connector is None:
                _check_named(job, node)


def check_tables(job: "CompiledJob") -> None:
    """Raise ConfigError when the table of a source is not there.

    A store or catalog that does not answer now may do so later: a job waits for it.
    """
    for stage in job.stages:
        for node in stage.nodes:
            if _reads_table(node.parameters):
                with suppress(StorageError):
                    _check_named(job, node)


def _reads_table(parameters: object) -> bool:
    return isinstance(parameters, Source) and parameters.connector.kind in TABLES


def _check_named(job: "CompiledJob", node: "CompiledStep") -> None:
    from penstock.connectors.missing import NotThere  # noqa: PLC0415

    try:
        _check_connector(node)
    except (ConfigError, NotThere) as error:
        raise ConfigError(f"{job.places[node.name]}: step {node.name!r}: {error}") from error


def _check_connector(node: "CompiledStep") -> None:
    from penstock.connectors.open_connectors import ConnectorInspector  # noqa: PLC0415

    inspector = ConnectorInspector()
    match node.parameters:
        case Source(connector=connector, columns=columns):
            inspector.check_files(connector, columns)
            inspector.check_secrets(Role.SOURCE, connector)
        case Sink(connector=connector):
            inspector.check_sink(node.name, connector, node.input_schema())
            inspector.check_secrets(Role.SINK, connector)
        case Lookup(connector=connector):
            inspector.check_lookup(connector)
            inspector.check_secrets(Role.LOOKUP, connector)
        case _:
            pass


def input_problem(path: Path, connector: Connector) -> str | None:
    """Say what is wrong with an input of files."""
    if not path.exists():
        return f"is not there (looked from {Path.cwd()})"
    try:
        kind, by = connector.kind, folder_names(connector.options.get("partition_by"))
        return nothing_to_read(list_input(path, kind, by), kind, by) if path.is_dir() else None
    except OSError as error:
        return f"cannot be listed: {error.strerror}"


def parameter_lines(job: "CompiledJob", given: Collection[str]) -> list[str]:
    """Name the parameters that are given, and that the function which built the job has not asked for."""
    unasked = [] if job.asked is None else sorted(set(given) - job.asked)
    if not unasked:
        return []
    asked = ", ".join(sorted(job.asked or ())) or "none"
    return [
        f"parameters that the job has not asked for as it was built: {', '.join(unasked)} (it has asked for {asked})"
    ]


def input_lines(job: "CompiledJob") -> list[str]:
    """Say of each input how many files it has, that these are all, and what is passed over."""
    lines = []
    for step in job.graph.steps:
        path = _files_path(step)
        if path is None or not isinstance(step.parameters, Source) or not path.is_dir():
            continue
        if step.parameters.connector.options.get("follow"):
            lines.append(f"input of {step.name}: {path} is followed: files that come later are read")
            continue
        kind = step.parameters.connector.kind
        by = folder_names(step.parameters.connector.options.get("partition_by"))
        count = len(list_input(path, kind, by).files)
        files = "1 file" if count == 1 else f"{count:,} files"
        lines.append(
            f"input of {step.name}: {files} in {path}; the set of files is fixed when the job first"
            " starts: files that come later are not read"
        )
        lines += filter(None, [passed_text(look_at(path, (), kind, by).of(step.name))])
    return lines


def _files_path(step: Step) -> Path | None:
    """Return the path of a step that reads or writes files."""
    if not isinstance(step.parameters, Source | Sink):
        return None
    connector = step.parameters.connector
    path = connector.options.get("path")
    return Path(path) if connector.kind in FILE_KINDS and isinstance(path, str) else None


def output_problem(path: Path) -> str | None:
    """Say why a folder cannot be written to; it need not be there yet."""
    nearest = path.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        return f"can be no folder: {nearest} is a file"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"cannot be written to: {nearest} is read-only for you"
    return None


def _needs_a_look(graph: "DeclaredGraph") -> bool:
    """Say whether columns hang on user code, or on inputs that declare none, or a table has to be there."""
    return any(
        hasattr(s.parameters, "call")
        or _reads_table(s.parameters)
        or s.partition_function is not None
        or s.partition_schemes
        or (isinstance(s.parameters, Source) and not s.parameters.columns)
        for s in graph.steps
    )


def _validate_elsewhere(file: Path, settings: Sequence[str], begins: Begins) -> Checked:
    more = [part for setting in settings for part in ("--set", setting)]
    more += ["--dir", str(begins.directory)]
    more += ["--restore", begins.restore] if begins.restore is not None else []
    more += [part for name in begins.drop for part in ("--drop-state", name)]
    validate = ["-m", "penstock.cli", "validate", str(file), "--quiet", "--first"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *validate, *more, "--describe", folder]
        # What the user's modules print while they are imported is not part of what `run` shows.
        done = subprocess.run(command, stdout=2, stderr=subprocess.PIPE, text=True, check=False)
        record = read_record(Path(folder)) or JobRecord()
    said = done.stderr.splitlines()
    if MISFIT in said:
        return Checked(record)  # the leader says so
    if done.returncode != 0:
        lines = [line.removeprefix("error: ") for line in done.stderr.strip().splitlines()]
        raise ConfigError("\n".join(lines) or f"validation ended with code {done.returncode}")
    changes = (line.removeprefix(CHANGE) for line in said if line.startswith(CHANGE))
    return Checked(record, tuple(changes))
