"""Changed rows on disk as a cut found them, in a file without a name until they are written.

The database goes on changing while the cut is stored. Copies in memory could be larger than all memory that the state
may have: the rows are on disk because they do not fit into it.
"""

import struct
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.base.errors import StorageError
from penstock.keyed_state.rocks import ColdRow, few, group_of

_SIZES = struct.Struct("<II")
_BUFFER_BYTES = 1024 * 1024


class RowsSetAside:
    """Rows of one table and cut. One thread adds them; then one thread, maybe another, reads them once."""

    def __init__(self, state: str, folder: Path) -> None:
        """Make the file in ``folder``; it ends with this object. Raises StorageError."""
        self.groups: set[int] = set()
        self._what = f"changed rows of state {state!r} in {folder}"
        try:
            self._file = tempfile.TemporaryFile(buffering=_BUFFER_BYTES, dir=folder)  # noqa: SIM115 - of this object
        except OSError as error:
            raise self._failure(error) from error
        weakref.finalize(self, self._file.close)  # a cut may be given up before it is read

    def add(self, rows: Sequence[ColdRow]) -> None:
        """Add some rows. Raises StorageError, for example on a full disk."""
        self.groups.update(group_of(row.key) for row in rows)
        try:
            for row in rows:
                self._file.write(_SIZES.pack(len(row.key), len(row.value)) + row.key + row.value)
        except OSError as error:
            raise self._failure(error) from error

    def few(self) -> Iterator[list[ColdRow]]:
        """Yield all rows, as many at a time as a cut copies at once. Raises StorageError."""
        return few(self._rows())

    def _rows(self) -> Iterator[ColdRow]:
        try:
            with self._file as file:
                file.seek(0)
                while sizes := file.read(_SIZES.size):
                    key, value = _SIZES.unpack(sizes)
                    yield ColdRow(file.read(key), file.read(value))
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(f"{self._what} cannot be set aside for a checkpoint: {error.strerror}")
