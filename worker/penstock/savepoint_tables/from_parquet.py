"""Makes a savepoint from Parquet files, so that a new job begins with the state that they hold.

A file has the key columns and the state columns of one step, in any order of rows and columns. Its
column ``key_group`` may be missing. If it is there, it must be the key group of each row. A key may
come once. The savepoint has the state of these steps only: a job that begins from it reads its
sources from their beginning, and its other steps begin empty.
"""

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.contract.codec import encode
from penstock.contract.ids import ROOT_SUFFIX, Attempt, BlobName, Epoch, Incarnation, JobUid, Term, blob_name
from penstock.contract.keygroups import intersect, to_share
from penstock.contract.manifest import RootManifest, StateFile, TaskManifest
from penstock.contract.plan import first_assignment
from penstock.graph.compiled import CompiledJob
from penstock.keeper.savepoint_copies import INDEX, index_of
from penstock.model.exact import exact_cast
from penstock.savepoint_tables.savepoint_state import OpenedState, opened, stage_of
from penstock.savepoint_tables.to_parquet import BATCH_ROWS, KEY_GROUP, folder_in_the_making
from penstock.steps.base import LoadingStep
from penstock.storage.blobs import DirectoryBlobStore

_FOLDER = "1-import-1"
_EPOCH, _TERM, _LIFE = Epoch(1), Term(1), Incarnation("import")


@dataclass(frozen=True, slots=True)
class Built:
    """The state of one step in a new savepoint, and the number of keys."""

    step: str
    keys: int


def build_savepoint(job: CompiledJob, tables: Mapping[str, Path], savepoint: Path) -> list[Built]:
    """Make the folder ``savepoint`` with the state of each step in ``tables``, which are folders of Parquet.

    Raises ConfigError for a step or a column that does not fit the job, or if the folder exists;
    StateError, with file and row, for a value or a key that cannot be stored; and StorageError if
    a file cannot be read or written.
    """
    if savepoint.exists():
        raise ConfigError(f"{savepoint} exists already: a savepoint is made in a new folder")
    for step in tables:
        stage_of(job, step)
    try:
        with folder_in_the_making(savepoint) as made:
            files = _NewFiles(DirectoryBlobStore(made / _FOLDER))
            built, stored = [], []
            for step, table in tables.items():
                keys, of_step = _store(job, step, _files(table), files)
                built.append(Built(step, keys))
                stored += of_step
            root = files.store.put(files.name(ROOT_SUFFIX), encode(_root(job, tuple(tables), stored, savepoint.name)))
            # The index makes the folder a savepoint, so it is written last.
            DirectoryBlobStore(made).put(INDEX, index_of(job.name, savepoint.name, root, _FOLDER))
    except OSError as error:
        raise StorageError(f"{savepoint}: {error.strerror or error}") from error
    return built


def _files(table: Path) -> list[Path]:
    """List the Parquet files of a table, in order of their names. Spark's own files are left out."""
    found = [table] if table.is_file() else sorted(p for p in table.glob("*.parquet") if p.name[0] not in "._")
    if not found:
        raise ConfigError(f"{table}: there is no file *.parquet")
    return found


@dataclass(frozen=True, slots=True)
class _NewFiles:
    """The files of a savepoint in the making. Each gets a number of its own."""

    store: DirectoryBlobStore
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def name(self, suffix: str) -> BlobName:
        """Return the name of the next file."""
        return blob_name(_TERM, _EPOCH, _LIFE, next(self.numbers), suffix)


def _store(job: CompiledJob, step: str, tables: list[Path], files: _NewFiles) -> tuple[int, list[StateFile]]:
    """Store the rows of some files as state files. Return the number of keys, and the state files."""
    share = to_share(range(job.plan.max_key_groups))
    with (
        tempfile.TemporaryDirectory(prefix="penstock-import-") as scratch,
        opened(job, step, share, Path(scratch)) as state,
    ):
        keys = sum(_load(state, table) for table in tables)
        cut = state.backend.flip(_EPOCH)
        while not state.backend.copy_on():
            pass
        cut.expedite.set()
        return keys, list(cut.write(files.name, files.store))


def _load(state: OpenedState, file: Path) -> int:
    """Load the rows of a file into the open state; return their number."""
    step = state.step
    if not isinstance(step, LoadingStep):
        raise ConfigError(
            f"step {step.name!r} keeps computed values: only state of process steps can be made from a table"
        )
    rows = 0
    for batch in _batches(file, step):
        try:
            step.load_contents(_converted(state, step.contents_schema, batch))
        except (ValueError, TypeError) as error:
            raise StateError(f"{file}, rows {rows:,} to {rows + batch.num_rows - 1:,}: {error}") from None
        rows += batch.num_rows
    return rows


def _batches(file: Path, step: LoadingStep) -> Iterator[pa.RecordBatch]:
    rows = 0
    try:
        with pq.ParquetFile(file) as opened_file:
            _check_columns(file, opened_file.schema_arrow.names, step)
            for batch in opened_file.iter_batches(BATCH_ROWS, use_threads=False):
                yield batch
                rows += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # from the system; Arrow's own have no number
            raise StorageError(f"{file}: {error.strerror or error}") from error
        place = f"{file}, row {rows:,} or a later one" if rows else str(file)
        raise StateError(f"{place}: is no Parquet file, or a damaged one: {' '.join(str(error).split())}") from error


def _check_columns(file: Path, names: list[str], step: LoadingStep) -> None:
    wanted = step.contents_schema.names
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ConfigError(f"{file}: step {step.name!r}: these columns are there twice: {', '.join(twice)}")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ConfigError(
            f"{file}: step {step.name!r} needs the columns {', '.join(wanted)}; missing: {', '.join(missing)}"
        )
    for name in names:
        if name not in (*wanted, KEY_GROUP):
            raise ConfigError(f"{file}: step {step.name!r}: {unknown('column', name, (*wanted, KEY_GROUP))}")


def _converted(state: OpenedState, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows in the types of the step. Raises ValueError if a value or a key group does not fit."""
    columns = [
        batch.column(f.name)  # the step takes those whose values fit
        if pa.types.is_nested(f.type)
        else exact_cast(batch.column(f.name), f.type, f"column {f.name!r}")
        for f in schema
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=schema.names)
    if KEY_GROUP in batch.schema.names:
        _, groups = state.keys.codec.hashed([rows.column(name) for name in state.node.keys])
        given = np.asarray(batch.column(KEY_GROUP).cast(pa.int64()).fill_null(-1))
        wrong = np.flatnonzero(given != groups)
        if len(wrong):
            raise ValueError(
                f"{KEY_GROUP} is {given[wrong[0]]}, but the key of this row has {groups[wrong[0]]} of "
                f"{state.keys.codec.max_key_groups}: it is pmod(xxhash64(keys), maxKeyGroups); or leave it out"
            )
    return rows


def _root(job: CompiledJob, steps: tuple[str, ...], files: list[StateFile], name: str) -> RootManifest:
    """Return the root manifest of a savepoint that has only the state of ``steps``."""
    plan = job.plan
    table = first_assignment(plan, 1, {})
    tasks = []
    for task in table.tasks():
        here = [f for f in files if f.step in plan.stages[task.stage].steps]
        narrowed = [replace(f, groups=intersect(f.groups, table.share_of(task))) for f in here]
        tasks.append(TaskManifest(task, tuple(f for f in narrowed if f.groups)))
    return RootManifest(
        JobUid(f"import-{name}"),
        _EPOCH,
        _TERM,
        Attempt(1),
        "savepoint",
        plan.max_key_groups,
        plan.fingerprint,
        table,
        tuple(tasks),
        tuple(s for s in plan.states if s.step in steps),
        plan.steps,
    )
