"""A scenario: a job, its size, the events of the user, the faults, and time limits."""

from dataclasses import dataclass, field
from random import Random

from penstock.protocol.core_context import ControlSettings
from sim.cluster.channel_ends import ChannelSizes
from sim.kernel.faults import Rates
from sim.kernel.kernel import SECOND
from sim.kernel.nemesis import (
    BalanceWish,
    Moment,
    Profile,
    RescaleWish,
    SchemeWish,
    Timed,
)
from sim.workload import SCHEMES, Shape

# The timeouts of members and of the Lease have a cluster's ratios, 5 : 10 : 15 at a fifth.
CONTROL = ControlSettings(
    heartbeat_interval_s=0.2,
    heartbeat_timeout_s=1.0,
    engine_silence_timeout_s=3.0,
    resend_interval_s=0.4,
    meta_poll_interval_s=0.4,
    meta_retry_interval_s=0.3,
    lease_duration_s=3.0,
    lease_renew_deadline_s=2.0,
    lease_retry_s=0.4,
    ready_timeout_s=5.0,
    prepare_timeout_s=5.0,
    rescale_timeout_s=5.0,
    checkpoint_interval_s=0.6,
    checkpoint_timeout_s=5.0,
    checkpoint_first_delay_s=0.2,
    backoff_first_s=0.1,
    backoff_max_s=1.0,
    restarts_before_stalled=50,
    restart_attempts=500,
    collect_interval_s=1.5,
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. ``profile`` None: there is no fault but that of a single fault point.

    ``attempts``: the fewest and the most that there may have been when the faults are over.
    ``schemes_changed``: how often the scheme must have changed at the end, ``balanced`` how often key groups must have
    moved by load.
    ``poison``: split and offset of the first record of those that no process survives for long.
    """

    name: str
    job: str = "count"
    workers: int = 2
    events: tuple[Timed, ...] = ()
    moments: tuple[Moment, ...] = ()
    profile: Profile | None = None
    rates: dict[str, Rates] = field(default_factory=dict)
    control: ControlSettings = CONTROL
    size: Shape | None = None
    channels: ChannelSizes | None = None
    safety_us: int = 6 * SECOND
    liveness_us: int = 40 * SECOND
    pace_us: int | None = None
    poll_us: int = SECOND // 4
    idle_after_s: float | None = None
    skewed_clocks: bool = False
    codec_share: float = 0.0
    random_rescales: int = 0
    random_schemes: int = 0
    random_balances: int = 0
    refusal: str | None = None
    attempts: tuple[int, int] | None = None
    schemes_changed: int = 0
    balanced: int = 0
    poison: tuple[str, int] | None = None
    slow_chance: float = 0.02
    barrier_max_us: int | None = None
    call_max_us: int | None = None

    def shape(self, draw: Random) -> Shape:
        """Return the size of the input. It is fixed or drawn."""
        if self.size is not None:
            return self.size
        return Shape(
            splits=draw.randint(1, 5),
            records=draw.randint(10, 60),
            keys=draw.randint(2, 8),
            groups=draw.choice((4, 8, 16)),
            batch=draw.randint(1, 6),
        )

    def sizes(self, draw: Random) -> ChannelSizes:
        """Return the sizes of buffers and credit. They are fixed or drawn."""
        if self.channels is not None:
            return self.channels
        high = draw.choice((600, 1_500, 6_000))
        flush = draw.choice((0.0, 0.002, 0.02))
        return ChannelSizes(draw.choice((1, high // 2)), flush, high, high // 2)

    def pace(self, draw: Random) -> int:
        """Return the microseconds between two records of a split."""
        if self.pace_us is not None:
            return self.pace_us
        # Most runs have input until the faults are over.
        return int(self.safety_us / 60 * draw.choice((0.1, 0.5, 1.0, 1.5)))

    def happenings(self, draw: Random) -> tuple[Timed, ...]:
        """Return the events of the user: those of the scenario, and random changes of the table."""
        more = range(draw.randint(self.random_rescales // 2, self.random_rescales))
        drawn = [Timed(draw.randrange(self.safety_us), RescaleWish(draw.randint(1, 4))) for _ in more]
        schemes = [
            Timed(draw.randrange(self.safety_us), SchemeWish(draw.choice(SCHEMES))) for _ in range(self.random_schemes)
        ]
        balances = [Timed(draw.randrange(self.safety_us), BalanceWish()) for _ in range(self.random_balances)]
        return (*self.events, *drawn, *schemes, *balances)
