"""The bytes of every message, file and record in JSON: they never change by accident.

One line for each class that is reached from something that is read somewhere. A class that is
renamed, or a field that gets another name, type or default, shows here. What is stored
(checkpoints, savepoints, ``-latest``) is read by later releases: a change of these lines needs an
answer to how.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest

from penstock.cli.record import JobRecord, record_of
from penstock.cluster import control, metadata, watch
from penstock.cluster.forks import Fork, FromForkServer
from penstock.cluster.host import FromHost, ToHost
from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.link import FromEngine, TermedCommand
from penstock.cluster.rpc import Method
from penstock.connectors.registry import ConnectorInspector
from penstock.contract import codec
from penstock.contract.control import MembersFile
from penstock.contract.graph import LogicalGraph
from penstock.contract.latest import Desired, Latest
from penstock.contract.launch import EngineLaunch
from penstock.contract.manifest import RootManifest
from penstock.contract.pod import Termination
from penstock.contract.status import JobStatus
from penstock.graph import load_job, read_job_file
from penstock.keeper.savepoint_copies import SavepointIndex
from penstock.model import ingest
from penstock.protocol.settings import ControlSettings
from penstock.supervisor.folders import Endpoint

Golden = Callable[[str, str], None]
METHODS = [m for of in (control, metadata, watch) for m in vars(of).values() if type(m) is Method]
READ = (
    *(kind for method in METHODS for kind in (method.request, method.reply)),
    *(TermedCommand, FromEngine, Fork, FromForkServer, ToHost, FromHost),
    *(KeeperLaunch, EngineLaunch, Endpoint, Termination, JobRecord),
    *(Latest, Desired, RootManifest, MembersFile, SavepointIndex, JobStatus, LogicalGraph),
    *(ingest.Hello, ingest.Rows, ingest.End, ingest.Reply),
)
EXAMPLES = Path(__file__).parents[2] / "examples"


def plain_type(kind: Any) -> Any:
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return kind


def parts_of(kind: Any) -> Iterator[Any]:
    kind = plain_type(kind)
    if dataclasses.is_dataclass(kind):
        yield from typing.get_type_hints(kind).values()
    yield from get_args(kind)


def classes() -> list[type]:
    """List every class that is part of what is read, once, in the order of their names."""
    found: list[type] = []
    seen: list[Any] = []
    waiting = list(READ)
    while waiting:
        kind = plain_type(waiting.pop())
        if kind in seen:
            continue
        seen.append(kind)
        if dataclasses.is_dataclass(kind):
            found.append(typing.cast("type", kind))
        waiting += parts_of(kind)
    return sorted(found, key=lambda c: (c.__name__, codec.encode(example_of(c))))


def example(kind: Any, name: str = "", place: int = 1, depth: int = 0) -> Any:
    """Make a value of a type: all that is optional is there, and one entry of all that are many.

    A text is the ``name`` of its field, a number the ``place`` of it.
    """
    kind = plain_type(kind)
    origin, args = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return example_of(typing.cast("type", kind), depth)
    if origin in {Union, types.UnionType}:
        return example(next(a for a in args if a is not type(None)), name, place, depth)
    if origin is tuple:
        each = args[:1] if args[-1] is Ellipsis else args
        return tuple(example(a, name, place + n, depth) for n, a in enumerate(each))
    if origin is dict:
        return {name: example(args[1], name, place, depth)}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind))
    return {str: name, int: place, float: place + 0.5, bool: True}[kind]


def example_of(kind: type, depth: int = 0) -> Any:
    if kind is ControlSettings:
        return ControlSettings()  # its values have to fit each other
    hints = typing.get_type_hints(kind)
    fields = [(n, f) for n, f in enumerate(dataclasses.fields(kind), 1)]
    if depth > 2:  # what stands further in has its own line
        fields = [(n, f) for n, f in fields if not has_default(f)]
    return kind(**{f.name: example(hints[f.name], f.name, n, depth + 1) for n, f in fields})


def has_default(field: "dataclasses.Field[Any]") -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def test_the_bytes_of_every_message(golden: Golden) -> None:
    lines = [codec.encode(example_of(c)).decode() for c in classes()]
    golden("messages.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", classes())
def test_what_is_written_is_read(kind: type) -> None:
    value = example_of(kind)
    assert codec.decode(kind, codec.encode(value)) == value


def test_the_fingerprints_and_digests_of_the_examples(golden: Golden) -> None:
    """Those of the graph part workers of different releases; those of the record part runs."""
    lines = []
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        if "\nkind: StreamJob\n" not in path.read_text():
            continue
        file = read_job_file(path, [])
        job = load_job(file, ConnectorInspector())
        lines.append(f"{path.relative_to(EXAMPLES)}")
        lines.append(f"  plan {job.plan.fingerprint} state {job.plan.state_fingerprint}")
        lines += [f"  {step.name} {step.sha256}" for step in record_of(job, file).steps]
    golden("fingerprints.txt", "\n".join(lines) + "\n")
