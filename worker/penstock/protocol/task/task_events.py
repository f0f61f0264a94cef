"""What happens to a task, and what a task wants done: the language of :class:`TaskCore`.

Events are facts, in the past tense or as the command that arrived; actions are orders to the
shell, which reports the outcome of those that can fail as another event. Payloads are opaque.
Actions are defined in :mod:`task_actions` and named here too, so that a driver imports one module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Epoch, KeyGroup, SplitId, Term, Version
from penstock.contract.manifest import (
    RootManifest,
    SinkHandle,
    SplitState,
    StateFile,
)
from penstock.contract.plan import Assignment
from penstock.model.elements import Barrier, Control, Data
from penstock.protocol.task.task_actions import (
    Ack,
    Action,
    AdvanceWatermark,
    AnnounceVersion,
    CloseSplits,
    ConfirmCommitted,
    Discard,
    DropGroups,
    ExpediteSnapshot,
    Failed,
    Fire,
    Forget,
    LoadState,
    Preload,
    Prepared,
    ProcessRows,
    PublishOutput,
    RelayBarrier,
    ReportFinished,
    ReportReady,
    Resumed,
    Send,
    SendMark,
    Snapshot,
)

# --- Events: life of a task ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    """Begin: load what the checkpoint says. Answered by Load or, for a joiner, by nothing."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state of ``version`` asked for by Load is there."""

    version: Version


@dataclass(frozen=True, slots=True)
class Started:
    """All workers are READY and old output is visible: sources may read, rows may flow."""


@dataclass(frozen=True, slots=True)
class ResetTo:
    """The attempt is over: drop everything newer than ``epoch``. The last event of a core."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EndAll:
    """The final epoch is published: end the streams."""


# --- Events: input ---------------------------------------------------------------------------


@hot_dataclass
class ElementReceived:
    """An element was taken from a channel for which ``reads`` was true."""

    channel: ChannelId
    element: Data[Any] | Control


@hot_dataclass
class InputIdle:
    """Nothing to read, or the flush interval has passed: coalesced watermarks may go out."""


@hot_dataclass
class RowsRead:
    """A source read rows of ``split``; ``data.max_ts`` is their largest event time."""

    split: SplitId
    data: Data[Any]


@hot_dataclass
class SplitEmpty:
    """A split was asked and had nothing now."""

    split: SplitId


@dataclass(frozen=True, slots=True)
class SplitEnded:
    """A bounded split has no more rows, ever."""

    split: SplitId


@hot_dataclass
class ReadBlocked:
    """The task could not read for a while (credit, upload, full sink): splits were not silent."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A barrier reached a source task, from the leader or in band, between two batches."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class TimerDue:
    """A processing-time timer of a key group is due."""

    group: KeyGroup


# --- Events: output --------------------------------------------------------------------------


@hot_dataclass
class RoutedRows:
    """Rows for one receiver: ``old`` under the assignment that holds, ``new`` under the next.

    Both are the same in ordinary life. None: the receiver has no place in that version
    (broadcast and round-robin edges).
    """

    old: ChannelId | None
    new: ChannelId | None
    data: Data[Any]


@hot_dataclass
class Produced:
    """Rows that leave, in order."""

    pieces: tuple[RoutedRows, ...]


@dataclass(frozen=True, slots=True)
class PeerVersion:
    """The receiver of an output channel announced in its credit that it has loaded ``version``."""

    channel: ChannelId
    version: Version


@dataclass(frozen=True, slots=True)
class Paced:
    """How many bytes may wait behind each output, at its receiver's pace, when rows are held."""

    windows: Mapping[ChannelId, int]


# --- Events: checkpoints ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotParts:
    """What the shell has made durable for a snapshot."""

    files: tuple[StateFile, ...] = ()
    splits: tuple[SplitState, ...] = ()
    handles: tuple[SinkHandle, ...] = ()
    lists: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """The snapshot asked for under (term, epoch) is durable and its output prepared."""

    term: Term
    epoch: Epoch
    parts: SnapshotParts


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The snapshot could not be stored; ``handles`` are those of sinks that did prepare."""

    term: Term
    epoch: Epoch
    reason: str
    handles: tuple[SinkHandle, ...] = ()


@dataclass(frozen=True, slots=True)
class Hurried:
    """Somebody waits for ``epoch``, which may not have begun here."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """``epoch`` is committed; the assignment that holds is ``version``."""

    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Aborted:
    """(term, epoch) will never be committed."""

    term: Term
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class TermAnnounced:
    """A new term leads: ``epoch`` is committed under ``version``, and all newer ones are off."""

    term: Term
    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Published:
    """All output of ``epoch`` asked for by Publish is visible."""

    epoch: Epoch


# --- Events: rescale -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposed:
    """Step 1: the table of the next version; ``root`` is the checkpoint to pre-load from."""

    assignment: Assignment
    root: RootManifest | None


@dataclass(frozen=True, slots=True)
class Preloaded:
    """The files of Preload are near, or the try failed; both are fine."""

    version: Version


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The proposed ``version`` is off."""

    version: Version


@dataclass(frozen=True, slots=True)
class RescaleCommitted:
    """Step 4: ``version`` is committed with ``root``; load what was gained and resume."""

    version: Version
    root: RootManifest


@dataclass(frozen=True, slots=True)
class RescaleSettled:
    """All have resumed under ``version``: streams that it does not have may end."""

    version: Version


Event = (
    Build
    | Loaded
    | Started
    | ResetTo
    | EndAll
    | ElementReceived
    | InputIdle
    | RowsRead
    | SplitEmpty
    | SplitEnded
    | ReadBlocked
    | Injected
    | TimerDue
    | Produced
    | PeerVersion
    | SnapshotStored
    | StoreFailed
    | Hurried
    | EpochCommitted
    | Aborted
    | TermAnnounced
    | Published
    | Proposed
    | Preloaded
    | Cancelled
    | RescaleCommitted
    | RescaleSettled
    | Paced
)

__all__ = [
    "Aborted",
    "Ack",
    "Action",
    "AdvanceWatermark",
    "AnnounceVersion",
    "Build",
    "Cancelled",
    "CloseSplits",
    "ConfirmCommitted",
    "Discard",
    "DropGroups",
    "ElementReceived",
    "EndAll",
    "EpochCommitted",
    "Event",
    "ExpediteSnapshot",
    "Failed",
    "Fire",
    "Forget",
    "Hurried",
    "Injected",
    "InputIdle",
    "LoadState",
    "Loaded",
    "Paced",
    "PeerVersion",
    "Preload",
    "Preloaded",
    "Prepared",
    "ProcessRows",
    "Produced",
    "Proposed",
    "PublishOutput",
    "Published",
    "ReadBlocked",
    "RelayBarrier",
    "ReportFinished",
    "ReportReady",
    "RescaleCommitted",
    "RescaleSettled",
    "ResetTo",
    "Resumed",
    "RoutedRows",
    "RowsRead",
    "Send",
    "SendMark",
    "Snapshot",
    "SnapshotParts",
    "SnapshotStored",
    "SplitEmpty",
    "SplitEnded",
    "Started",
    "StoreFailed",
    "TermAnnounced",
    "TimerDue",
]
