"""The events of a task, and its actions: the language of :class:`TaskCore`.

An event is a fact, or a command that arrived. An action is an order to the shell. The shell reports
the outcome of an action that can fail as another event. Payloads are opaque. The actions are defined
in :mod:`task_actions` and also named here, so that a shell imports one module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Epoch, SplitId, Term, Version
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
    """Begin: load the state of the checkpoint. A task that joins only pre-loads it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state of ``version`` that LoadState asked for is loaded."""

    version: Version


@dataclass(frozen=True, slots=True)
class Started:
    """All workers are READY and old output is visible: sources may read, rows may flow."""


@dataclass(frozen=True, slots=True)
class ResetTo:
    """The attempt is over: discard what is newer than ``epoch``. The last event of a core."""

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
    """There is no input, or the flush interval has passed. Marks that wait may be sent."""


@hot_dataclass
class RowsRead:
    """A source has read rows of ``split``. ``data.max_ts`` is their largest event time."""

    split: SplitId
    data: Data[Any]


@hot_dataclass
class SplitEmpty:
    """A split was asked for rows and had none."""

    split: SplitId


@dataclass(frozen=True, slots=True)
class SplitEnded:
    """A bounded split has no more rows, ever."""

    split: SplitId


@hot_dataclass
class ReadBlocked:
    """The task could not read for a while (credit, upload, full sink). That is no silence."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A barrier reached a source task, from the leader or in band, between two batches."""

    barrier: Barrier


# --- Events: output --------------------------------------------------------------------------


@hot_dataclass
class RoutedRows:
    """Rows for one receiver: ``old`` under the assignment that holds, ``new`` under the next.

    Both are the same outside a rescale. None: that version does not have the receiver (broadcast
    and round-robin edges).
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
    """The receiver of an output channel has announced in its credit that it loaded ``version``."""

    channel: ChannelId
    version: Version


@dataclass(frozen=True, slots=True)
class Paced:
    """The window of each output channel, which bounds the held rows."""

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
    """The snapshot of (term, epoch) is durable, and its output is prepared."""

    term: Term
    epoch: Epoch
    parts: SnapshotParts


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The snapshot could not be stored. ``handles`` are those of sinks that have prepared output."""

    term: Term
    epoch: Epoch
    reason: str
    handles: tuple[SinkHandle, ...] = ()


@dataclass(frozen=True, slots=True)
class Expedited:
    """Somebody waits for ``epoch``, which may not have begun here yet."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """``epoch`` is committed, and the assignment that holds is ``version``."""

    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Aborted:
    """(term, epoch) will never be committed."""

    term: Term
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class TermAnnounced:
    """A new term has begun: ``epoch`` is committed under ``version``; newer epochs are aborted."""

    term: Term
    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Published:
    """All output of ``epoch`` that PublishOutput named is visible."""

    epoch: Epoch


# --- Events: rescale -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposed:
    """Step 1: the table of the next version. ``root`` is the checkpoint to pre-load from."""

    assignment: Assignment
    root: RootManifest | None


@dataclass(frozen=True, slots=True)
class Preloaded:
    """The files of Preload are fetched, or the try has failed. Both are harmless."""

    version: Version


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The proposed ``version`` is cancelled."""

    version: Version


@dataclass(frozen=True, slots=True)
class RescaleCommitted:
    """Step 4: ``version`` is committed with ``root``. Load the gained state and resume."""

    version: Version
    root: RootManifest


@dataclass(frozen=True, slots=True)
class RescaleSettled:
    """All have resumed under ``version``: the streams that it does not have may end."""

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
    | Produced
    | PeerVersion
    | SnapshotStored
    | StoreFailed
    | Expedited
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
    "Expedited",
    "Failed",
    "Forget",
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
]
