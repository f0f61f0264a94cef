"""Counters of channels. They are updated per element, never per row."""

from dataclasses import dataclass

from penstock.base.values import replace
from penstock.contract.ids import ChannelId


@dataclass(slots=True)
class OutputStats:
    """The sender's end. ``waited_s`` is how long rows were refused because the channel was full."""

    channel: ChannelId
    elements: int = 0
    rows: int = 0
    bytes: int = 0
    refusals: int = 0
    waited_s: float = 0.0
    waiting_bytes: int = 0
    credit_bytes: int = 0

    def count(self, rows: int, charge: int) -> None:
        """Count a sent element. An element without rows has the charge 0."""
        self.elements += 1
        self.rows += rows
        self.bytes += charge

    def copy(self) -> "OutputStats":
        """Return a copy, which the transport does not change any more."""
        return replace(self)


@dataclass(slots=True)
class InputStats:
    """The receiver's end. ``queued_bytes`` is what the task has not taken yet."""

    channel: ChannelId
    elements: int = 0
    rows: int = 0
    bytes: int = 0
    queued_bytes: int = 0

    def copy(self) -> "InputStats":
        """Return a copy, which the transport does not change any more."""
        return replace(self)


@dataclass(frozen=True, slots=True)
class ExchangeStats:
    """All channels of a worker, and how many handlers of its server work or are orphans.

    An orphan is a handler or a writing thread of an attempt that is over. Only the peer, or the end
    of the connection to it, can end an orphan.
    """

    outputs: tuple[OutputStats, ...]
    inputs: tuple[InputStats, ...]
    handlers: int
    orphans: int
