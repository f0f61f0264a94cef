"""The scenarios of real engines."""

from penstock.base.values import replace
from sim.kernel.faults import Rates
from sim.kernel.kernel import SECOND
from sim.kernel.nemesis import KillEngine, Profile, RescaleWish, Timed
from sim.scenario import Scenario
from sim.scenario_table import USUAL

QUIET = Scenario("quiet", safety_us=SECOND)

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

CHAOS = Scenario(
    "chaos",
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

SCENARIOS = {scenario.name: scenario for scenario in (QUIET, AROUND, CHAOS)}
