"""Listed files of state, brought to local disk, checked and opened for reading."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import StateError
from penstock.contract.manifest import StateFile
from penstock.protocol.files import in_order
from penstock.state.blocks import BlockReader, Loadable

if TYPE_CHECKING:
    from penstock.ports import BlobStore


class OpenFile:
    """A listed file, fetched, checked against its hash and open for reading; a context manager."""

    def __init__(self, file: StateFile, path: Path, blobs: "BlobStore") -> None:
        """Fetch ``file`` to ``path``. Raises StateError naming file and epoch when altered."""
        origin = f"state file {file.blob.name} (state {file.state!r}, epoch {file.epoch})"
        try:
            blobs.fetch(file.blob, str(path))
        except StateError as error:
            raise StateError(f"{origin}: {error}") from error
        self._scratch = path.with_suffix(".db")
        self._path = path
        self.reader = BlockReader(path, self._scratch, origin)

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close and remove the local copy."""
        self.reader.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._path.unlink(missing_ok=True)


class Fetched:
    """Entries whose files are here, checked and open: what is slow about loading, done before.

    Made on any thread, used up by one. ``close`` it, loaded or not.
    """

    def __init__(
        self, files: Sequence[StateFile], blobs: "BlobStore", scratch: Path | None
    ) -> None:
        """Fetch ``files`` to a folder in ``scratch`` (None: the system's temporary folder).

        Raises StateError naming file and epoch when one is altered or missing.
        """
        self.files = in_order(files)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-load-", dir=scratch)
        self._open: list[OpenFile] = []
        try:
            for number, file in enumerate(self.files):
                path = Path(self._folder.name) / f"{number}.sst"
                self._open.append(OpenFile(file, path, blobs))
        except BaseException:
            self.close()
            raise

    def load(self, table: Loadable, state: str, max_key_groups: int) -> None:
        """Load the entries of one state in order, each as narrow as listed. Raises StateError."""
        with table.loading():
            for file, opened in zip(self.files, self._open, strict=True):
                if file.state == state:
                    opened.reader.load(file.groups, table, max_key_groups)

    def close(self) -> None:
        """Close and remove the local copies; idempotent."""
        for opened in self._open:
            opened.close()
        self._open.clear()
        self._folder.cleanup()
