"""The events of a run in few words, for a reader who looks for the cause of a finding.

A line says who got what: a call and its reply, a message from a peer, an order to an engine, a
report to a keeper, a fault. Clock ticks are left out. A value shows the fields that differ from their
defaults, two levels deep.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

import msgspec

from penstock.base.user_code import shortened
from sim.kernel.calls import Call, Late, Reply, Written
from sim.kernel.faults import Verdict
from sim.kernel.messages import Order
from sim.kernel.network import Packet

DEPTH_MAX = 2
ITEMS_MAX = 3
CHARS_MAX = 160
SILENT = {"Due", "Hint", "Beat", "Poll", "PollDesired", "Turn", "Look", "Booted", "Compiled", "Answered"}
# These say the same in nearly every line, or nothing to a reader.
LEFT_OUT = {"token", "life", "job_uid", "wall_us", "sequence", "sha256", "lane"}


def transcribe(event: object) -> str:
    """Return an event in words, or nothing for an event that is only the passing of time."""
    match event:
        case Call(client=client, op=op, verdict=verdict):
            fate = "" if verdict is Verdict.DONE else f" [{verdict.value}]"
            text = f"{client} calls {words(op)}{fate}"
        case Reply(op=op, value=value, error=error):
            text = f"reply to {type(op).__name__}: {error or words(value)}"
        case Written(call=call):
            text = f"{call.client} has written {words(call.op)}"
        case Late(call=call):
            text = f"late, {call.client} no longer waits: {words(call.op)}"
        case Packet(source=source, body=body):
            text = f"from {source}: {words(_inner(body))}"
        case Order(command=command):
            text = f"order: {words(command)}"
        case _ if type(event).__name__ in SILENT:
            return ""
        case _:
            text = words(event)
    return shortened(text, CHARS_MAX)


def _inner(body: object) -> object:
    """Return what an envelope carries."""
    for name in ("envelope", "body"):
        body = getattr(body, name, body)
    return body


def words(value: object, depth: int = 0) -> str:
    """Return a value with the fields that say something."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str | int | float | bool | None):
        return " ".join(str(value).split())
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return f"{len(value)} entries"
    if isinstance(value, tuple | list | frozenset | set):
        few = depth < DEPTH_MAX and len(value) <= ITEMS_MAX
        return "(" + ", ".join(words(item, depth + 1) for item in value) + ")" if few else f"{len(value)} items"
    name = type(value).__name__
    if depth > DEPTH_MAX or not (is_dataclass(value) or isinstance(value, msgspec.Struct)):
        return name
    shown = ", ".join(f"{field}={words(item, depth + 1)}" for field, item in _telling(value))
    return f"{name}({shown})" if shown else name


def _telling(value: Any) -> Iterator[tuple[str, object]]:
    """Yield the fields that do not have their defaults."""
    for name, default in _fields(value):
        item = getattr(value, name)
        if name not in LEFT_OUT and (default is MISSING or item != default) and item not in (None, "", ()):
            yield name, item


def _fields(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield field.name, MISSING if field.default is msgspec.NODEFAULT else field.default
    else:
        for known in fields(value):
            yield known.name, known.default
