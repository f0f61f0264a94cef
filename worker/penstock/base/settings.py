"""One typed settings value per concern, parsed once at the root and handed down.

Units are last in the names; defaults and their reasons are in ``limits``. Relations between
two settings of one value hold from construction on.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.base import limits
from penstock.base.errors import ConfigError


class CompressionMode(StrEnum):
    """When batches between workers are compressed: never, with LZ4, or where that is faster."""

    NONE = "none"
    LZ4 = "lz4"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class CompressionSettings:
    """``entropy_threshold`` is in bits per byte: rows above it are not worth compressing."""

    mode: CompressionMode = CompressionMode.NONE
    entropy_threshold: float = 6.5


@dataclass(frozen=True, slots=True)
class ShuffleSettings:
    """Buffers and credit of every channel between two tasks.

    A receiver grants nothing above the high watermark until it is down to the low one.
    """

    buffer_bytes: int = limits.OUTPUT_BUFFER_BYTES_DEFAULT
    flush_interval_s: float = limits.OUTPUT_FLUSH_INTERVAL_S_DEFAULT
    high_watermark_bytes: int = limits.CHANNEL_CREDIT_BYTES_DEFAULT
    low_watermark_bytes: int = limits.CHANNEL_LOW_WATERMARK_BYTES_DEFAULT
    compression: CompressionSettings = CompressionSettings()

    def __post_init__(self) -> None:
        """Refuse watermarks without a gap and a buffer that never fits the window."""
        if self.high_watermark_bytes <= self.low_watermark_bytes:
            raise ConfigError(
                f"highWatermark ({self.high_watermark_bytes} bytes) must be above "
                f"lowWatermark ({self.low_watermark_bytes} bytes)"
            )
        if self.buffer_bytes > self.high_watermark_bytes:
            raise ConfigError(
                f"bufferBytes ({self.buffer_bytes}) must not exceed "
                f"highWatermark ({self.high_watermark_bytes} bytes)"
            )


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """When checkpoints begin, how long one may take, and how many are kept.

    ``min_pause_s`` is counted from the end of one to the start of the next.
    """

    interval_s: float = limits.CHECKPOINT_INTERVAL_S_DEFAULT
    timeout_s: float = limits.CHECKPOINT_TIMEOUT_S_DEFAULT
    min_pause_s: float = 0.0
    retain: int = limits.RETAINED_CHECKPOINTS_DEFAULT


class StateBackend(StrEnum):
    """Where keyed state lives: in memory with a spill to disk, or on disk with a cache."""

    HYBRID = "hybrid"
    ROCKSDB = "rocksdb"


@dataclass(frozen=True, slots=True)
class StateSettings:
    """``memory_bytes`` is the budget of one worker; what does not fit lives on local disk."""

    backend: StateBackend = StateBackend.HYBRID
    memory_bytes: int = limits.STATE_MEMORY_BYTES_DEFAULT


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """How long to wait before a restart: ``initial_s``, doubled each time, at most ``max_s``."""

    initial_s: float = limits.RESTART_BACKOFF_FIRST_S
    max_s: float = limits.RESTART_BACKOFF_MAX_S

    def __post_init__(self) -> None:
        """Refuse a first wait that is longer than the longest."""
        if self.initial_s > self.max_s:
            raise ConfigError(
                f"backoff.initial ({self.initial_s:g} s) must not exceed "
                f"backoff.max ({self.max_s:g} s)"
            )


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """So many restarts after deaths of engines within ``window_s``; one more fails the job."""

    attempts: int = limits.RESTART_ATTEMPTS_DEFAULT
    window_s: float = limits.RESTART_WINDOW_S_DEFAULT
    backoff: BackoffSettings = BackoffSettings()
