"""All messages: what is read as JSON somewhere, and every class that is part of it."""

import typing
from collections.abc import Iterator
from typing import Any, get_args

from penstock.cli.record import JobRecord
from penstock.cluster import metadata, rpc
from penstock.cluster.host import FromStarter, ToHost
from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.link import FromEngine, TermedCommand
from penstock.cluster.rpc import Method
from penstock.contract.codec import Message
from penstock.contract.control_messages import EngineLaunch, MembersFile
from penstock.contract.graph import LogicalGraph
from penstock.contract.latest import Desired, Latest
from penstock.contract.manifest import RootManifest
from penstock.contract.pod import Termination
from penstock.contract.status import JobStatus
from penstock.keeper.savepoint_copies import SavepointIndex
from penstock.model import ingest_messages
from penstock.supervisor.folders import Endpoint

METHODS = [m for of in (rpc, metadata) for m in vars(of).values() if type(m) is Method]
READ = (
    *(kind for method in METHODS for kind in (method.request, method.reply)),
    *(TermedCommand, FromEngine, ToHost, FromStarter),
    *(KeeperLaunch, EngineLaunch, Endpoint, Termination, JobRecord),
    *(Latest, Desired, RootManifest, MembersFile, SavepointIndex, JobStatus, LogicalGraph),
    *(
        ingest_messages.Hello,
        ingest_messages.Rows,
        ingest_messages.PartitionEnd,
        ingest_messages.IngestReply,
    ),
)


def is_message(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Message)


def plain_type(kind: Any) -> Any:
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return kind


def parts_of(kind: Any) -> Iterator[Any]:
    kind = plain_type(kind)
    if is_message(kind):
        yield from typing.get_type_hints(kind).values()
    yield from get_args(kind)


def classes() -> list[type[Message]]:
    """List every class that is part of what is read, once, in the order of their tags."""
    found: list[type[Message]] = []
    seen: list[Any] = []
    waiting = list(READ)
    while waiting:
        kind = plain_type(waiting.pop())
        if kind in seen:
            continue
        seen.append(kind)
        if is_message(kind):
            found.append(typing.cast("type[Message]", kind))
        waiting += parts_of(kind)
    return sorted(found, key=lambda c: (tag_of(c), -len(c.__struct_fields__)))


def tag_of(kind: type[Message]) -> str:
    return str(kind.__struct_config__.tag)
