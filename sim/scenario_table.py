"""The named situations: plain ones, aimed ones, and random ones in which all goes wrong at once."""

from penstock.base.values import replace
from sim.cluster.channel_ends import ChannelSizes
from sim.kernel.faults import Rates
from sim.kernel.kernel import SECOND
from sim.kernel.nemesis import (
    FOLLOWER,
    BalanceWish,
    BeginElsewhere,
    BeginEmpty,
    ChangeJob,
    DiskFull,
    GiveUpOutput,
    Happening,
    KillEngine,
    KillKeeper,
    LoseObject,
    LoseWorker,
    Moment,
    Pause,
    Profile,
    RequestWish,
    RescaleWish,
    RunAgain,
    SchemeWish,
    Terminate,
    Timed,
)
from sim.scenario import CONTROL, Scenario
from sim.workload import Shape

USUAL = {
    "read": Rates(failed=0.004, crash=0.0005),
    "swap": Rates(failed=0.01, unknown=0.03, crash=0.01),
    "lease": Rates(failed=0.01, unknown=0.01),
    "put": Rates(failed=0.01, unknown=0.01, crash=0.004),
    "delete": Rates(failed=0.01, unknown=0.02, crash=0.002),
    "publish": Rates(failed=0.02, unknown=0.02, crash=0.004),
    "unstage": Rates(failed=0.01, unknown=0.01, crash=0.002),
    "message": Rates(failed=0.02, unknown=0.01, crash=0.0005),
    "order": Rates(crash=0.001),
    "report": Rates(crash=0.001),
}


def _at(seconds: float, *what: Happening) -> tuple[Timed, ...]:
    return tuple(Timed(int(seconds * SECOND), w) for w in what)


FIRING = ("timer", "sliding", "session")  # jobs
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

BUSY = Scenario(
    "around",
    size=Shape(splits=4, records=120, keys=8, groups=8, batch=3),
    pace_us=50_000,
    events=_at(0.8, RescaleWish(3))
    + _at(2.0, RescaleWish(2))
    + _at(3.2, RescaleWish(3))
    + _at(4.4, RescaleWish(1))
    + _at(5.6, RescaleWish(2)),
)

SKEWED = Shape(records=100, keys=24, skew=0.9)

AIMED = replace(
    CHAOS,
    name="aimed",
    size=replace(BUSY.size or TINY, records=80),
    pace_us=60_000,
    profile=Profile(faults=(0, 2), moments=(2, 6), pause_us=(SECOND // 10, 5 * SECOND)),
    random_rescales=8,
    safety_us=6 * SECOND,
)

SOON = Terminate(None, grace_us=15 * SECOND, away_us=18 * SECOND, soon=True)
TOGETHER = tuple(replace(SOON, ordinal=o) for o in (None, 0, 1, 2))  # the leader first
IN_TROUBLE = tuple(replace(t, away_us=SECOND, soon=False) for t in TOGETHER)

# A leader is deposed long before it would count as lost.
PATIENT = replace(CONTROL, heartbeat_timeout_s=8.0, ready_timeout_s=10.0)
IMPATIENT = replace(CONTROL, checkpoint_timeout_s=0.4, rescale_timeout_s=0.4)
FORGETFUL = replace(CONTROL, checkpoint_interval_s=0.3, retain=1, collect_interval_s=0.3)
KEEPER, ENGINE = {"keeper": True, "engine": False}, {"keeper": False, "engine": True}

# Shorter than the renewal deadline, longer than the silence after which a member is lost.
STANDSTILL = Pause(None, SECOND * 14 // 10, **KEEPER)
LATE = Pause(None, SECOND * 9 // 10, **KEEPER)
FALLEN_SILENT = Pause(FOLLOWER, 15 * SECOND, keeper=True, engine=True)

# Records kill each process that has met them, and much is committed between two deaths.
POISON = replace(
    BUSY,
    name="poison",
    size=replace(BUSY.size or TINY, records=1_000),
    events=(),
    control=replace(CONTROL, restart_attempts=4),
    poison=("s1", 20),
    safety_us=SECOND,
    refusal="restart.attempts",
)

SLOW = Scenario(
    "slow-step",
    size=Shape(splits=4, records=6000, keys=40, groups=16, batch=200, row_us=1_000),
    workers=4,
    channels=ChannelSizes(60_000, 0.002, 120_000, 60_000),
    pace_us=100,
    events=_at(1.5, RescaleWish(3)) + _at(3.5, RescaleWish(4)),
    moments=(Moment("snapshot begun", 9, DiskFull(SECOND // 5)),),  # others are aligning
    barrier_max_us=2 * SECOND,
    call_max_us=SECOND * 105 // 1_000,
)

DIRECTED = (
    BUSY,
    # One worker makes the only commit of a table, with difficulty. It dies, and so does the leader.
    replace(
        BUSY,
        name="table",
        job="count-table",
        rates={"publish": Rates(failed=0.3, unknown=0.3, crash=0.05)},
        moments=(
            Moment("committed a checkpoint", 2, KillEngine(0)),
            Moment("committed a checkpoint", 4, KillKeeper(None)),
            Moment("committed a rescale", 3, KillEngine(0)),
        ),
    ),
    # The leader's keeper stands still, and everybody is well: nothing may come of it.
    replace(
        BUSY,
        name="leader-stands-still",
        workers=3,
        events=_at(1.2, STANDSTILL) + _at(4.0, STANDSTILL),
        attempts=(1, 1),
    ),
    # The leader's keeper is late at every step, and a member is silent: it is lost all the same.
    replace(
        BUSY,
        name="leader-always-late",
        control=replace(PATIENT, heartbeat_timeout_s=6.0),
        events=_at(1.2, FALLEN_SILENT) + tuple(t for n in range(11) for t in _at(1.3 + n * 0.93, LATE)),
        safety_us=13 * SECOND,
        attempts=(2, 2),
    ),
    replace(BUSY, name="around-window", job="window"),
    replace(BUSY, name="around-cascade", job="cascade"),
    # Most barriers come while windows fire.
    replace(BUSY, name="firing", job="cascade", size=Shape(records=60, keys=40, groups=8, batch=8)),
    # Tasks leave workers that stay, and come back to them.
    replace(BUSY, name="around-fixed", job="count-fixed", safety_us=20 * SECOND, attempts=(1, 1)),
    # The scheme of a custom edge changes alone, with the number of workers, and to one that is not there.
    replace(
        BUSY,
        name="schemes",
        job="count-dealt",
        events=_at(0.8, SchemeWish("turned"))
        + _at(2.0, SchemeWish("even"), RescaleWish(3))
        + _at(3.2, SchemeWish("gone"))
        + _at(4.0, RescaleWish(2))
        + _at(4.4, KillEngine(FOLLOWER), SchemeWish("turned")),
        schemes_changed=2,
    ),
    # Key groups move by load: alone, in the next attempt, and with another number of workers.
    replace(
        BUSY,
        name="balance",
        size=replace(BUSY.size or TINY, keys=24, skew=0.9),
        events=_at(1.0, BalanceWish())
        + _at(2.0, BalanceWish())
        + _at(2.6, KillEngine(FOLLOWER), BalanceWish())
        + _at(4.0, RescaleWish(3), BalanceWish())
        + _at(5.0, BalanceWish()),
        balanced=2,
    ),
    # Behind a balance the scheme changes: the version of the scheme leaves key groups where they are.
    replace(
        BUSY,
        name="balance-and-schemes",
        job="count-dealt",
        size=replace(BUSY.size or TINY, keys=24, skew=0.9),
        events=_at(1.0, BalanceWish())
        + _at(2.2, SchemeWish("turned"))
        + _at(3.4, BalanceWish())
        + _at(4.4, SchemeWish("even"), KillEngine(FOLLOWER)),
        balanced=1,
        schemes_changed=2,
    ),
    # Rows wait in open buffers, and watermarks behind them, when barriers come.
    replace(BUSY, name="open-buffers", job="window", channels=ChannelSizes(6_000, 0.05, 12_000, 6_000)),
    POISON,
    # Each death takes the leader along, a little later.
    replace(
        POISON,
        name="poison-and-leaders",
        moments=tuple(
            Moment("engine killed by its record", nth, KillKeeper(None), SECOND // 5) for nth in range(1, 60)
        ),
        safety_us=30 * SECOND,
        attempts=(3, 8),
    ),
    # The leader is deposed, not dead, in the instant of a commit: the attempt goes on.
    replace(
        BUSY,
        name="deposed",
        control=PATIENT,
        moments=tuple(Moment("committed a rescale", nth, Pause(None, 5 * SECOND, **KEEPER)) for nth in (1, 2)),
    ),
    # The leader is deposed with an epoch in flight, and acknowledgements arrive very late.
    replace(
        BUSY,
        name="late-acks",
        workers=3,
        events=(),
        control=replace(PATIENT, checkpoint_interval_s=0.3),
        rates={"message": Rates(unknown=0.5)},
        moments=tuple(Moment("snapshot begun", nth, Pause(None, 4 * SECOND, **KEEPER)) for nth in (5, 14)),
        safety_us=12 * SECOND,
    ),
    # Nobody knows whether the swap was applied, and patience ends before that is known.
    replace(
        BUSY,
        name="swap-unknown",
        control=IMPATIENT,
        rates={"swap": Rates(unknown=0.4), "read": Rates(failed=0.2)},
    ),
    # An engine dies while the commit of its epoch is undecided.
    replace(
        BUSY,
        name="swap-unknown-engine-dies",
        rates={"swap": Rates(unknown=0.5)},
        moments=tuple(Moment("committed a checkpoint", nth, KillEngine(nth % 2)) for nth in range(1, 5)),
    ),
    # A joiner prepares for longer than a rescale delays periodic checkpoints. So checkpoints go on,
    # and old ones are collected.
    replace(
        BUSY,
        name="slow-joiner",
        events=_at(0.8, RescaleWish(3)),
        control=replace(FORGETFUL, engine_silence_timeout_s=4.0),
        moments=(Moment("joiners admitted", 1, Pause(2, SECOND * 27 // 10, **ENGINE)),),
    ),
    # The epoch of a rescale fails after its barrier: what is held goes back.
    replace(
        BUSY,
        name="rescale-fails",
        moments=tuple(Moment("rows held for a new owner", nth, DiskFull(SECOND // 2)) for nth in (1, 4)),
    ),
    replace(BUSY, name="breaks", profile=Profile(faults=(0, 0), breaks=(3, 6), safety_us=5 * SECOND)),
    replace(BUSY, name="commit-crash", rates={"swap": Rates(crash=0.15, unknown=0.1)}),
    replace(BUSY, name="messages-lost", rates={"message": Rates(failed=0.15, unknown=0.15)}),
    replace(
        BUSY,
        name="lease-lost",
        rates={"lease": Rates(failed=0.6), "swap": Rates(unknown=0.3), "read": Rates(failed=0.2)},
    ),
    # The state is forgotten in the midst of rescales, checkpoints and rollbacks.
    replace(
        BUSY,
        name="begin-empty",
        events=BUSY.events + _at(1.0, BeginEmpty()) + _at(4.0, BeginEmpty()),
    ),
    replace(
        BUSY,
        name="begin-empty-aimed",
        job="window",
        moments=(
            Moment("committed a rescale", 1, BeginEmpty()),
            Moment("rows held for a new owner", 5, BeginEmpty()),
            Moment("committed a checkpoint", 6, KillKeeper(None)),
        ),
    ),
    # What is committed is not visible yet, and becomes so with difficulty.
    replace(
        BUSY,
        name="begin-empty-hidden",
        events=(),
        rates={"publish": Rates(failed=0.5)},
        moments=(
            Moment("committed a checkpoint", 1, BeginEmpty()),
            Moment("committed a checkpoint", 2, BeginEmpty()),
            Moment("committed a checkpoint", 3, BeginEmpty(drop_unpublished=True)),
        ),
        poll_us=2_000,
    ),
    # One of two sinks gives up what is not visible, while processes die. The other one loses nothing.
    replace(
        BUSY,
        name="output-given-up",
        job="window",
        rates={"publish": Rates(failed=0.5, unknown=0.2), "unstage": Rates(failed=0.3, unknown=0.2, crash=0.05)},
        moments=(
            Moment("committed a checkpoint", 2, GiveUpOutput("out")),
            Moment("committed a checkpoint", 4, GiveUpOutput("late")),
            Moment("committed a checkpoint", 5, KillKeeper(None)),
            Moment("committed a checkpoint", 6, GiveUpOutput("out")),
        ),
        poll_us=2_000,
    ),
    # An attempt is being admitted when the user wants to begin without state.
    replace(
        BUSY,
        name="begin-empty-gathering",
        events=_at(1.2, KillEngine(0)) + _at(2.6, KillEngine(1)) + _at(4.0, KillEngine(0)),
        moments=tuple(Moment("members drafted", nth, BeginEmpty()) for nth in (2, 4, 7)),
        poll_us=2_000,
    ),
    # Two more jobs begin, each from the last one's savepoint, into the same output folder.
    replace(
        BUSY,
        name="restore-elsewhere",
        size=LONG,
        pace_us=150_000,
        events=_at(1.5, RequestWish("stop", "s")) + _at(4.5, KillEngine(0)) + _at(6.0, RequestWish("stop", "t")),
        moments=(
            Moment("savepoint complete", 1, BeginElsewhere(), SECOND),
            Moment("savepoint complete", 2, BeginElsewhere(), SECOND),
        ),
        rates={"publish": Rates(failed=0.1, unknown=0.1)},
        safety_us=11 * SECOND,
    ),
    replace(
        BUSY,
        name="restore-elsewhere-late",
        size=LONG,
        pace_us=150_000,
        events=_at(1.5, RequestWish("savepoint", "s")),
        moments=(Moment("savepoint complete", 1, BeginElsewhere(), 3 * SECOND),),
        refusal="above the savepoint",
    ),
    # Leaders lose the Lease while they copy, and go on copying beside their successors.
    replace(
        BUSY,
        name="two-copiers",
        events=BUSY.events + _at(1.5, RequestWish("savepoint", "s")) + _at(3.0, RequestWish("savepoint", "t")),
        rates={
            "lease": Rates(failed=0.5),
            "put": Rates(failed=0.03, unknown=0.02, crash=0.01),
            "delete": Rates(unknown=0.1),
        },
        moments=(
            Moment("savepoint file copied", 2, Pause(None, 5 * SECOND, **KEEPER)),
            Moment("savepoint complete", 1, DiskFull(SECOND // 2)),
            Moment("savepoint complete", 1, KillKeeper(None)),
        ),
    ),
    # The job changes in the midst of rescales: two counters change places, a stage comes and goes.
    replace(
        BUSY,
        name="changed-plan",
        job="pair",
        size=LONG,
        pace_us=250_000,
        events=_at(0.8, RescaleWish(3))
        + _at(1.6, ChangeJob("pair-swapped"))
        + _at(8.0, RescaleWish(2))
        + _at(9.0, ChangeJob("pair-longer"))
        + _at(15.0, ChangeJob("pair")),
        safety_us=20 * SECOND,
    ),
    # A step with state goes, comes and goes; each time its state is given up by name.
    replace(
        BUSY,
        name="dropped-state",
        job="pair-more",
        size=LONG,
        pace_us=250_000,
        rates={"put": Rates(failed=0.01, unknown=0.01), "swap": Rates(unknown=0.1)},
        events=_at(2.5, ChangeJob("pair", drop=("idle",)))
        + _at(7.5, ChangeJob("pair-more"))
        + _at(14.0, ChangeJob("pair-swapped", drop=("idle",)))
        + _at(14.4, KillKeeper(0)),
        safety_us=20 * SECOND,
    ),
    AIMED,
    replace(AIMED, name="aimed-window", job="window"),
    replace(AIMED, name="aimed-cascade", job="cascade"),
    replace(AIMED, name="aimed-diamond", job="diamond"),
    replace(AIMED, name="aimed-interval", job="interval"),
    *(replace(s, name=f"{s.name}-{job}", job=job) for s in (BUSY, AIMED) for job in FIRING),
)

SCENARIOS: dict[str, Scenario] = {
    s.name: s
    for s in (
        # These two end soon after their last commit: tests put a fault at each of their effects.
        Scenario("checkpoint", size=TINY, pace_us=100_000, safety_us=SECOND),
        Scenario(
            "rescale-up",
            size=TINY,
            pace_us=250_000,
            safety_us=SECOND,
            events=_at(1.2, RescaleWish(3)),
        ),
        Scenario(
            "rescale-down",
            size=TINY,
            workers=3,
            pace_us=250_000,
            safety_us=4 * SECOND,
            events=_at(1.2, RescaleWish(2)),
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
            events=_at(2.5, RequestWish("stop"))
            + _at(3.2, KillKeeper(None))
            + _at(4.0, RunAgain(oldest=True, allow_replay=True)),
        ),
        Scenario(
            "restore-refused",
            size=LONG,
            pace_us=100_000,
            events=_at(2.5, RequestWish("stop")) + _at(4.0, RunAgain(oldest=True)),
            refusal="older",
        ),
        Scenario(
            "empty-refused",
            size=LONG,
            pace_us=100_000,
            events=_at(2.5, BeginEmpty(allow_replay=False)),
            refusal="to begin without state",
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
            events=_at(2.0, LoseWorker(1)) + _at(2.5, RescaleWish(1)),
        ),
        Scenario(
            "stop-and-go",
            size=LONG,
            pace_us=100_000,
            events=_at(2.5, RequestWish("stop")) + _at(4, RunAgain()),
        ),
        Scenario(
            "drained",
            size=LONG,
            workers=3,
            pace_us=100_000,
            events=_at(1.5, Terminate(1, soon=True, last=True)) + _at(4.5, Terminate(None, soon=True, last=True)),
            safety_us=8 * SECOND,
        ),
        # As at an upgrade in a cluster: all go, the leader a moment before the others.
        Scenario(
            "all-drained",
            size=LONG,
            workers=3,
            pace_us=500_000,
            events=_at(1.5, TOGETHER[0]) + _at(1.52, *TOGETHER[1:]) + _at(24.0, TOGETHER[0]) + _at(24.3, *TOGETHER[1:]),
            safety_us=45 * SECOND,
        ),
        SLOW,
        # A call costs much whatever its rows: were slices small for that, they would get smaller.
        replace(
            SLOW,
            name="slow-call",
            size=replace(SLOW.size or TINY, records=3000, row_us=10, call_us=200_000),
            workers=2,
            barrier_max_us=None,
            call_max_us=None,
            liveness_us=120 * SECOND,
        ),
        CHAOS,
        replace(
            CHAOS,
            name="chaos-drained",
            events=_at(2, Terminate(None))
            + _at(4, Terminate(1), Terminate(0))
            + _at(6, *IN_TROUBLE)
            + _at(10, Terminate(0)),
        ),
        replace(CHAOS, name="chaos-empty", events=_at(3, BeginEmpty()) + _at(7, BeginEmpty())),
        replace(
            CHAOS,
            name="chaos-changed",
            job="pair",
            events=_at(2, ChangeJob("pair-swapped"))
            + _at(8, ChangeJob("pair-longer"))
            + _at(14, ChangeJob("pair-swapped")),
            safety_us=20 * SECOND,
        ),
        replace(CHAOS, name="chaos-dealt", job="count-dealt", random_schemes=4),
        replace(CHAOS, name="chaos-skewed", size=SKEWED, random_balances=4),
        replace(CHAOS, name="chaos-window", job="window"),
        replace(CHAOS, name="chaos-cascade", job="cascade"),
        replace(CHAOS, name="chaos-diamond", job="diamond"),
        replace(CHAOS, name="chaos-interval", job="interval"),
        *(replace(s, name=f"{s.name}-{job}", job=job) for s in (CHAOS, STORM, CHURN) for job in FIRING),
        *DIRECTED,
        STORM,
        CHURN,
        replace(CHURN, name="churn-window", job="window"),
        replace(CHURN, name="churn-table", job="count-table"),
        replace(STORM, name="storm-dealt", job="count-dealt", random_schemes=6),
        replace(STORM, name="storm-skewed", size=SKEWED, random_balances=6),
        replace(STORM, name="storm-window", job="window"),
        replace(STORM, name="storm-diamond", job="diamond"),
        replace(STORM, name="storm-interval", job="interval"),
    )
}
