"""Looks at user functions: the columns that one returns, and whether rows fit its types. Imports Arrow."""

from collections.abc import Callable

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.contract.columns import Columns
from penstock.graph.arrow import arrow_schema, columns_of_schema
from penstock.graph.entrypoint import error_with_traceback
from penstock.model.declared.function_types import FunctionTypes
from penstock.steps.refusals import split_refusals
from penstock.steps.typed.record_reader import RecordReader


def record_problem(types: FunctionTypes, columns: Columns) -> str | None:
    """Return why rows with these columns cannot be given to a function with types; None if they can."""
    try:
        RecordReader(types.record, arrow_schema(columns))
    except ConfigError as error:
        return str(error)
    return None


def empty_call_columns(function: Callable[..., object], columns: Columns) -> Columns:
    """Call a batch function once with an empty batch, and return the columns of its result.

    Raises ConfigError if the function raises or does not return a batch. The user must declare the
    columns in this case.
    """
    schema = arrow_schema(columns)
    batch = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    try:
        result, _ = split_refusals(function(batch), 0)
    except BaseException as error:  # a user function may raise anything
        raise ConfigError(
            f"its columns are not declared, and calling it with an empty batch failed: {error_with_traceback(error)}"
        ) from error
    if not isinstance(result, pa.RecordBatch | pa.Table):
        raise ConfigError(f"it returns {type(result).__name__}; it must return a pyarrow.RecordBatch")
    return columns_of_schema(result.schema)
