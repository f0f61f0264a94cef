"""User functions of ``test_slow_step``. It is copied beside the job file, as a user's module is."""

import os
import threading
from pathlib import Path

import pyarrow as pa

SECONDS_OF_A_ROW = 0.001


def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take a millisecond for each row, then tell by the size of a file how many rows are done."""
    threading.Event().wait(batch.num_rows * SECONDS_OF_A_ROW)
    folder = Path(__file__).with_name("done")
    folder.mkdir(exist_ok=True)
    with (folder / str(os.getpid())).open("ab") as done:
        done.write(b"." * batch.num_rows)
    return batch
