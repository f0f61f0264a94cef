"""The part of an inspector that needs Arrow but no connector: calling a function with no rows."""

from collections.abc import Callable

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.contract.columns import Columns
from penstock.graph.arrow import arrow_schema, columns_of_schema
from penstock.graph.entrypoint import told
from penstock.steps.refusals import parted


def empty_call_columns(function: Callable[..., object], columns: Columns) -> Columns:
    """Call a batch function once with an empty batch and return the columns of what it gives.

    Raises ConfigError when it raises or gives something else than a batch: then the columns must
    be declared.
    """
    schema = arrow_schema(columns)
    batch = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    try:
        given, _ = parted(function(batch), 0)
    except BaseException as error:  # a user's
        raise ConfigError(
            "its columns are not declared, and calling it with an empty batch failed: "
            f"{told(error)}"
        ) from error
    if not isinstance(given, pa.RecordBatch | pa.Table):
        raise ConfigError(f"it gives {type(given).__name__}; it must give a pyarrow.RecordBatch")
    return columns_of_schema(given.schema)
