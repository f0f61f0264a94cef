"""Events that the transport reports to the engine.

They are reported on threads of the transport. The handler puts them into an inbox and returns.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.contract.ids import Attempt, ChannelId, Ordinal


@dataclass(frozen=True, slots=True)
class StreamBroken:
    """A stream closed before its end of stream. It is not dialled again: the attempt rolls back.

    ``channel`` is None for the link that carries credits.
    """

    attempt: Attempt
    peer: Ordinal
    channel: ChannelId | None
    reason: str


@dataclass(frozen=True, slots=True)
class StreamRefused:
    """A peer refused our handshake; ``reason`` is its text."""

    attempt: Attempt
    peer: Ordinal
    channel: ChannelId | None
    reason: str


@dataclass(frozen=True, slots=True)
class OrphansExceeded:
    """Too many threads of ended attempts are left. The process cannot end them: restart the engine."""

    count: int


TransportEvent = StreamBroken | StreamRefused | OrphansExceeded
OnEvent = Callable[[TransportEvent], None]
