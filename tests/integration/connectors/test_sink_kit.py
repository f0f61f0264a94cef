"""The kit passes sinks that keep the rules, wherever they are killed, and names what a faulty one breaks."""

# The faulty sinks derive from the example, which mypy does not read.
# mypy: disable-error-code="misc, no-any-return, var-annotated, has-type, import-not-found"

import csv
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import StorageError
from penstock.base.values import replace
from penstock.connectors.file_sink import FileSink, ParquetSink
from penstock.connectors.text_formats import csv_form, json_form
from penstock.contract.ids import Epoch
from penstock.contract.manifest import SinkHandle
from penstock.testing import connectors as kit
from tests.integration.local_job import REPOSITORY
from tests.support.long_tests import count

sys.path.insert(0, str(REPOSITORY / "examples"))
from text_to_json import JsonCut, JsonFolder, JsonPublisher, JsonWriter

EVERY = count(23, 1)  # outgoing calls
ROWS = pa.record_batch({"word": [f"word-{n}" for n in range(9)], "n": list(range(9))})


class JsonTarget:
    """A folder of JSON lines, written by a sink with a fault or without."""

    make: Callable[[str], Any] = staticmethod(lambda folder: JsonFolder("output", folder))

    def __init__(self, root: Path, make: Callable[[str], Any] | None = None) -> None:
        self._folder = tempfile.mkdtemp(dir=root)
        self._make = make or type(self).make

    def sink(self) -> Any:
        return self._make(self._folder)

    def visible(self) -> list[dict[str, object]]:
        files = sorted(Path(self._folder).glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


class ParquetTarget(JsonTarget):
    """A folder of Parquet files."""

    make = staticmethod(lambda folder: ParquetSink("output", folder, ROWS.schema))

    def visible(self) -> list[dict[str, object]]:
        files = sorted(Path(self._folder).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


class JsonLinesTarget(JsonTarget):
    """A folder of our JSON lines."""

    make = staticmethod(lambda folder: FileSink("output", folder, json_form(ROWS.schema)))


class CsvTarget(JsonTarget):
    """A folder of CSV files."""

    make = staticmethod(lambda folder: FileSink("output", folder, csv_form(ROWS.schema)))

    def visible(self) -> list[dict[str, object]]:
        files = sorted(Path(self._folder).glob("*.csv"))
        rows = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
        return [{"word": row["word"], "n": int(row["n"])} for row in rows]


@pytest.fixture
def root() -> Iterator[Path]:
    """Give a folder in memory where there is one: no test here loses power."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("target", [JsonTarget, ParquetTarget])
def test_a_sink_that_keeps_the_rules_passes(root: Path, target: type[JsonTarget]) -> None:
    report = kit.check_sink(lambda: target(root), ROWS, every=EVERY)
    assert report.calls > 25
    assert report.calls // EVERY <= report.failed
    # Threads may make a call less in one run than in another, so the last ones may not come.
    assert min(report.killed, report.stopped) > 0.8 * (report.calls // EVERY)


@pytest.mark.parametrize("target", [JsonLinesTarget, CsvTarget])
def test_the_sink_of_files_keeps_the_rules_in_other_formats(root: Path, target: type[JsonTarget]) -> None:
    """It is the sink of ParquetTarget, where more calls are hit."""
    report = kit.check_sink(lambda: target(root), ROWS, every=3 * EVERY)
    assert min(report.killed, report.stopped, report.failed) >= report.calls // (3 * EVERY)


# --- Faults -------------------------------------------------------------------------------------


class Publisher(JsonPublisher):
    """Keeps the rules; the faulty ones below derive from it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder


class Sink(JsonFolder):
    """A sink whose parts can be exchanged."""

    publishes: type[JsonPublisher] = Publisher
    writes: type[JsonWriter] = JsonWriter

    def __init__(self, folder: str) -> None:
        super().__init__("output", folder)
        self.publisher = self.publishes(self.folder)

    def writer(self, task: object, attempt: int) -> JsonWriter:
        return self.writes((self._step, task), self.folder / "_staging")


class EarlyCut(JsonCut):
    """Publishes what is not committed."""

    def finish(self) -> SinkHandle | None:
        handle = super().finish()
        if handle is not None:
            Publisher(self._writer._staging.parent).publish(handle, handle.epoch)
        return handle


class EarlyWriter(JsonWriter):
    def seal(self, epoch: int, name: str) -> JsonCut:
        cut = super().seal(epoch, name)
        return EarlyCut(self, cut._cut, cut._rows)


class Early(Sink):
    writes = EarlyWriter


class Appends(Sink):
    """Appends to one file: a second publication repeats rows."""

    class publishes(Publisher):
        def publish(self, handle: SinkHandle, epoch: int) -> None:
            staged = (self.folder / "_staging" / handle.data).read_text()
            with (self.folder / "all.jsonl").open("a") as file:
                file.write(staged)


class NotesFirst(Sink):
    """Notes that a handle is published, and only then publishes it."""

    class publishes(Publisher):
        def publish(self, handle: SinkHandle, epoch: int) -> None:
            note = self.folder / "_staging" / f"{handle.data}.done"
            if note.exists():
                return
            try:
                note.touch()
            except OSError as error:
                raise StorageError(str(error)) from error
            super().publish(handle, epoch)


class Forgets(Sink):
    """Loses the rows that it could not stage."""

    class writes(JsonWriter):
        def stage(self, cut: tuple[int, str], rows: list[pa.RecordBatch]) -> SinkHandle | None:
            try:
                return super().stage(cut, rows)
            except OSError as error:
                self._rows = []
                raise StorageError(str(error)) from error


class OneName(Sink):
    """Stages each epoch of a task under one name: a process that stood still overwrites what is published."""

    class writes(JsonWriter):
        def stage(self, cut: tuple[int, str], rows: list[pa.RecordBatch]) -> SinkHandle | None:
            if not rows:
                return None
            epoch, _ = cut
            path = self._staging / f"{self._owner[1]}-{epoch}"
            records = [record for batch in rows for record in batch.to_pylist()]
            try:
                with path.open("a") as file:
                    for record in records:
                        os.write(file.fileno(), (json.dumps(record) + "\n").encode())
            except OSError:
                path.unlink(missing_ok=True)
                self._rows = rows + self._rows
                raise
            step, task = self._owner
            return SinkHandle(step, task, Epoch(epoch), path.name, len(records), path.stat().st_size)


class ForgetsTooMuch(Sink):
    """Removes the visible file, too."""

    class publishes(Publisher):
        def forget(self, handle: SinkHandle) -> None:
            super().forget(handle)
            for file in self.folder.glob(f"*{handle.data}.jsonl"):
                file.unlink()


class Stubborn(Sink):
    """Fails the job where another try would help."""

    class publishes(Publisher):
        def publish(self, handle: SinkHandle, epoch: int) -> None:
            try:
                super().publish(handle, epoch)
            except StorageError as error:
                raise RuntimeError("no") from error


class Untyped(Sink):
    """Puts into the handle what no checkpoint holds."""

    class writes(JsonWriter):
        def stage(self, cut: tuple[int, str], rows: list[pa.RecordBatch]) -> SinkHandle | None:
            handle = super().stage(cut, rows)
            data: Any = {"file": ""}
            return None if handle is None else replace(handle, data=data)


class WaitsForACheckpoint(Sink):
    """Takes no more rows until the next cut, which comes behind them."""

    class writes(JsonWriter):
        def room(self) -> bool:
            return sum(batch.num_rows for batch in self._rows) < 500_000


@pytest.mark.parametrize(
    ("sink", "rule", "says"),
    [
        (WaitsForACheckpoint, "room", r"rows of one epoch room\(\) stays false: the next cut comes behind"),
        (Untyped, "handle", "finish.. gave a handle: its data is dict, str is due"),
        (Early, "early", "the epoch is not committed: visible and not due"),
        (Appends, "publish-again", "visible twice"),
        (NotesFirst, "lost", "killed before its outgoing call .*not visible are"),
        (Forgets, "lost", "failed before its outgoing call .*not visible are"),
        (OneName, "repeated|stale-writer", "visible twice"),
        (ForgetsTooMuch, "forget", "not visible are"),
        (Stubborn, "publish", r"has to be ps\.StorageError, it is RuntimeError: no"),
    ],
)
def test_a_faulty_sink_is_told_by_the_rule_that_it_breaks(root: Path, sink: type[Sink], rule: str, says: str) -> None:
    with pytest.raises(kit.RuleBroken, match=says) as broken:
        kit.check_sink(lambda: JsonTarget(root, sink), ROWS)
    assert broken.value.rule in rule.split("|")


def test_equal_rows_are_refused_because_a_repeat_could_not_be_seen(root: Path) -> None:
    with pytest.raises(kit.RuleBroken, match="two of the rows are equal"):
        kit.check_sink(lambda: JsonTarget(root), pa.record_batch({"n": [1, 2, 3, 4, 5, 5]}))
    with pytest.raises(kit.RuleBroken, match="5 rows were given, the kit needs 6"):
        kit.check_sink(lambda: JsonTarget(root), pa.record_batch({"n": [1, 2, 3, 4, 5]}))
