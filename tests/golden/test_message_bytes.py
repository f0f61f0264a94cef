"""The bytes of every message, file and record in JSON: they never change by accident.

One line for each class that is reached from something that is read somewhere. A class that is
renamed, or a field that gets another name, type or default, shows here. What is stored
(checkpoints, savepoints, ``-latest``) is read by later releases: a change of these lines needs an
answer to how.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest

from penstock.cli.record import record_of
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.contract import codec
from penstock.graph import load_job, read_job_file
from penstock.protocol.core_context import ControlSettings
from tests.support.messages import classes, is_message, plain_type

Golden = Callable[[str, str], None]
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(kind: Any, name: str = "", place: int = 1, depth: int = 0) -> Any:
    """Make a value of a type: all that is optional is there, and one entry of all that are many.

    A text is the ``name`` of its field, a number the ``place`` of it.
    """
    kind = plain_type(kind)
    origin, args = get_origin(kind), get_args(kind)
    if is_message(kind):
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
    fields = [(n, f) for n, f in enumerate(msgspec.structs.fields(kind), 1)]
    if depth > 2:  # what stands further in has its own line
        fields = [(n, f) for n, f in fields if f.required]
    return kind(**{f.name: example(hints[f.name], f.name, n, depth + 1) for n, f in fields})


def test_the_bytes_of_every_message(golden: Golden) -> None:
    lines = [codec.encode(example_of(c)).decode() for c in classes()]
    golden("messages.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", classes())
def test_no_default_is_the_description_of_a_field(kind: type) -> None:
    """``dataclasses.field`` is one in a message, and mypy does not see it."""
    defaults = [f.default for f in msgspec.structs.fields(kind)]
    assert not [d for d in defaults if isinstance(d, dataclasses.Field)]


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
