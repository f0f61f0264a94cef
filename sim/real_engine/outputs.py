"""The outputs of a job, as a reader finds them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.file_output import parse_cut
from penstock.connectors.file_sink import visible_name
from penstock.connectors.published import plain_step
from penstock.contract.ids import Epoch
from penstock.contract.manifest import SinkHandle
from sim.files.virtual_disk import VirtualDisk
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.input_rows import Row


class Outputs(Protocol):
    """See the module."""

    def rows(self, name: str) -> list[Row]:
        """Return the rows of an output, in order. Raises Violation when it cannot be read."""
        ...

    def missing(self, handle: SinkHandle, epoch: Epoch) -> str | None:
        """Name what is not visible of a handle that is published under an epoch; None when all is."""
        ...


class FileOutputs:
    """Outputs that are files. ``files`` gives the content of those of an output, by their names."""

    def __init__(self, files: Callable[[str], dict[str, bytes]]) -> None:
        self._files = files

    def rows(self, name: str) -> list[Row]:
        """Read all files in the order of their names."""
        found: list[Row] = []
        for file, content in sorted(self._parquet(name).items()):
            try:
                found += pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False).to_pylist()
            except (OSError, pa.ArrowException) as error:
                raise Violation("E", f"{file} cannot be read: {error}") from error
        return found

    def missing(self, handle: SinkHandle, epoch: Epoch) -> str | None:
        """Look for a file of each part."""
        cut = parse_cut(handle.data, Path("/"))
        files = self._parquet(handle.sink.removesuffix("-out"))
        for index, part in enumerate(cut.parts):
            name = visible_name(plain_step(handle.sink), handle, epoch, (cut.number, index))
            if name not in files or len(files[name]) != part.size:
                return name
        return None

    def _parquet(self, name: str) -> dict[str, bytes]:
        return {file: content for file, content in self._files(name).items() if file.endswith(".parquet")}


class MarkedOutputs:
    """Outputs of a server that has markers.

    ``rows`` gives those of an output that a reader sees, ``marker_of`` the newest epoch of output, step and task.
    """

    def __init__(self, rows: Callable[[str], Sequence[Row]], marker_of: Callable[[str, str, str], int]) -> None:
        self._rows = rows
        self._marker_of = marker_of

    def rows(self, name: str) -> list[Row]:
        """Return the rows."""
        return list(self._rows(name))

    def missing(self, handle: SinkHandle, epoch: Epoch) -> str | None:
        """Look at the marker."""
        task = f"{handle.task.worker}.{handle.task.slot}"
        found = self._marker_of(handle.sink.removesuffix("-out"), handle.sink, task)
        return None if found >= epoch else f"output of {handle.sink}, task {task}, is at epoch {found}, and {epoch}"


def files_on_disk(disk: VirtualDisk, output: Path) -> Callable[[str], dict[str, bytes]]:
    """Return what gives the files in the folder of an output."""

    def files(name: str) -> dict[str, bytes]:
        found = ((Path(path), content) for path, content in disk.contents(str(output / name)).items())
        return {path.name: content for path, content in found if path.parent == output / name}

    return files
