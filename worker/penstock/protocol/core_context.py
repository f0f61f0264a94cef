"""What every core uses: its settings, the present step with its time, actions and alarm, and the check of a phase.

A core that is woken much later than it asked for stood still meanwhile: its process was stopped, or
its machine. It received no message in that time, so that time does not count as silence of others.

Numbers, swap ids and file names are unique: ``life`` is a UUID of one process, and the counter
never goes back. So a core needs no source of randomness.

Defaults of settings, and the reasons for them, are in ``base.limits``.

A state machine of this package has an enumeration of its phases and a literal table
``TRANSITIONS``: from each phase to those that may follow it. The diagram in the docstring of such
a module is rendered from the table by ``python -m tools.phases --write``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from penstock.base import limits
from penstock.base.limits import HEARTBEAT_INTERVAL_S
from penstock.base.values import replace
from penstock.contract.codec import Message
from penstock.contract.ids import BlobName, Epoch, Incarnation, SwapId, Term, blob_name
from penstock.contract.settings import RestartSettings
from penstock.protocol.keeper_core_messages import Action, Note

Phase = TypeVar("Phase", bound=Enum)


class ControlSettings(Message, tag="ControlSettings"):
    """All durations are seconds of one keeper's monotonic clock.

    - ``resend_interval_s``: the time after which a command or a report without effect is repeated.
    - ``ready_timeout_s``: the time from a member's Reset to ready, and from Start to running.
    - ``prepare_timeout_s``, ``rescale_timeout_s``: bounds of a rescale's pre-loading, and of its barrier and its end.
    - ``restart_attempts``: the number of restarts after deaths of engines within
      ``restart_window_s``. The next death fails the job.
    - ``backoff_first_s``, ``backoff_max_s``: the wait before an attempt, and before the restart of
      an engine.
    - ``collect_interval_s``: the directory is listed at most once in this time.
    """

    heartbeat_interval_s: float = limits.HEARTBEAT_INTERVAL_S
    heartbeat_timeout_s: float = limits.HEARTBEAT_TIMEOUT_S
    engine_silence_timeout_s: float = limits.ENGINE_SILENCE_TIMEOUT_S
    resend_interval_s: float = limits.RESEND_INTERVAL_S
    meta_poll_interval_s: float = limits.META_POLL_INTERVAL_S
    meta_retry_interval_s: float = limits.META_RETRY_INTERVAL_S
    lease_duration_s: float = limits.LEASE_DURATION_S
    lease_renew_deadline_s: float = limits.LEASE_RENEW_DEADLINE_S
    lease_retry_s: float = limits.LEASE_RETRY_S
    ready_timeout_s: float = limits.READY_TIMEOUT_S
    prepare_timeout_s: float = limits.PREPARE_TIMEOUT_S
    rescale_timeout_s: float = limits.RESCALE_TIMEOUT_S
    checkpoint_interval_s: float = limits.CHECKPOINT_INTERVAL_S_DEFAULT
    checkpoint_timeout_s: float = limits.CHECKPOINT_TIMEOUT_S_DEFAULT
    checkpoint_first_delay_s: float = limits.CHECKPOINT_FIRST_DELAY_S
    checkpoint_min_pause_s: float = 0.0
    retain: int = limits.RETAINED_CHECKPOINTS_DEFAULT
    backoff_first_s: float = limits.RESTART_BACKOFF_FIRST_S
    backoff_max_s: float = limits.RESTART_BACKOFF_MAX_S
    restarts_before_stalled: int = limits.RESTARTS_BEFORE_STALLED
    restart_attempts: int = limits.RESTART_ATTEMPTS_DEFAULT
    restart_window_s: float = limits.RESTART_WINDOW_S_DEFAULT
    collect_interval_s: float = limits.COLLECT_INTERVAL_S

    @property
    def loss_known_s(self) -> float:
        """Return the longest time until a leader knows that a member has fallen silent.

        A standstill of the leader does not count as silence of others. The leader goes on leading
        only after a standstill that is shorter than the renewal deadline. So no more is excused.
        """
        return self.heartbeat_timeout_s + self.lease_renew_deadline_s

    def with_restart(self, restart: RestartSettings) -> "ControlSettings":
        """Put the job's limit of restarts into these times."""
        return replace(
            self,
            restart_attempts=restart.attempts,
            restart_window_s=restart.window_s,
            backoff_first_s=restart.backoff.initial_s,
            backoff_max_s=restart.backoff.max_s,
        )

    def __post_init__(self) -> None:
        """Check the relations that safety and liveness require."""
        assert self.lease_retry_s < self.lease_renew_deadline_s < self.lease_duration_s, (
            "a leader must stop before another one may begin, and may miss one renewal"
        )
        assert self.heartbeat_interval_s * 4 < self.heartbeat_timeout_s, (
            "a standstill is measured from the next alarm, which is up to 2.5 heartbeats away: "
            "what is not measured, and the heartbeat on its way, are no silence yet"
        )
        assert self.loss_known_s <= self.ready_timeout_s, "who died is given up as dead before all are given up as late"
        assert 1 <= self.retain <= limits.RETAINED_CHECKPOINTS_MAX
        assert self.backoff_first_s <= self.backoff_max_s
        assert 0 <= self.restart_attempts <= limits.RESTART_ATTEMPTS_MAX


@dataclass(frozen=True, slots=True)
class Sign:
    """The time of a sign of life, and how long this core had stood still until then."""

    at: float = 0.0
    absent_s: float = 0.0


@dataclass(slots=True)
class StepContext:
    """One per core. :meth:`due_or_wake` is the only way to wait: it also sets the alarm.

    A step that comes more than ``late_s`` after its alarm is late. ``absent_s`` is the sum of all
    delays since this core began.
    """

    life: Incarnation
    late_s: float = HEARTBEAT_INTERVAL_S
    absent_s: float = 0.0
    now: float = 0.0
    actions: list[Action] = field(default_factory=list)
    alarm: float | None = None
    counter: int = 0

    def begin(self, now: float) -> None:
        """Start a step at ``now``, seconds that never go back."""
        assert now >= self.now, f"time went back from {self.now} to {now}"
        if self.alarm is not None and now - self.alarm > self.late_s:
            self.absent_s += now - self.alarm
        self.now = now
        self.actions = []
        self.alarm = None

    def due_or_wake(self, at: float) -> bool:
        """Return whether ``at`` is reached. If not, the core asks to be woken then."""
        if self.now >= at:
            return True
        self.alarm = at if self.alarm is None else min(self.alarm, at)
        return False

    def sign(self) -> Sign:
        """Return the moment of this step, as a sign of life of the sender of its event."""
        return Sign(self.now, self.absent_s)

    def silent_at(self, heard: Sign, timeout_s: float, excused_s_max: float) -> float:
        """Return when the sender of the sign ``heard`` has been silent for ``timeout_s``.

        Time in which this core stood still since then does not count, up to ``excused_s_max``. The
        bound exists because a core that is late at every step must notice a loss, too.
        """
        return heard.at + timeout_s + min(self.absent_s - heard.absent_s, excused_s_max)

    def do(self, action: Action) -> None:
        """Add an action to this step."""
        self.actions.append(action)

    def log(self, text: str) -> None:
        """Log a change of state."""
        self.actions.append(Note(text))

    def number(self) -> int:
        """Return a number that this core has not returned before."""
        self.counter += 1
        return self.counter

    def swap_id(self) -> SwapId:
        """Return an id that no swap has had."""
        return SwapId(f"{self.life}-{self.number()}")

    def file_name(self, term: Term, epoch: Epoch, suffix: str) -> BlobName:
        """Return a name that no file has had."""
        return blob_name(term, epoch, self.life, self.number(), suffix)


def checked(table: Mapping[Phase, tuple[Phase, ...]], before: Phase, after: Phase) -> Phase:
    """Return ``after``. Raises AssertionError when ``table`` has no way from ``before`` to it."""
    kind = type(before).__name__
    assert after in table[before], f"{kind} has no transition from {before.name} to {after.name}"
    return after
