"""Two jobs of the simulated core run to their end; each run has one fault at one effect.

The fault is a crash before the effect, a crash after it, or a lost reply. ``make test`` has every fifth of these
runs, ``make long`` has all. ``tests/sim/test_real_engine.py`` crashes the real engine before each effect of two jobs.
"""

import pytest

from sim.kernel.faults import parse_crash
from sim.running import Case, every_crash, run_all, run_case
from tests.support.long_tests import count

pytestmark = pytest.mark.timeout(1200)  # a busy machine takes its time


@pytest.mark.parametrize("scenario", ["checkpoint", "rescale-up"])
def test_a_fault_at_any_effect_breaks_no_promise(scenario: str) -> None:
    cases = every_crash(scenario, seed=0)[:: count(5, 1)]  # no multiple of 3, the number of ways to fail
    assert len(cases) > count(60, 300)
    bad = "\n".join(str(r) for r in run_all(cases) if r.rule)
    assert not bad, bad


@pytest.mark.parametrize(
    ("scenario", "crash"),
    [
        ("drained", "172:after"),  # a worker is told to end while others go back to a checkpoint
        ("drained", "241:before"),  # an engine has just died, and its keeper still has its last report
        ("restore-elsewhere", "185:unknown"),  # a savepoint fails, and the job that asked for it goes on
        ("restore-older", "3:after"),  # a stopped job runs again that has no epoch to go back to
        ("restore-older", "332:before"),  # a keeper dies while the next run is wanted and has not begun
        ("restore-older", "281:after"),  # the next run is wanted while the Lease of a dead leader has not ended
    ],
)
def test_what_a_judge_once_refused_breaks_no_promise(scenario: str, crash: str) -> None:
    result = run_case(Case(scenario, 0, parse_crash(crash)))
    assert not result.rule, str(result)
    assert result.injected
