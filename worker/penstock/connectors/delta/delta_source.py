"""A table of Delta Lake as a source."""

from penstock.connectors.delta.client import DeltaPlace
from penstock.connectors.delta.delta_log import DeltaLog
from penstock.connectors.tables.table_source import TableSource
from penstock.contract.columns import Columns
from penstock.contract.delta_options import DeltaInput
from penstock.contract.event_time import EventTime

REMEDY = "correct `table`, or make the table first"


class DeltaSource(TableSource):
    """One table of Delta Lake."""

    def __init__(self, options: DeltaInput, columns: Columns, event_time: EventTime | None = None) -> None:
        """Look at the table. Raises NotThere when there is none, ConfigError when it cannot be read; StorageError."""
        super().__init__(delta_log(options, columns), options.follow, int(options.rate), event_time)


def delta_log(options: DeltaInput, columns: Columns) -> DeltaLog:
    """Look at the table that options name. Raises NotThere when there is none, ConfigError when it cannot be read."""
    return DeltaLog(DeltaPlace(options, REMEDY), columns, skip_changes=bool(options.skip_change_commits))
