"""What the transport tells the engine. Told on its own threads: put it into an inbox and return."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.contract.ids import Attempt, ChannelId, Ordinal


@dataclass(frozen=True, slots=True)
class StreamBroken:
    """A stream ended before its end of stream: the attempt must roll back. Never redialled.

    ``channel`` is None for the link that carries credits.
    """

    attempt: Attempt
    peer: Ordinal
    channel: ChannelId | None
    reason: str


@dataclass(frozen=True, slots=True)
class StreamRefused:
    """A peer refused our handshake, for the reason given."""

    attempt: Attempt
    peer: Ordinal
    channel: ChannelId | None
    reason: str


@dataclass(frozen=True, slots=True)
class OrphansExceeded:
    """Too many detached threads cannot be ended from here: restart the engine."""

    count: int


TransportEvent = StreamBroken | StreamRefused | OrphansExceeded
OnEvent = Callable[[TransportEvent], None]
