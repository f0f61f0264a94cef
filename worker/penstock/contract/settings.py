"""The parts of ``spec`` that configure workers: one class for each concern.

Units are last in the names of attributes. ``limits`` has the defaults and their reasons. A relation
between two fields is checked when the value is built.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from penstock.base import limits
from penstock.contract.schema import Duration, Field, Fields, Quantity, Rule


@dataclass(frozen=True, slots=True)
class CheckpointSettings(Fields):
    """When checkpoints begin, how long one may take, and how many are kept."""

    interval_s: Annotated[
        Duration,
        Field(
            "interval",
            "time from start to start; longer after a checkpoint that took more than half of it",
            minimum="100ms",
        ),
    ] = limits.CHECKPOINT_INTERVAL_S_DEFAULT
    timeout_s: Annotated[Duration, Field("timeout", "a checkpoint that takes longer is aborted", minimum="1s")] = (
        limits.CHECKPOINT_TIMEOUT_S_DEFAULT
    )
    min_pause_s: Annotated[
        Duration,
        Field("minPause", "least time from the end of one checkpoint to the start of the next"),
    ] = 0.0
    retain: Annotated[int, Field("retain", "checkpoints kept", minimum=1, maximum=limits.RETAINED_CHECKPOINTS_MAX)] = (
        limits.RETAINED_CHECKPOINTS_DEFAULT
    )


class StateBackend(StrEnum):
    """Where keyed state lives: in memory with a spill to disk, or on disk with a cache."""

    HYBRID = "hybrid"
    ROCKSDB = "rocksdb"


@dataclass(frozen=True, slots=True)
class StateSettings(Fields):
    """How keyed state is kept; what does not fit ``memory_bytes`` lives on local disk."""

    backend: Annotated[
        StateBackend,
        Field("backend", "hybrid: in memory, and on disk what does not fit; rocksdb: on disk"),
    ] = StateBackend.HYBRID
    memory_bytes: Annotated[Quantity, Field("memory", "budget of one worker", minimum="16Mi")] = (
        limits.STATE_MEMORY_BYTES_DEFAULT
    )


class CompressionMode(StrEnum):
    """When batches between workers are compressed: never, with LZ4, or where that is faster."""

    NONE = "none"
    LZ4 = "lz4"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class CompressionSettings(Fields):
    """When batches between workers are compressed."""

    mode: Annotated[
        CompressionMode,
        Field(
            "mode",
            "none: never; lz4: where rows look compressible; auto: where they do and sending is faster that way",
        ),
    ] = CompressionMode.NONE
    entropy_threshold: Annotated[
        float,
        Field(
            "entropyThreshold",
            "bits per byte; rows with more are not compressed",
            minimum=0,
            maximum=8,
        ),
    ] = 6.5


WATERMARKS_APART = Rule(
    "quantity(string(self.highWatermark)).isGreaterThan(quantity(string(self.lowWatermark)))",
    "highWatermark must be above lowWatermark",
    path=".highWatermark",
)
BUFFER_FITS = Rule(
    "!quantity(string(self.bufferBytes)).isGreaterThan(quantity(string(self.highWatermark)))",
    "bufferBytes must not exceed highWatermark",
    path=".bufferBytes",
)


@dataclass(frozen=True, slots=True)
class ShuffleSettings(Fields):
    """Buffers and credit of every channel between two tasks.

    A receiver grants nothing above the high watermark until it is down to the low one.
    """

    RULES = (WATERMARKS_APART, BUFFER_FITS)

    buffer_bytes: Annotated[Quantity, Field("bufferBytes", "size at which a buffer is sent", minimum=1)] = (
        limits.OUTPUT_BUFFER_BYTES_DEFAULT
    )
    flush_interval_s: Annotated[
        Duration,
        Field("flushInterval", "age of its first row at which a buffer is sent, however full it is"),
    ] = limits.OUTPUT_FLUSH_INTERVAL_S_DEFAULT
    high_watermark_bytes: Annotated[
        Quantity,
        Field(
            "highWatermark",
            "queued bytes at which a receiver grants no more credit; a slow step is bounded"
            " by 0.25 s of its work instead",
        ),
    ] = limits.CHANNEL_CREDIT_BYTES_DEFAULT
    low_watermark_bytes: Annotated[
        Quantity,
        Field(
            "lowWatermark",
            "queued bytes at which the receiver grants credit again",
            rule="below highWatermark",
        ),
    ] = limits.CHANNEL_LOW_WATERMARK_BYTES_DEFAULT
    compression: Annotated[CompressionSettings, Field("compression", "compression of links between workers")] = (
        CompressionSettings()
    )

    def __post_init__(self) -> None:
        """Refuse watermarks without a gap, and a buffer larger than the high watermark."""
        high, low, buffer = self.high_watermark_bytes, self.low_watermark_bytes, self.buffer_bytes
        shown = {"highWatermark": f"{high} bytes", "lowWatermark": f"{low} bytes"}
        WATERMARKS_APART.refuse(high <= low, shown)
        BUFFER_FITS.refuse(buffer > high, {**shown, "bufferBytes": buffer})


BACKOFF_IN_ORDER = Rule(
    "duration(self.initial) <= duration(self.max)",
    "backoff.initial must not exceed backoff.max",
    path=".initial",
)


@dataclass(frozen=True, slots=True)
class BackoffSettings(Fields):
    """The wait before a restart: ``initial_s``, doubled with each restart up to ``max_s``."""

    RULES = (BACKOFF_IN_ORDER,)

    initial_s: Annotated[
        Duration, Field("initial", "wait before the second restart; the first restart is immediate")
    ] = limits.RESTART_BACKOFF_FIRST_S
    max_s: Annotated[Duration, Field("max", "longest wait")] = limits.RESTART_BACKOFF_MAX_S

    def __post_init__(self) -> None:
        """Refuse a first wait that is longer than the longest one."""
        shown = {"backoff.initial": f"{self.initial_s:g} s", "backoff.max": f"{self.max_s:g} s"}
        BACKOFF_IN_ORDER.refuse(self.initial_s > self.max_s, shown)


@dataclass(frozen=True, slots=True)
class RestartSettings(Fields):
    """The number of restarts within ``window_s``. One more death of an engine fails the job."""

    attempts: Annotated[
        int,
        Field(
            "attempts",
            "restarts within the window; one more death fails the job, and with 0 the first death does",
            minimum=0,
            maximum=limits.RESTART_ATTEMPTS_MAX,
        ),
    ] = limits.RESTART_ATTEMPTS_DEFAULT
    window_s: Annotated[
        Duration,
        Field(
            "window",
            "older deaths do not count; a commit between two deaths does not reset the count",
            minimum="1s",
        ),
    ] = limits.RESTART_WINDOW_S_DEFAULT
    backoff: Annotated[BackoffSettings, Field("backoff", "wait before a restart, doubled with each one")] = (
        BackoffSettings()
    )
