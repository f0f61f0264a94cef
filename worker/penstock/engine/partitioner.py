"""The user's function of a custom edge: it sees its own columns only, and answers are checked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import UserCodeError, Where
from penstock.model.arrays import Int32s
from penstock.steps.base import split_hidden
from penstock.steps.user_calls import record_text


class Partitioner:
    """Gives the receiver of each row. ``step`` is the one that the rows go to."""

    def __init__(self, step: str, function: Callable[..., Any]) -> None:
        """Ask ``function(batch, tasks)``."""
        self._step = step
        self._function = function

    def __call__(self, batch: pa.RecordBatch, tasks: int) -> Int32s:
        """Return one place in 0 .. tasks - 1 for each row. Raises UserCodeError."""
        rows, _ = split_hidden(batch)
        try:
            answer = np.asarray(self._function(rows, tasks))
        except BaseException as error:  # a user's: it is passed on with its place
            raise UserCodeError(Where(self._step), error) from error
        if answer.shape != (batch.num_rows,) or answer.dtype.kind not in "iu":
            problem = f"a partitioner gives {batch.num_rows} whole numbers, not {_spelled(answer)}"
            raise UserCodeError(Where(self._step), TypeError(problem))
        wrong = np.flatnonzero((answer < 0) | (answer >= tasks))
        if len(wrong):
            row = int(wrong[0])
            problem = f"a partitioner gives places in 0..{tasks - 1}, not {answer[row]}"
            raise UserCodeError(Where(self._step, record=record_text(rows.slice(row))), ValueError(problem))
        return answer.astype(np.int32)


def _spelled(answer: "np.ndarray[Any, Any]") -> str:
    return f"{answer.dtype} of shape {answer.shape}"
