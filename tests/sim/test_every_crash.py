"""A crash before and after, and a lost reply, of every single effect until two jobs have ended."""

import pytest

from sim.running import every_crash, run_all

pytestmark = pytest.mark.timeout(1200)  # a busy machine takes its time


@pytest.mark.parametrize("scenario", ["checkpoint", "rescale-up"])
def test_a_fault_at_any_effect_breaks_no_promise(scenario: str) -> None:
    cases = every_crash(scenario, seed=0)
    assert len(cases) > 300
    bad = "\n".join(str(r) for r in run_all(cases) if r.rule)
    assert not bad, bad
