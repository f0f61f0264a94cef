"""One staged file of a run: what a target takes of it, its rows or its bytes. It is on no disk."""

import hashlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from penstock.connectors.file_output import Staged
from penstock.connectors.staged_sink import StagedTarget


class StagedRows:
    """Stands for a ``StagedFile``."""

    def __init__(self, target: StagedTarget, rows: pa.RecordBatch) -> None:
        """Encode rows. Raises what the target's ``encode`` raises."""
        self._rows = target.encode(rows)
        out = BytesIO()
        target.form.write(cast(Any, out), target.form.schema, [self._rows])
        self._data = out.getvalue()
        self.part = Staged(Path("staged"), len(rows), len(self._data), hashlib.sha256(self._data).hexdigest())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Give the rows."""
        yield self._rows

    def data(self) -> bytes:
        """Return the whole file."""
        return self._data

    def modified_ms(self) -> int:
        """Return when it was written."""
        return 0
