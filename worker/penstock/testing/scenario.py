"""Named situations: a job, its size, what the user does, what may go wrong, and the time limits."""

from dataclasses import dataclass, field, replace
from random import Random

from penstock.protocol.settings import ControlSettings
from penstock.testing.exchange import ChannelSizes
from penstock.testing.faults import Rates
from penstock.testing.kernel import SECOND
from penstock.testing.nemesis import (
    Ask,
    Happening,
    KillKeeper,
    LoseObject,
    LoseWorker,
    Profile,
    Rescale,
    RunAgain,
    Timed,
)
from penstock.testing.workload import Shape

CONTROL = ControlSettings(
    heartbeat_interval_s=0.3,
    heartbeat_timeout_s=1.5,
    engine_silence_timeout_s=3.0,
    resend_interval_s=0.4,
    meta_poll_interval_s=0.4,
    meta_retry_interval_s=0.3,
    lease_duration_s=3.0,
    lease_renew_deadline_s=2.0,
    lease_retry_s=0.5,
    ready_timeout_s=5.0,
    prepare_timeout_s=5.0,
    rescale_timeout_s=5.0,
    checkpoint_interval_s=0.6,
    checkpoint_timeout_s=5.0,
    checkpoint_first_delay_s=0.2,
    backoff_first_s=0.1,
    backoff_max_s=1.0,
    restarts_before_stalled=50,
    collect_interval_s=1.5,
)

USUAL = {
    "read": Rates(failed=0.004, crash=0.0005),
    "swap": Rates(failed=0.01, unknown=0.03, crash=0.01),
    "lease": Rates(failed=0.01, unknown=0.01),
    "put": Rates(failed=0.01, unknown=0.01, crash=0.004),
    "delete": Rates(failed=0.01, unknown=0.02, crash=0.002),
    "publish": Rates(failed=0.02, unknown=0.02, crash=0.004),
    "unstage": Rates(failed=0.01, unknown=0.01, crash=0.002),
    "message": Rates(failed=0.02, crash=0.0005),
    "order": Rates(crash=0.001),
    "report": Rates(crash=0.001),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One situation. ``profile`` None: nothing fails but what a single fault point says."""

    name: str
    job: str = "count"
    workers: int = 2
    events: tuple[Timed, ...] = ()
    profile: Profile | None = None
    rates: dict[str, Rates] = field(default_factory=dict)
    control: ControlSettings = CONTROL
    size: Shape | None = None
    channels: ChannelSizes | None = None
    safety_us: int = 6 * SECOND
    liveness_us: int = 40 * SECOND
    pace_us: int | None = None
    idle_after_s: float | None = None
    skewed_clocks: bool = False
    codec_share: float = 0.0
    random_rescales: int = 0
    refusal: str | None = None
    slow_chance: float = 0.02

    def shape(self, draw: Random) -> Shape:
        """Return the size of the input: fixed, or drawn."""
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
        """Return the sizes of buffers and credit: fixed, or drawn."""
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
        """Return what the user does: the scenario's own events and random rescales."""
        more = range(draw.randint(0, self.random_rescales))
        drawn = [Timed(draw.randrange(self.safety_us), Rescale(draw.randint(1, 4))) for _ in more]
        return (*self.events, *drawn)


def _at(seconds: float, *what: Happening) -> tuple[Timed, ...]:
    return tuple(Timed(int(seconds * SECOND), w) for w in what)


TINY = Shape(splits=2, records=8, keys=3, groups=4, batch=3)
LONG = Shape(splits=3, records=80, keys=4, groups=4, batch=3)
CHAOS = Scenario(
    "chaos",
    profile=Profile(),
    rates=USUAL,
    safety_us=12 * SECOND,
    skewed_clocks=True,
    codec_share=0.02,
    random_rescales=2,
)

STORM = replace(
    CHAOS,
    name="storm",
    profile=Profile(faults=(0, 2)),
    rates={kind: replace(r, crash=r.crash / 2) for kind, r in USUAL.items()},
    random_rescales=6,
    safety_us=8 * SECOND,
)

CHURN = replace(
    CHAOS,
    name="churn",
    profile=Profile(faults=(0, 2), breaks=(2, 8), safety_us=8 * SECOND),
    rates={**USUAL, "swap": Rates(failed=0.05, unknown=0.25, crash=0.03)},
    random_rescales=4,
    safety_us=8 * SECOND,
    slow_chance=0.3,
)

SCENARIOS: dict[str, Scenario] = {
    s.name: s
    for s in (
        Scenario("checkpoint", size=TINY, pace_us=100_000, safety_us=3 * SECOND),
        Scenario(
            "rescale-up",
            size=TINY,
            pace_us=250_000,
            safety_us=4 * SECOND,
            events=_at(1.2, Rescale(3)),
        ),
        Scenario(
            "rescale-down",
            size=TINY,
            workers=3,
            pace_us=250_000,
            safety_us=4 * SECOND,
            events=_at(1.2, Rescale(2)),
        ),
        Scenario(
            "credit-of-one",
            job="diamond",
            channels=ChannelSizes(1, 0.0, 200, 100),
            safety_us=2 * SECOND,
        ),
        Scenario(
            "idle",
            job="window",
            size=Shape(splits=3, records=30, keys=3, groups=4, batch=3),
            pace_us=150_000,
            idle_after_s=0.05,
        ),
        Scenario(
            "restore-older",
            size=LONG,
            pace_us=100_000,
            events=_at(2.5, Ask("stop"))
            + _at(3.2, KillKeeper(None))
            + _at(4.0, RunAgain(oldest=True, allow_replay=True)),
        ),
        Scenario(
            "restore-refused",
            size=LONG,
            pace_us=100_000,
            events=_at(2.5, Ask("stop")) + _at(4.0, RunAgain(oldest=True)),
            refusal="older",
        ),
        Scenario(
            "object-lost",
            size=LONG,
            pace_us=100_000,
            events=_at(2.5, LoseObject()),
            refusal="MetadataMissing",
        ),
        Scenario(
            "worker-gone",
            size=LONG,
            pace_us=100_000,
            events=_at(2.0, LoseWorker(1)) + _at(2.5, Rescale(1)),
        ),
        Scenario(
            "stop-and-go",
            size=LONG,
            pace_us=100_000,
            events=_at(2.5, Ask("stop")) + _at(4, RunAgain()),
        ),
        CHAOS,
        replace(CHAOS, name="chaos-window", job="window"),
        replace(CHAOS, name="chaos-diamond", job="diamond"),
        STORM,
        CHURN,
        replace(CHURN, name="churn-window", job="window"),
        replace(STORM, name="storm-window", job="window"),
        replace(STORM, name="storm-diamond", job="diamond"),
    )
}
