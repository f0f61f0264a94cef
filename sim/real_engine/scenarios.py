"""The scenarios of real engines."""

from penstock.base.values import replace
from sim.kernel.faults import Rates
from sim.kernel.kernel import SECOND
from sim.kernel.nemesis import BeginElsewhere, ChangeJob, KillEngine, Moment, Profile, RequestWish, RescaleWish, Timed
from sim.scenario import Scenario
from sim.scenario_table import USUAL

QUIET = Scenario("quiet", job="count", safety_us=SECOND)

# Few effects, so that one run each for a fault at every effect takes minutes.
CHECKPOINT = replace(QUIET, name="checkpoint", job="count-little", safety_us=SECOND // 4)
RESCALE_UP = replace(CHECKPOINT, name="rescale-up", events=(Timed(SECOND // 4, RescaleWish(3)),))
PUSHED = replace(CHECKPOINT, name="pushed", job="pushed")

# A run has so few effects that `make test` kills the process before each of them. The rescale comes amid the input.
TALLY = replace(CHECKPOINT, name="tally", job="tally")
TALLY_UP = replace(TALLY, name="tally-up", workers=1, events=(Timed(SECOND // 4, RescaleWish(2)),))

# Groups leave, come back and are merged; a worker dies between.
AROUND = replace(
    QUIET,
    name="around",
    events=(
        Timed(SECOND * 6 // 10, RescaleWish(3)),
        Timed(SECOND * 14 // 10, KillEngine(1)),
        Timed(SECOND * 22 // 10, RescaleWish(1)),
        Timed(SECOND * 3, RescaleWish(2)),
    ),
    safety_us=4 * SECOND,
)

# The same, and calls fail alone, before their receivers learn of them.
LONE_CALLS = replace(AROUND, name="lone-calls", rates={"call": Rates(failed=0.1)})

CHAOS = Scenario(
    "chaos",
    job="count",
    profile=Profile(
        faults=(0, 4),
        moments=(0, 2),
        breaks=(0, 2),
        safety_us=4 * SECOND,
        pause_us=(SECOND // 10, 3 * SECOND),
        outage_us=(SECOND // 10, 2 * SECOND),
    ),
    rates={**USUAL, "file": Rates(failed=0.002, unknown=0.001, crash=0.0005), "look": Rates(failed=0.0005)},
    safety_us=4 * SECOND,
    random_rescales=4,
    skewed_clocks=True,
)

# Other jobs, each with the faults of ``chaos``, and in each run two engines that die right behind a commit.
AT_COMMITS = tuple(Moment("committed a checkpoint", nth, KillEngine(nth % 2)) for nth in (3, 6))
OTHER_JOBS = tuple(
    replace(CHAOS, name=f"chaos-{job}", job=job, moments=AT_COMMITS)
    for job in (
        *("timers", "joined", "windowed", "pushed", "timers-on-disk", "joined-on-disk", "windowed-on-disk"),
        *("paned", "clocked", "asked", "connected", "tabled", "sided", "priced", "priced-on-disk"),
        *("forgetful", "forgetful-on-disk"),
        *(f"{job}-on-disk" for job in ("asked", "clocked", "connected", "paned", "sided", "tabled", "pushed")),
    )
)

# The same job as that of ``chaos``, whose output goes to a server. It reads slowly and has fewer faults, so that there
# are more commits.
SERVED = tuple(
    replace(
        CHAOS,
        name=f"chaos-{place}",
        job=f"count-{place}",
        moments=AT_COMMITS,
        profile=Profile(faults=(0, 2), moments=(0, 2), safety_us=5 * SECOND, pause_us=(SECOND // 10, 3 * SECOND)),
        safety_us=5 * SECOND,
        random_rescales=2,
        rates={
            "swap": Rates(unknown=0.02),
            "file": Rates(failed=0.001, crash=0.0005),
            "server": Rates(failed=0.01, unknown=0.05, crash=0.004),
            "claim": Rates(failed=0.002, unknown=0.002, crash=0.0005),
        },
    )
    for place in ("bucket", "table", "topic")
)

# Rows are looked up in a database that answers late, refuses queries, and loses requests, answers and connections.
LOOKED_UP = replace(
    CHAOS,
    name="chaos-looked-up",
    job="looked-up",
    moments=AT_COMMITS,
    rates={
        **CHAOS.rates,
        "lookup": Rates(failed=0.05, unknown=0.03, crash=0.001),
        "slow": Rates(failed=0.4),
        "refused": Rates(failed=0.04),
    },
)

# A worker stands still in the midst of a transaction. The user takes it away, so another one publishes its output. The
# stopped one goes on when that one fences it.
STALLED = replace(
    QUIET,
    name="stalled-topic",
    job="count-topic",
    moments=(Moment("process paused", 1, RescaleWish(1), SECOND // 2),),
    rates={"stand": Rates(failed=0.05)},
    safety_us=14 * SECOND,
)

# A job without an end is stopped with a savepoint: among the faults, and again when they are over.
ENDLESS = replace(
    CHAOS,
    name="chaos-endless",
    job="endless",
    moments=AT_COMMITS,
    events=(
        Timed(SECOND, RequestWish("savepoint", "early")),
        Timed(SECOND * 5 // 2, RequestWish("stop", "first")),
        Timed(CHAOS.safety_us + SECOND // 2, RequestWish("stop", "last")),
    ),
)
# Another job begins from each savepoint: from one with which a job was stopped, into the same output.
MOVED = replace(
    QUIET,
    name="moved",
    job="windowed",
    events=(Timed(SECOND, RequestWish("stop", "first")), Timed(SECOND * 3, RescaleWish(3))),
    moments=(Moment("savepoint complete", 1, BeginElsewhere(), SECOND),),
    rates={"publish": Rates(failed=0.1, unknown=0.1), "file": Rates(failed=0.002, unknown=0.002, crash=0.002)},
    safety_us=4 * SECOND,
)

# The job changes in the midst of faults, and an engine dies right behind the first commit after that.
MIGRATED = replace(
    CHAOS,
    name="chaos-migrated",
    job="migrated",
    events=(Timed(SECOND, ChangeJob("second", apart_us=SECOND // 10)),),
    moments=AT_COMMITS,
)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        QUIET,
        CHECKPOINT,
        RESCALE_UP,
        PUSHED,
        TALLY,
        TALLY_UP,
        AROUND,
        LONE_CALLS,
        CHAOS,
        *OTHER_JOBS,
        *SERVED,
        LOOKED_UP,
        STALLED,
        ENDLESS,
        MOVED,
        MIGRATED,
    )
}
