"""The buffer of a sender during a rescale: it holds the rows whose receiver changes.

::

    NONE      ──> UNDECIDED
    UNDECIDED ──> NONE, FORWARD
    FORWARD   ──> NONE

- NONE: there is no rescale, and every row is sent at once.
- UNDECIDED: the barrier of the rescale was sent. An abort gives all held rows to the old owners.
- FORWARD: the rescale is committed. Held rows go to the new owners, one receiver after another.

Rows whose receiver is the same before and after flow on. All other rows are held. A bound in bytes
limits them: a task whose buffer is full takes no input. Held rows stand in front of the next
barrier, so the bound is a few windows of the channels that the rows are held for. The window of a
joiner says nothing yet, so the largest window of its edge is taken for it.

A channel opens when its receiver has announced the new version in its credit. Credit alone is not
enough: a receiver that stays and gains groups has had credit all along. Nothing is sent to a task
that leaves.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from penstock.base.limits import HELD_BYTES_MIN, HELD_WINDOWS
from penstock.contract.ids import ChannelId, Version
from penstock.protocol.core_context import checked
from penstock.protocol.task.task_messages import RoutedRows, Send


class BufferPhase(Enum):
    """The phases of the buffer."""

    NONE = 0
    UNDECIDED = 1
    FORWARD = 2


TRANSITIONS: dict[BufferPhase, tuple[BufferPhase, ...]] = {
    BufferPhase.NONE: (BufferPhase.UNDECIDED,),
    BufferPhase.UNDECIDED: (
        BufferPhase.NONE,  # aborted: all rows go to the old owners
        BufferPhase.FORWARD,  # committed, or a receiver announces the next version
    ),
    BufferPhase.FORWARD: (BufferPhase.NONE,),  # all receivers have announced the next version
}


class RescaleBuffer:
    """Holds rows between a rescale barrier and the resumption of their new owners."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_closed",
        "_held",
        "_limit",
        "_peers",
        "_version",
        "held_rows",
        "phase",
    )

    def __init__(self, bytes_max: int) -> None:
        """Begin outside a rescale. ``bytes_max`` bounds the rows that the task holds."""
        self.phase = BufferPhase.NONE
        self._bytes_max = bytes_max
        self._limit = bytes_max
        self._bytes = 0
        self.held_rows = 0
        self._version = Version(0)
        self._held: list[RoutedRows] = []
        self._closed: dict[ChannelId, None] = {}
        self._peers: dict[ChannelId, Version] = {}

    @property
    def full(self) -> bool:
        """Return whether the task must stop taking input."""
        return self._bytes >= self._limit

    @property
    def held_bytes(self) -> int:
        """Return the charge of all held rows, in bytes."""
        return self._bytes

    @property
    def awaited(self) -> tuple[ChannelId, ...]:
        """List the outputs whose receiver has not announced the next version."""
        return tuple(self._closed)

    def open(self, channel: ChannelId) -> bool:
        """Return whether marks may be sent on an output: never before the rows held for it."""
        return channel not in self._closed

    def begin(self, version: Version, outputs: Iterable[ChannelId]) -> None:
        """Close every output of the next version whose receiver has not announced that version."""
        self._enter(BufferPhase.UNDECIDED)
        self._version = version
        self._limit = self._bytes_max
        self._closed = {c: None for c in outputs if self._peers.get(c, 0) < version}

    def bound(self, windows: Mapping[ChannelId, int]) -> None:
        """Hold no more than some windows of those that are waited for, by outputs as they are."""
        largest: dict[int, int] = {}
        for channel, window in windows.items():
            largest[channel.edge] = max(window, largest.get(channel.edge, 0))
        wanted = sum(HELD_WINDOWS * largest.get(channel.edge, 0) for channel in self._closed)
        self._limit = min(max(wanted, HELD_BYTES_MIN), self._bytes_max)

    def offer(self, pieces: Iterable[RoutedRows]) -> list[Send]:
        """Send what may go now, in order; keep or drop the rest."""
        if self.phase is BufferPhase.NONE:
            return [Send(p.new, p.data) for p in pieces if p.new is not None]
        sends: list[Send] = []
        for piece in pieces:
            to = piece.new
            if to is not None and (piece.old == to or to not in self._closed):
                sends.append(Send(to, piece.data))
            elif to is not None or self.phase is BufferPhase.UNDECIDED:
                self._held.append(piece)
                self._bytes += piece.data.charge
                self.held_rows += piece.data.rows
        return sends

    def announced(self, channel: ChannelId, version: Version) -> list[Send]:
        """Take the version that the receiver of ``channel`` has loaded; release the rows for it."""
        self._peers[channel] = max(version, self._peers.get(channel, version))
        if self.phase is BufferPhase.NONE or version < self._version:
            return []
        self.commit()  # only a committed version is announced
        self._closed.pop(channel, None)
        return self._release(channel)

    def commit(self) -> None:
        """Go only forward from now on: the next version is committed."""
        if self.phase is BufferPhase.UNDECIDED:
            self._enter(BufferPhase.FORWARD)
            self._keep([p for p in self._held if p.new is not None])

    def abort(self) -> list[Send]:
        """Release all rows to the old owners, in order. The rescale is over."""
        assert self.phase is BufferPhase.UNDECIDED, "a committed rescale only goes forward"
        sends = [Send(p.old, p.data) for p in self._held if p.old is not None]
        self._finish()
        return sends

    def forward(self) -> list[Send]:
        """Release all rows to the new owners: all of them have resumed."""
        self.commit()
        sends = [Send(p.new, p.data) for p in self._held if p.new is not None]
        self._finish()
        return sends

    def settled(self) -> bool:
        """Return whether the rescale is over. It ends when every receiver has announced."""
        if self.phase is BufferPhase.FORWARD and not self._closed:
            self._finish()
        return self.phase is BufferPhase.NONE

    def _release(self, channel: ChannelId) -> list[Send]:
        sends = [Send(channel, p.data) for p in self._held if p.new == channel]
        if sends:
            self._keep([p for p in self._held if p.new != channel])
        return sends

    def _keep(self, pieces: list[RoutedRows]) -> None:
        self._held = pieces
        self._bytes = sum(p.data.charge for p in pieces)
        self.held_rows = sum(p.data.rows for p in pieces)

    def _enter(self, phase: BufferPhase) -> None:
        self.phase = checked(TRANSITIONS, self.phase, phase)

    def _finish(self) -> None:
        self._enter(BufferPhase.NONE)
        self._closed.clear()
        self._keep([])
