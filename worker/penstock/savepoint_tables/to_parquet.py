"""Writes the keyed state in a savepoint to Parquet files, which Spark and others can read.

::

    FOLDER/<step>/part-00000.parquet      key_group, the key columns, the columns of the state

``key_group`` is ``pmod(xxhash64(keys), maxKeyGroups)``, as Spark SQL computes it. Each file has
all rows of some key groups, in their order. A folder appears complete or not at all.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.values import replace
from penstock.contract.keygroups import Share, to_share
from penstock.contract.manifest import RootManifest, StateFile
from penstock.file_system import OS_FILES
from penstock.graph.compiled import CompiledJob
from penstock.keeper.savepoint_copies import open_savepoint
from penstock.keyed_state.keyed_backend import UNLIMITED, KeyedStateBackend
from penstock.keyed_state.state_files import Fetched
from penstock.protocol.savepoints import inside
from penstock.protocol.state_matching import fits, known, migrated_steps
from penstock.savepoint_tables.savepoint_state import OpenedState, keyed_steps, opened, stage_of
from penstock.steps.base import KeepingStep
from penstock.storage.blobs import DirectoryBlobStore

KEY_GROUP = "key_group"
BATCH_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class Exported:
    """The state of one step as a table: its folder, and the number of rows and of files."""

    step: str
    folder: Path
    rows: int
    files: int


def export_state(job: CompiledJob, stored: "StoredState", target: Path, steps: Sequence[str] = ()) -> list[Exported]:
    """Write the state of ``steps`` (all steps with keyed state if it is empty) below ``target``.

    Raises ConfigError for a step without keyed state or a folder that exists already, StateError if
    the stored state is damaged or is that of a job with other columns, and StorageError if the disk
    fails.
    """
    stored = replace(stored, root=known(stored.root, job.plan))
    names = {s.step for s in stored.root.states}
    wanted = tuple(steps) or tuple(s for s in keyed_steps(job) if s in names)
    for step in wanted:
        stage_of(job, step)
        _check(job, stored, step)
        if (target / step).exists():
            raise ConfigError(f"{target / step} exists already: give another folder, or remove it")
    return [_export(job, stored, step, target) for step in wanted]


@dataclass(frozen=True, slots=True)
class StoredState:
    """A savepoint or a checkpoint: its files, which are in ``folder`` of ``store``, and its manifest.

    ``name`` is what errors call it.
    """

    name: str
    store: DirectoryBlobStore
    folder: str
    root: RootManifest

    @staticmethod
    def of_savepoint(path: Path) -> "StoredState":
        """Open a savepoint. Raises StateError if there is none, and StorageError if it cannot be read."""
        return StoredState(str(path), *open_savepoint(OS_FILES, str(path.resolve())))

    def files(self, step: str) -> tuple[StateFile, ...]:
        """List the files of a step's state and of the tables of its fields, by their place in the savepoint."""
        return tuple(
            replace(file, blob=inside(self.folder, file.blob))
            for task in self.root.tasks
            for file in task.files
            if file.step == step
        )

    def fetched(self, step: str, backend: KeyedStateBackend, migrated: tuple[str, ...]) -> Fetched:
        """Copy the files of a step to this machine. The caller must ``close`` them."""
        return backend.fetch(self.files(step), self.store, migrated)


def _check(job: CompiledJob, stored: StoredState, step: str) -> None:
    """Refuse stored state that is not that of this step of the job, or that one table cannot show."""
    fields = {f.state for task in stored.root.tasks for f in task.files if f.step == step and f.state != step}
    if fields and stage_of(job, step).node(step).types is None:
        names = ", ".join(repr(name) for name in sorted(fields))
        raise ConfigError(
            f"step {step!r} keeps several entries for a key in {names}: a table with one row for each key "
            "cannot show them; name the other steps"
        )
    had = next((s for s in stored.root.states if s.step == step), None)
    wanted = next(s for s in job.plan.states if s.step == step)
    groups, remedy = stored.root.max_key_groups, "give the job file as it was then"
    if had is None:
        names = ", ".join(s.step for s in stored.root.states)
        raise StateError(f"{stored.name} has no state of step {step!r}; it has: {names}")
    if groups != job.plan.max_key_groups:
        raise StateError(f"{stored.name} has {groups} key groups, the job {job.plan.max_key_groups}: {remedy}")
    if not fits(had, wanted):
        raise StateError(f"{stored.name}: the stored columns of step {step!r} are not those of the job: {remedy}")


def _export(job: CompiledJob, stored: StoredState, step: str, target: Path) -> Exported:
    groups = job.plan.max_key_groups
    rows = count = 0
    try:
        with (
            folder_in_the_making(target / step) as made,
            opened(job, step, (), made) as state,
            closing(stored.fetched(step, state.backend, migrated_steps(stored.root, job.plan))) as files,
        ):
            for share in files.slabs(step, to_share(range(groups)), groups):
                rows += _write(job, (step, files, share), made / f"part-{count:05d}.parquet")
                count += 1
    except OSError as error:
        raise StorageError(f"{target / step}: {error.strerror or error}") from error
    return Exported(step, target / step, rows, count)


@contextmanager
def folder_in_the_making(final: Path) -> Iterator[Path]:
    """Yield a new folder beside ``final`` that gets this name at the end. After an error it is removed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield made
        made.chmod(0o755)
        made.rename(final)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _write(job: CompiledJob, part: tuple[str, Fetched, Share], path: Path) -> int:
    """Write the rows of some key groups to one file; return their number."""
    step, files, share = part
    with opened(job, step, share, path.parent) as state:
        state.backend.limit(UNLIMITED)  # a slab is small, and rows on disk cannot be shown
        state.backend.show(files, share)
        writer: pq.ParquetWriter | None = None
        rows = 0
        for batch in _batches(state):
            writer = writer or pq.ParquetWriter(path, batch.schema, compression="zstd")
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    return rows


def _batches(state: OpenedState) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a state by key group. There is one batch without rows if there is none."""
    step = state.step
    assert isinstance(step, KeepingStep), "a step with keyed state shows it"
    rows = state.backend.rows_by_group(step.name)
    for first in range(0, max(len(rows), 1), BATCH_ROWS):
        batch = step.contents(rows[first : first + BATCH_ROWS])
        _, groups = state.keys.codec.hashed([batch.column(name) for name in state.node.keys])
        order = np.argsort(groups, kind="stable")
        yield batch.take(pa.array(order)).add_column(0, KEY_GROUP, pa.array(groups[order]))
