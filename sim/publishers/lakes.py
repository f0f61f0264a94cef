"""Tables of files as targets of the runs. Others write to them, too, compact them, and have old files removed."""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Protocol

import deltalake

from penstock.connectors.delta import client as delta_client
from penstock.connectors.delta import marked_versions
from penstock.connectors.delta.delta_sink import DeltaSink
from penstock.connectors.s3 import object_folder
from penstock.connectors.staged_sink import StagedTarget
from penstock.contract.delta_options import DeltaOutput
from sim.publishers.lake_target import COLUMNS_MAX, LakeTarget
from sim.publishers.strands import running
from sim.publishers.targets import LARGE, NAME, NOWHERE, SCHEMA, NoReply, PublishTarget, never_back, replace_name
from sim.servers.delta_client import DeltaApi
from sim.servers.delta_table import RETENTION_S, VirtualDelta
from sim.servers.object_store import BucketClient

DIGEST = "/digest"  # ends the name of the second number of a marker


class Lake(PublishTarget, Protocol):
    """What the world does with a table of files, beside what it does with all targets.

    ``misfit`` is in the text of an error that tells a user to change the table, because it does not take the rows.
    """

    misfit: str

    def take_all(self) -> None:
        """Take all rows again, as a user does who has read why the table does not take them."""
        ...

    def let_days_pass(self) -> None:
        """Let so much time pass that a file which no version has is old."""
        ...

    def write_as_another(self, draw: Random) -> None:
        """Do what one of the other writers does, at once."""
        ...

    def vacuum(self) -> None:
        """Run VACUUM as a thread of its own: old files that no version has are removed."""
        ...


def _numbered(name: str, before: int | None, number: int) -> None:
    if not name.endswith(DIGEST):
        never_back(name, None if before is None else (before,), (number,))


class DeltaTarget(LakeTarget):
    """A table of Delta Lake in a bucket."""

    misfit = "CHECK constraints"
    _server: VirtualDelta

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock, RETENTION_S)
        self._server = VirtualDelta(self._now, _numbered)
        self._server.make_table(NAME, {"word": "string", "number": "long"}, not_null=("number",))
        self._alone: dict[str, int] = {}  # the number of another writer's row, by its file
        self._merged: list[int] = []  # those that are in a file with others
        for module in (delta_client, marked_versions):
            replace_name(module, "library", lambda: DeltaApi(self._ask))
        replace_name(object_folder, "_connect", lambda _: BucketClient(NAME, self._ask_for_object))

    def _ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return self._ask_server(name, arguments)
        except NoReply as error:
            raise deltalake.exceptions.DeltaError("Generic S3 error: the connection was lost") from error

    def _theirs(self) -> Iterable[int]:
        return (*self._merged, *self._alone.values())

    def staged(self) -> StagedTarget:
        """See PublishTarget."""
        return DeltaSink("out", DeltaOutput(table=f"s3://simulated/{NAME}"), SCHEMA, NOWHERE)._target

    def take_less(self) -> None:
        """See PublishTarget."""
        self._server.set_checks(NAME, short=f"length(word) < {LARGE}")

    def take_all(self) -> None:
        """See Lake."""
        self._server.set_checks(NAME)

    def _write_as_another(self, draw: Random) -> None:
        match draw.choice(("append", "delete", "compact", "add a column")):
            case "append":
                self._written += 1
                self._alone[self._server.append(NAME, [{"word": "theirs", "number": -self._written}])] = -self._written
            case "delete" if self._alone:
                path = draw.choice(list(self._alone))
                self._server.delete_rows(NAME, path)
                del self._alone[path]
            case "compact":
                self._server.compact(NAME)
                self._merged += self._alone.values()
                self._alone.clear()
            case "add a column" if self._columns < COLUMNS_MAX:
                self._columns += 1
                self._server.add_column(NAME, f"theirs_{self._columns}")

    def vacuum(self) -> None:
        """See Lake."""
        strand = running()
        for key in strand.ask("unused", lambda: self._server.unused(NAME)):
            strand.ask("delete", partial(self._server.delete, key))


def _iceberg(clock: Callable[[], float]) -> Lake:
    from sim.publishers.iceberg_lake import IcebergTarget  # noqa: PLC0415 - its client takes a second to load

    return IcebergTarget(clock)


LAKES: dict[str, Callable[[Callable[[], float]], Lake]] = {"delta": DeltaTarget, "iceberg": _iceberg}
