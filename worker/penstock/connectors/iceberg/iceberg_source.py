"""A table of Iceberg as a source."""

from penstock.connectors.iceberg.client import IcebergPlace
from penstock.connectors.iceberg.snapshot_log import SnapshotLog
from penstock.connectors.tables.table_source import TableSource
from penstock.contract.columns import Columns
from penstock.contract.event_time import EventTime
from penstock.contract.iceberg_options import IcebergInput

REMEDY = "correct `table` and `catalog`, or make the table first"


class IcebergSource(TableSource):
    """One table of Iceberg."""

    def __init__(self, options: IcebergInput, columns: Columns, event_time: EventTime | None = None) -> None:
        """Look at the table. Raises NotThere when there is none, ConfigError when it cannot be read; StorageError."""
        super().__init__(iceberg_log(options, columns), options.follow, int(options.rate), event_time)


def iceberg_log(options: IcebergInput, columns: Columns) -> SnapshotLog:
    """Look at the table that options name. Raises NotThere when there is none, ConfigError when it cannot be read."""
    return SnapshotLog(IcebergPlace(options, REMEDY), columns, skip_changes=bool(options.skip_change_commits))
