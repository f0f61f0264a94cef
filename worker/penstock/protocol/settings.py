"""The settings of the control plane as one value. Defaults and reasons are in ``base.limits``."""

from penstock.base import limits
from penstock.base.values import replace
from penstock.contract.codec import Message
from penstock.contract.settings import RestartSettings


class ControlSettings(Message, tag="ControlSettings"):
    """All durations are seconds of one keeper's monotonic clock.

    - ``resend_interval_s``: the time after which a command or a report without effect is repeated.
    - ``ready_timeout_s``: the time from a member's Reset to ready, and from Start to running.
    - ``prepare_timeout_s``, ``rescale_timeout_s``: bounds of a rescale's pre-loading and barrier.
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
