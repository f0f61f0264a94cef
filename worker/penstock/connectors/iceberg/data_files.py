"""What a table of Iceberg is told of a file that is added to it, from the file's footer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from penstock.connectors.iceberg.client import IcebergSnapshot
from penstock.connectors.iceberg.iceberg_columns import file_columns, holds, iceberg_type, lacking
from penstock.connectors.iceberg.partition_fields import record_of


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file at the table that no snapshot has yet. ``values`` are those of its partition fields, by their numbers."""

    location: str
    size: int
    footer: pq.FileMetaData
    values: Mapping[int, Any]

    def unfit(self, snapshot: IcebergSnapshot, where: str) -> str | None:
        """Return why the table, which may have changed since the file was staged, cannot have it; None when it can.

        A column that got another name or a wider type, or was removed, is no reason: older files have it, too.
        """
        schema = snapshot.table.schema()
        now = {field.field_id: field for field in schema.fields}
        columns = file_columns(self.footer)
        for field in self.footer.schema.to_arrow_schema():
            found = now.get(columns[field.name])
            if found is None:
                continue
            kind = iceberg_type(field, where)
            if not holds(str(found.field_type), kind):
                return f"column {found.name!r} is {found.field_type}, and the rows have {kind}: make them equal"
        try:
            record_of(snapshot.table.spec(), self.values)
        except KeyError:
            return "it has other partition fields: bring the old ones back until the job has published"
        return lacking(schema, [found.name for number, found in now.items() if number in columns.values()])

    def data_file(self, snapshot: IcebergSnapshot) -> Any:
        """Return the file as the client has it."""
        from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata  # noqa: PLC0415 - an extra
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat  # noqa: PLC0415 - an extra

        table, columns = snapshot.table, file_columns(self.footer)
        plan = _statistics_plan(table, columns)
        statistics = data_file_statistics_from_parquet_metadata(self.footer, plan, columns)
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.location,
            file_format=FileFormat.PARQUET,
            partition=record_of(table.spec(), self.values),
            file_size_in_bytes=self.size,
            sort_order_id=None,
            spec_id=table.spec().spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _statistics_plan(table: Any, columns: Mapping[str, int]) -> Any:
    """Return which statistics are made of each column of a file. A column that the table no longer has gets none."""
    from pyiceberg.io.pyarrow import (  # noqa: PLC0415 - an extra
        MetricModeTypes,
        MetricsMode,
        StatisticsCollector,
        compute_statistics_plan,
    )
    from pyiceberg.types import BinaryType  # noqa: PLC0415 - an extra

    nothing = MetricsMode(MetricModeTypes.NONE)
    removed = {number: StatisticsCollector(number, BinaryType(), nothing, name) for name, number in columns.items()}
    return removed | compute_statistics_plan(table.schema(), table.metadata.properties)
